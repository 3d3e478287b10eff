"""Changes as the latest state: what deletes, what is refused, and Debezium's events."""

import json
import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.cli.main import cli
from ottla.loading.auditing.audit import audit
from ottla.loading.auditing.report import AuditReport
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, Envelope, ValueFormat
from ottla.tables.writing.record_writer import OnError

pytest.importorskip("deltalake")
pytestmark = pytest.mark.slow

ENVELOPES = Decoding(
    format=ValueFormat.JSON, schema="id bigint, name string", envelope=Envelope.DEBEZIUM
)
Change = tuple[bytes | None, bytes | None]


def append(path: Path, *changes: Change, partitions: int = 1) -> None:
    with ottla.open(path / "log") as log:
        if "people" not in log.topics():
            log.create_topic("people", partitions=partitions)
        for key, value in changes:
            log.append("people", value, key=key, partition=0)


def loaded(path: Path, layout: LayoutOptions | None = None, **options: Any) -> LoadReport:
    layout = layout or LayoutOptions(upsert=Upsert())
    place = LoadRoute(str(path / "log"), "people", str(path / "table"))
    return load(load_job(place, LocalEngine(), options=LoadOptions(layout=layout, **options)))


def rows(path: Path, **moment: Any) -> dict[bytes, Any]:
    found = ottla.table.dataset(str(path / "table"), **moment).to_table(["key", "value"])
    pairs = [(row["key"], row["value"]) for row in found.to_pylist()]
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def audited(path: Path) -> AuditReport:
    log = open_log(topic_options(str(path / "log"), "people"))
    return audit(Table(str(path / "table")), log, "people", compare_all=True)


def event(op: str, after: Any, **more: Any) -> dict[str, Any]:
    """As Debezium writes it to a topic; the fields that tell where it comes from are shortened."""
    source = {"connector": "postgresql", "lsn": 24023128, "table": "people", "snapshot": "false"}
    return {"before": None, "after": after, "source": source, "op": op, "ts_ms": 1, **more}


def encoded(key: int | None, value: Any, *, has_schema: bool = False) -> Change:
    parts = [None if key is None else {"id": key}, value]
    if has_schema:
        schema = {"type": "struct", "optional": False, "fields": [{"type": "int64"}]}
        parts = [None if one is None else {"schema": schema, "payload": one} for one in parts]
    key_bytes, value_bytes = (None if one is None else json.dumps(one).encode() for one in parts)
    return key_bytes, value_bytes


