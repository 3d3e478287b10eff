"""`ottla load --decode`: what the options come to, in tables that are read again."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.cli.main import cli

pytest.importorskip("deltalake")

pytestmark = pytest.mark.slow  # The first load of a process imports Arrow and Delta.

ORDER_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def fill(path: Path, *values: bytes) -> None:
    with ottla.open(path / "log") as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        log.append_many("orders", list(values))


def load(path: Path, *words: str, into: str = "table") -> Result:
    arguments = ["load", str(path / "log"), "orders", "--into", str(path / into)]
    return CliRunner().invoke(cli, [*arguments, "--engine", "local", *words])


def all_columns(path: Path, into: str = "table") -> list[Any]:
    found: list[Any] = (
        ottla.table.dataset(str(path / into)).to_table().sort_by("offset").to_pylist()
    )
    return found


def rows(path: Path, into: str = "table") -> list[Any]:
    return [row["value"] for row in all_columns(path, into)]


def test_a_json_schemas_fields_are_columns_and_what_it_does_not_name_is_counted_and_kept(
    tmp_path: Path,
) -> None:
    fill(tmp_path, b'{"id": 1, "tags": {"a": "x"}}', b'{"id": 2, "more": [1.50]}', b'{"x": 1}')
    schema = tmp_path / "order.schema.json"
    schema.write_text(json.dumps(ORDER_SCHEMA))
    first = load(tmp_path, "--decode", "json", "--schema", str(schema))
    assert first.exit_code == 0, first.output
    assert "2 values or keys have fields that the schema does not name" in first.output
    assert rows(tmp_path) == [
        {"id": 1, "tags": [("a", "x")], "_rescued": None},
        {"id": 2, "tags": None, "_rescued": '{"more":[1.50]}'},
        {"id": None, "tags": None, "_rescued": '{"x":1}'},
    ]
    audited = CliRunner().invoke(
        cli, ["audit", str(tmp_path / "log"), "orders", "--table", str(tmp_path / "table")]
    )
    assert audited.exit_code == 0, audited.output
    fill(tmp_path, b'{"id": 4, "more": [2]}')
    grown = {"properties": {**ORDER_SCHEMA["properties"], "more": {"items": {"type": "number"}}}}
    schema.write_text(json.dumps(grown))
    second = load(tmp_path, "--decode", "json", "--schema", str(schema))
    assert second.exit_code == 0, second.output
    assert "does not name" not in second.output
    last = rows(tmp_path)[-1]
    assert (last["id"], last["more"], last["_rescued"]) == (4, [2.0], None)


def test_fields_that_the_table_has_not_become_columns_on_request(tmp_path: Path) -> None:
    fill(tmp_path, b'{"id": 1}')
    assert load(tmp_path, "--decode", "json").exit_code == 0
    fill(tmp_path, b'{"id": 2, "new": {"x": [true]}}', b'{"id": 3, "new": {"y": 1}, "mixed": 1}')
    fill(tmp_path, b'{"id": 4, "mixed": "x"}')
    done = load(tmp_path, "--grow")
    assert done.exit_code == 0, done.output
    assert "2 values or keys have fields that the schema does not name" in done.output
    old = {"new": None, "_rescued": None}
    assert rows(tmp_path) == [
        {"id": 1, **old},
        {"id": 2, **old, "new": {"x": [True], "y": None}},
        {"id": 3, "new": {"x": None, "y": 1}, "_rescued": '{"mixed":1}'},
        {"id": 4, **old, "_rescued": '{"mixed":"x"}'},
    ]
    assert load(tmp_path, into="raw").exit_code == 0
    fill(tmp_path, b"{}")
    refused = load(tmp_path, "--grow", into="raw")
    assert (refused.exit_code, refused.stderr.count("--grow is for JSON")) == (2, 1)


def test_rows_are_sorted_by_keys_that_are_text_and_not_by_structs(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")
        for key in (b'{"x": 2}', b'{"x": 1}'):
            log.append("orders", b"v", key=key)
    structs = ["--decode-key", "json", "--key-schema", "id bigint"]
    done = load(tmp_path, *structs, into="structs")
    assert "2 values or keys have fields" in done.output
    assert load(tmp_path, "--decode-key", "text", into="text").exit_code == 0
    sort = ["--sort-by", "key", "--engine", "local"]
    refused = CliRunner().invoke(cli, ["table", "optimize", str(tmp_path / "structs"), *sort])
    assert (refused.exit_code, refused.stderr.count("have no order")) == (2, 1)
    done = CliRunner().invoke(cli, ["table", "optimize", str(tmp_path / "text"), *sort])
    assert done.exit_code == 0, done.output
    found = ottla.table.dataset(str(tmp_path / "text")).to_table()["key"].to_pylist()
    assert found == ['{"x": 1}', '{"x": 2}']


def test_what_a_schema_does_not_name_is_left_out_on_request(tmp_path: Path) -> None:
    fill(tmp_path, b'{"id": 1, "x": 1, "_rescued": 5}')
    schema = "id bigint, _rescued bigint"
    refused = load(tmp_path, "--decode", "json", "--schema", schema)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert "--no-rescued" in refused.stderr
    assert load(tmp_path, "--decode", "json", "--schema", schema, "--no-rescued").exit_code == 0
    assert rows(tmp_path) == [{"id": 1, "_rescued": 5}]


def test_protobuf_is_decoded_by_a_file_and_by_a_registry(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="no compiler of .proto: grpcio-tools is not installed")
    from tests.support.protobuf import message, proto, registered

    text = proto("message Order { int64 id = 1; repeated string teas = 2; } message Other {}")
    schema = tmp_path / "order.proto"
    schema.write_text(text)
    order = {"id": 7, "teas": ["green"]}
    fill(tmp_path, message(text, "Order")(**order).SerializeToString())
    ambiguous = load(tmp_path, "--decode", "protobuf", "--schema", str(schema))
    assert (ambiguous.exit_code, ambiguous.stderr.count("name one of Order, Other")) == (2, 1)
    words = ["--decode", "protobuf", "--schema", str(schema), "--message", "Order"]
    done = load(tmp_path, *words)
    assert done.exit_code == 0, done.output
    assert rows(tmp_path) == [order]

    registry = tmp_path / "schemas"
    registry.mkdir()
    for name in ("1.proto", "orders-value.1.proto"):
        (registry / name).write_text(text)
    grown = text.replace("repeated", "string note = 3; repeated")
    fill(tmp_path, registered(message(text, "Order")(**order)))
    by_ids = ["--decode", "protobuf", "--registry", str(registry), "--from", "1"]
    assert load(tmp_path, *by_ids, into="grown").exit_code == 0
    for name in ("2.proto", "orders-value.2.proto"):
        (registry / name).write_text(grown)
    fill(tmp_path, registered(message(grown, "Order")(**order, note="hot"), 2))
    assert load(tmp_path, into="grown").exit_code == 0
    assert rows(tmp_path, "grown") == [{**order, "note": None}, {**order, "note": "hot"}]


def test_keys_and_headers_are_columns_that_a_later_load_adds_to(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")
        log.append("orders", b"a", key=b"k1", headers=[("trace", b"t1"), ("attempt", b"2")])
    words = ["--decode-key", "text", "--on-error", "quarantine"]
    assert load(tmp_path, *words).exit_code == 0
    with ottla.open(tmp_path / "log") as log:
        log.append("orders", b"b", key=b"k2", headers=[("trace", b"t2"), ("attempt", b"3")])
        log.append("orders", b"c", key=b"\xff", headers=[("attempt", b"4")])
        log.append("orders", b"d", key=None, headers=[("attempt", b"many")])
    second = load(tmp_path, "--header-columns", "trace string, attempt int", *words[2:])
    assert second.exit_code == 0, second.output
    assert "2 records could not be decoded" in second.output
    found = all_columns(tmp_path)
    assert [(row["key"], row["value"], row["header"]) for row in found] == [
        ("k1", b"a", None),
        ("k2", b"b", {"trace": "t2", "attempt": 3}),
    ]
    audited = ["audit", str(tmp_path / "log"), "orders", "--table", str(tmp_path / "table")]
    done = CliRunner().invoke(cli, [*audited, "--all"])
    assert done.exit_code == 0, done.output
    compacted = ["table", "optimize", str(tmp_path / "table"), "--engine", "local"]
    done = CliRunner().invoke(cli, compacted)
    assert done.exit_code == 0, done.output
    assert (
        ottla.table.dataset(str(tmp_path / "table")).to_table().sort_by("offset").to_pylist()
        == found
    )


def test_rows_are_updated_by_fields_in_the_order_of_versions(tmp_path: Path) -> None:
    fill(tmp_path, b'{"id": 1, "at": 5, "op": "u"}', b'{"id": 1, "at": 4, "op": "u"}')
    merge = ["--upsert-by", "id", "--version-by", "at", "--delete-when", "value.op = d"]
    first = load(tmp_path, "--decode", "json", "--columns", "flat", *merge)
    assert first.exit_code == 0, first.output
    assert "1 row came and 0 went" in first.output
    fill(tmp_path, b'{"id": 1, "at": 6, "op": "d"}', b'{"id": 2, "at": 1, "op": "u"}')
    second = load(tmp_path)
    assert "1 row came and 1 went" in second.output
    found = ottla.table.dataset(str(tmp_path / "table")).to_table(["id", "at", "_offset"])
    assert found.to_pylist() == [{"id": 2, "at": 1, "_offset": 3}]
    audited = CliRunner().invoke(
        cli, ["audit", str(tmp_path / "log"), "orders", "--table", str(tmp_path / "table")]
    )
    assert audited.exit_code == 0, audited.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--version-by", "value.at"], "--version-by is for merging changes: add --upsert-by key"),
        (["--history"], "--history is for merging changes: add --upsert-by key"),
        (["--change-feed"], "--change-feed is for merging changes: add --upsert-by key"),
        (["--upsert-by", "value.no", "--decode", "json"], "no such column; it has key, value.id"),
        (["--upsert-by", "value.id"], "--upsert-by value.id: the table has no such column"),
        (
            ["--upsert-by", "key", "--delete-when", "value.op ="],
            "--delete-when 'value.op =': at character 11: a value to compare with is expected",
        ),
    ],
)
def test_merges_that_cannot_be_are_refused_in_one_line(
    tmp_path: Path, words: list[str], said: str
) -> None:
    fill(tmp_path, b'{"id": 1}')
    result = load(tmp_path, *words)
    assert result.exit_code != 0
    assert said in result.output
    assert not (tmp_path / "table" / "_delta_log").exists()


def test_a_schema_may_be_longer_than_the_name_of_a_file(tmp_path: Path) -> None:
    fill(tmp_path, b'{"field_50": 7}')
    schema = ", ".join(f"field_{number} bigint" for number in range(100))
    done = load(tmp_path, "--decode", "json", "--schema", schema)
    assert done.exit_code == 0, done.output
    assert rows(tmp_path)[0]["field_50"] == 7


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--message", "Order"], "add --decode protobuf"),
        (["--decode", "json", "--message", "Order"], "add --decode protobuf"),
        (["--decode", "protobuf"], "--schema FILE, or --registry"),
        (["--decode", "protobuf", "--schema", "gone.proto"], "gone.proto: No such file"),
        (["--decode", "avro", "--schema", "x", "--no-rescued"], "add --decode json"),
        (["--decode-key", "json"], "--key-schema SCHEMA-OR-FILE"),
        (["--decode-key", "text", "--key-schema", "id int"], "add --decode-key avro"),
        (["--decode-key", "avro", "--key-schema", "x", "--key-subject", "s"], "add --registry"),
        (["--header-columns", "a array<int>"], "use string, binary"),
        (["--decode", "json", "--schema", '{"type": "string"}'], "an object with properties"),
        (["--decode", "json", "--schema", "order.schema.json"], "order.schema.json: No such file"),
        (["--decode", "avro", "--schema", "schemas/order.avsc"], "order.avsc: No such file"),
        (["--decode-key", "json", "--key-schema", "key.json"], "key.json: No such file"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_one_line(
    tmp_path: Path, words: list[str], fix: str
) -> None:
    fill(tmp_path, b"{}")
    refused = load(tmp_path, *words)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert fix in refused.stderr


@pytest.mark.parametrize("option", [["--decode", "--schema"], ["--decode-key", "--key-schema"]])
def test_what_is_no_avro_schema_is_refused_before_anything_is_made(
    tmp_path: Path, option: list[str]
) -> None:
    fill(tmp_path, b"{}")
    for schema, words in (("order", "is not JSON"), ("{}", "this is not an Avro schema")):
        refused = load(tmp_path, option[0], "avro", option[1], schema)
        assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
        assert words in refused.stderr
        assert not (tmp_path / "table").exists()