def test_each_load_puts_changed_rows_in_place_of_the_old_ones(tmp_path: Path) -> None:
    append(tmp_path, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    report = loaded(tmp_path)
    assert report.merged is not None
    assert (report.row_count, report.merged.upserted, report.merged.superseded) == (3, 2, 0)
    append(tmp_path, (b"a", None), (b"c", b"1"), (b"c", b"2"), (b"x", None))
    report = loaded(tmp_path)
    assert report.merged is not None
    assert (report.row_count, report.merged.upserted, report.merged.superseded) == (4, 1, 1)
    assert rows(tmp_path) == {b"b": b"1", b"c": b"2"}
    assert loaded(tmp_path).nothing_new
    assert rows(tmp_path, version=0) == {b"a": b"2", b"b": b"1"}
    assert audited(tmp_path).is_equal


def test_other_engines_read_the_latest_state(tmp_path: Path) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    append(tmp_path, *((b"%d" % number, b"old") for number in range(50)))
    loaded(tmp_path)
    append(tmp_path, (b"7", b"new"), (b"8", None))
    loaded(tmp_path)
    table = str(tmp_path / "table")
    expected = [(b"%d" % one, b"new" if one == 7 else b"old") for one in range(50) if one != 8]
    from_polars = polars.read_delta(table).select("key", "value").rows()
    assert sorted(from_polars) == sorted(expected)
    import deltalake

    read = deltalake.DeltaTable(table).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("people", read)
    found = connection.execute("select key, value from people").fetchall()
    assert sorted((bytes(key), bytes(value)) for key, value in found) == sorted(expected)


def test_a_merge_reads_only_files_that_may_have_the_keys(tmp_path: Path) -> None:
    for first in range(0, 300, 100):
        append(tmp_path, *((b"%04d" % one, b"v") for one in range(first, first + 100)))
        loaded(tmp_path)
    before = set(ottla.table.files(str(tmp_path / "table")))
    assert len(before) == 3
    for path in before:
        if not path.endswith(ottla.table.data_files(str(tmp_path / "table"))[1].path):
            Path(path).rename(f"{path}.away")
    append(tmp_path, (b"0150", b"new"))
    loaded(tmp_path)
    for path in before:
        away = Path(f"{path}.away")
        if away.exists():
            away.rename(path)
    assert len(before & set(ottla.table.files(str(tmp_path / "table")))) == 2
    assert rows(tmp_path)[b"0150"] == b"new"
    assert audited(tmp_path).is_equal


def test_long_keys_are_found_although_their_bounds_are_cut(tmp_path: Path) -> None:
    keys = [b"k" * 40 + b"%d" % one for one in range(3)] + [b"\xff" * 40, b"\xff" * 31 + b"a" * 9]
    append(tmp_path, *((key, b"old") for key in keys))
    loaded(tmp_path)
    for key in keys:
        append(tmp_path, (key, b"new"))
        loaded(tmp_path)
    assert rows(tmp_path) == dict.fromkeys(keys, b"new")


def test_keys_count_by_partition_as_where_kafka_compacts(tmp_path: Path) -> None:
    append(tmp_path, (b"a", b"0"), partitions=2)
    with ottla.open(tmp_path / "log") as log:
        log.append("people", b"1", key=b"a", partition=1)
    loaded(tmp_path)
    append(tmp_path, (b"a", None))
    loaded(tmp_path)
    assert rows(tmp_path) == {b"a": b"1"}
    assert audited(tmp_path).is_equal


def test_a_record_without_a_key_is_refused_or_set_aside(tmp_path: Path) -> None:
    append(tmp_path, (b"a", b"1"), (None, b"?"))
    with pytest.raises(UserError, match=r"offset 1: .*it has no key, and rows are updated by key"):
        loaded(tmp_path)
    report = loaded(tmp_path, on_error=OnError.QUARANTINE)
    assert (report.row_count, report.quarantined_count) == (1, 1)
    assert rows(tmp_path) == {b"a": b"1"}
    assert audited(tmp_path).is_equal


def test_a_table_of_records_does_not_become_one_of_the_latest_state(tmp_path: Path) -> None:
    append(tmp_path, (b"a", b"1"))
    loaded(tmp_path, LayoutOptions())
    with pytest.raises(UserError, match="a row for each record, which cannot change"):
        loaded(tmp_path)


def test_a_later_load_need_not_say_again_what_a_table_is(tmp_path: Path) -> None:
    append(tmp_path, (b"a", b"1"))
    loaded(tmp_path)
    append(tmp_path, (b"a", b"2"))
    loaded(tmp_path, LayoutOptions())
    assert rows(tmp_path) == {b"a": b"2"}


def test_the_state_at_offsets_is_that_after_the_load_that_ended_there(tmp_path: Path) -> None:
    append(tmp_path, (b"a", b"1"), (b"b", b"1"))
    loaded(tmp_path)
    append(tmp_path, (b"a", b"2"))
    loaded(tmp_path)
    assert rows(tmp_path, offsets={0: 2}) == {b"a": b"1", b"b": b"1"}
    assert rows(tmp_path, offsets={0: 3}) == {b"a": b"2", b"b": b"1"}
    with pytest.raises(UserError, match="no load ended at these offsets"):
        rows(tmp_path, offsets={0: 1})


def test_a_rerun_reads_from_an_offset_to_the_end_of_the_table(tmp_path: Path) -> None:
    append(tmp_path, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"1"))
    loaded(tmp_path)
    before = rows(tmp_path)
    place = LoadRoute(str(tmp_path / "log"), "people", str(tmp_path / "table"))
    report = rerun(load_job(place, LocalEngine()), rerun_range("1", None, "people"))
    assert (report.row_count, report.merged) != (0, None)
    assert rows(tmp_path) == before == {b"a": b"2", b"c": b"1"}
    assert audited(tmp_path).is_equal
    with pytest.raises(UserError, match="leave --to out"):
        rerun(load_job(place, LocalEngine()), rerun_range("1", "3", "people"))


def test_rows_move_between_directories_by_time(tmp_path: Path) -> None:
    layout = LayoutOptions(upsert=Upsert(), partitioning=Partitioning.by_time("day"))
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("people")
        for day in (1, 2):
            log.append("people", b"%d" % day, key=b"a", timestamp_ms=day * 86_400_000)
            log.append("people", b"x", key=b"%d" % day, timestamp_ms=day * 86_400_000)
    loaded(tmp_path, layout, ending=None)
    with ottla.open(tmp_path / "log") as log:
        log.append("people", b"3", key=b"a", timestamp_ms=3 * 86_400_000)
    loaded(tmp_path, layout)
    found = ottla.table.dataset(str(tmp_path / "table")).to_table(["key", "day"]).to_pylist()
    days = {row["key"]: row["day"] for row in found}
    assert days == {b"1": "1970-01-02", b"2": "1970-01-03", b"a": "1970-01-04"}
    assert len(found) == 3
    assert audited(tmp_path).is_equal


@pytest.mark.parametrize("has_schema", [False, True])
def test_events_of_debezium_are_the_rows_after_each_change(
    tmp_path: Path, has_schema: bool
) -> None:
    changes = [
        (1, event("r", {"id": 1, "name": "Ada", "unknown": [1]})),
        (2, event("c", {"id": 2, "name": "Alan"})),
        (1, event("u", {"id": 1, "name": None}, transaction={"id": "5"})),
        (2, event("d", None, before={"id": 2, "name": "Alan"})),
        (2, None),
        (3, event("c", {"id": 3, "name": "Grace"})),
    ]
    append(tmp_path, *(encoded(*one, has_schema=has_schema) for one in changes))
    loaded(tmp_path, LayoutOptions(upsert=Upsert(), decoding=ENVELOPES))
    assert sorted(rows(tmp_path).values(), key=lambda row: int(row["id"])) == [
        {"id": 1, "name": None},
        {"id": 3, "name": "Grace"},
    ]
    assert audited(tmp_path).is_equal


def test_the_schema_of_debezium_s_rows_is_inferred(tmp_path: Path) -> None:
    append(tmp_path, encoded(1, event("c", {"id": 1, "name": "Ada", "born": 1815})))
    decoding = Decoding(format=ValueFormat.JSON, schema="", envelope=Envelope.DEBEZIUM)
    loaded(tmp_path, LayoutOptions(upsert=Upsert(), decoding=decoding))
    assert [*rows(tmp_path).values()] == [{"id": 1, "name": "Ada", "born": 1815}]


def test_a_truncation_empties_the_table_up_to_it(tmp_path: Path) -> None:
    layout = LayoutOptions(upsert=Upsert(), decoding=ENVELOPES)
    append(tmp_path, *(encoded(one, event("c", {"id": one, "name": "x"})) for one in range(5)))
    loaded(tmp_path, layout)
    append(
        tmp_path,
        encoded(6, event("c", {"id": 6, "name": "x"})),
        encoded(None, event("t", None)),
        encoded(7, event("c", {"id": 7, "name": "x"})),
    )
    loaded(tmp_path, layout)
    assert [row["id"] for row in rows(tmp_path).values()] == [7]
    assert audited(tmp_path).is_equal


def test_a_truncation_among_several_partitions_is_no_row(tmp_path: Path) -> None:
    append(tmp_path, encoded(None, event("t", None)), partitions=3)
    with pytest.raises(
        UserError, match="reports a truncation of the source; changes in the other 2 partitions may"
    ):
        loaded(tmp_path, LayoutOptions(upsert=Upsert(), decoding=ENVELOPES))


def test_what_is_no_change_of_a_row_is_set_aside(tmp_path: Path) -> None:
    append(
        tmp_path,
        encoded(1, event("m", None)),
        encoded(2, event("u", None)),
        encoded(3, {"id": 3}),
        encoded(None, event("d", None)),
        encoded(4, event("c", {"id": 4, "name": "x"})),
    )
    layout = LayoutOptions(upsert=Upsert(), decoding=ENVELOPES)
    report = loaded(tmp_path, layout, on_error=OnError.QUARANTINE)
    assert (report.row_count, report.quarantined_count) == (1, 4)
    assert len(rows(tmp_path)) == 1
    assert audited(tmp_path).is_equal


def test_an_envelope_stays_what_the_first_load_had(tmp_path: Path) -> None:
    append(tmp_path, encoded(1, event("c", {"id": 1, "name": "x"})))
    loaded(tmp_path, LayoutOptions(upsert=Upsert(), decoding=ENVELOPES))
    bare = Decoding(format=ValueFormat.JSON, schema="id bigint, name string")
    with pytest.raises(UserError, match="loaded with --envelope debezium"):
        loaded(tmp_path, LayoutOptions(upsert=Upsert(), decoding=bare))


def avro(schema: Any, value: Any, schema_id: int) -> bytes:
    """As Confluent's serializer writes it."""
    fastavro = pytest.importorskip("fastavro")
    stream = BytesIO(struct.pack(">bI", 0, schema_id))
    stream.seek(5)
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def test_events_in_avro_are_read_by_their_schemas_in_a_registry(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [{"name": "id", "type": "long"}]
    registry = tmp_path / "schemas"
    registry.mkdir()
    for number in (1, 2):
        if number == 2:
            name = {"name": "name", "type": ["null", "string"], "default": None}
            fields = [*fields, name]
        row = {"type": "record", "name": "Value", "namespace": "shop.people", "fields": fields}
        source = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}
        envelope = {
            "type": "record",
            "name": "Envelope",
            "namespace": "shop.people",
            "fields": [
                {"name": "before", "type": ["null", row], "default": None},
                {"name": "after", "type": ["null", "Value"], "default": None},
                {"name": "source", "type": source},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": ["null", "long"], "default": None},
            ],
        }
        (registry / f"{number}.avsc").write_text(json.dumps(envelope))
        (registry / f"people-value.{number}.avsc").write_text(json.dumps(envelope))
        more = {} if number == 1 else {"name": "Grace"}
        about = {"before": None, "source": {"lsn": 5}, "ts_ms": 1}
        changes = [
            (b"1", {**about, "op": "c", "after": {"id": number, **more}}),
            (b"2", {**about, "op": "c", "after": {"id": 2, **more}}),
            (b"2", {**about, "op": "d", "after": None}),
        ]
        append(tmp_path, *((key, avro(envelope, one, number)) for key, one in changes))
        decoding = Decoding(
            format=ValueFormat.AVRO,
            schema="",
            registry=str(registry),
            subject="people-value",
            envelope=Envelope.DEBEZIUM,
        )
        loaded(tmp_path, LayoutOptions(upsert=Upsert(), decoding=decoding))
    assert rows(tmp_path) == {b"1": {"id": 2, "name": "Grace"}}
    assert audited(tmp_path).is_equal


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_commands_load_optimize_audit_and_show_a_table_of_the_latest_state(tmp_path: Path) -> None:
    log, table = str(tmp_path / "log"), str(tmp_path / "table")
    options = ["--into", table, "--engine", "local", "--upsert-by", "key", "--decode", "json"]
    options += ["--envelope", "debezium", "--schema", "id bigint, name string"]
    append(tmp_path, encoded(1, event("c", {"id": 1, "name": "Ada"})))
    assert "1 change merged: 1 row came and 0 went" in run("load", log, "people", *options)
    append(
        tmp_path,
        encoded(1, event("u", {"id": 1, "name": "Alan"})),
        encoded(2, event("c", {"id": 2, "name": "Grace"})),
    )
    assert "2 changes merged: 2 rows came and 1 went" in run("load", log, "people", *options)
    assert "Alan" in run("table", "read", table)
    run("table", "optimize", table, "--engine", "local", "--sort-by", "key", "--target-size", "1Mi")
    assert "nothing to do" in run(
        "table", "optimize", table, "--engine", "local", "--sort-by", "key", "--target-size", "1Mi"
    )
    assert "are equal: 2 loads, 1 optimization" in run("audit", log, "people", "--table", table)
    assert "2 (+2 -1)" in run("table", "history", table)
    last = json.loads(run("table", "history", table, "--json", "--limit", "2").splitlines()[0])
    assert (last["rows_read"], last["rows_upserted"], last["rows_superseded"]) == (2, 2, 1)
    assert last["until_offsets"] == {"0": 3}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--upsert-by", "key", "--envelope", "debezium"], "--envelope applies to decoded values"),
        (["--decode", "json", "--envelope", "debezium"], "add --upsert-by key"),
    ],
)
def test_options_without_a_meaning_are_refused(
    tmp_path: Path, options: list[str], words: str
) -> None:
    append(tmp_path, (b"a", b"1"))
    into = ["--into", str(tmp_path / "table"), "--engine", "local"]
    done = CliRunner().invoke(cli, ["load", str(tmp_path / "log"), "people", *into, *options])
    assert done.exit_code != 0
    assert words in str(done.exception or done.output) + done.output
