"""`ottla schemas`, with a registry over HTTP and with a directory of schemas."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("avro")

from ottla.cli.main import cli
from ottla.schema_registry.served.api import Api
from ottla.schema_registry.served.http import RegistryServer
from tests.unit.schema_registry.test_served_api import ListedLog


@pytest.fixture
def registry() -> Iterator[str]:
    server = RegistryServer(("127.0.0.1", 0), Api(ListedLog()), [])
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.close()


def run(*words: str, code: int = 0, typed: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["schemas", *words], input=typed)
    assert result.exit_code == code, (result.output, result.stderr)
    return result


def test_a_schema_is_registered_from_a_file_and_from_standard_input(
    registry: str, tmp_path: Path
) -> None:
    assert run("list", registry).stderr == f"{registry} has no subjects\n"
    file = tmp_path / "tea.avsc"
    file.write_text('"int"\n')
    done = run("register", registry, "tea-value", str(file))
    assert done.output == "tea-value: the schema is version 1, with id 1\n"
    again = run("register", registry, "tea-value", "-", "--json", typed='"int"')
    assert json.loads(again.output) == {"subject": "tea-value", "id": 1, "version": 1}
    run("register", registry, "tea-value", "-", typed='"long"')
    assert run("list", registry, "-q").output == "tea-value\n"
    shown = run("show", registry, "tea-value")
    assert shown.stdout == '"long"\n'
    assert shown.stderr == (
        "tea-value version 2 of 1, 2: AVRO, id 2, level BACKWARD (the global one)\n"
    )
    first = json.loads(run("show", registry, "tea-value", "--version", "1", "--json").output)
    assert (first["schema"], first["versions"]) == ('"int"', [1, 2])


def test_the_kind_is_that_of_the_files_name_or_of_the_option(registry: str, tmp_path: Path) -> None:
    proto = tmp_path / "tea.proto"
    proto.write_text('syntax = "proto3"; message Tea { string kind = 1; }')
    run("register", registry, "tea", str(proto))
    run("register", registry, "pots", "-", "--type", "json", typed='{"type": "object"}')
    kinds = [json.loads(run("show", registry, one, "--json").output) for one in ("tea", "pots")]
    assert [one["type"] for one in kinds] == ["PROTOBUF", "JSON"]


def test_a_reference_names_what_a_schema_uses(registry: str) -> None:
    run("register", registry, "tea", "-", typed='{"type": "enum", "name": "Tea", "symbols": ["A"]}')
    use = ("--reference", "Tea=tea:1")
    run("register", registry, "pots", "-", *use, typed='{"type": "array", "items": "Tea"}')
    assert "uses Tea: tea version 1" in run("show", registry, "pots").stderr
    for wrong in ("Tea", "Tea=tea", "Tea=tea:x", "=tea:1", "Tea=tea:0"):
        refused = run(
            "register", registry, "pots", "-", "--reference", wrong, code=2, typed='"int"'
        )
        assert "write NAME=SUBJECT:VERSION" in refused.stderr


def test_a_check_ends_with_1_where_a_schema_may_not_follow(registry: str) -> None:
    run("register", registry, "tea", "-", typed='"int"')
    assert (
        "is compatible, by level BACKWARD"
        in run("check", registry, "tea", "-", typed='"long"').output
    )
    refused = run("check", registry, "tea", "-", "--json", code=1, typed='"string"')
    found = json.loads(refused.stdout)
    assert (found["is_compatible"], len(found["faults"])) == (False, 1)
    assert "the schema is not compatible, by level BACKWARD" in refused.stderr
    run("register", registry, "tea", "-", code=1, typed='"string"')


def test_levels_are_shown_set_and_removed(registry: str) -> None:
    assert run("level", registry).output == "the global level is BACKWARD\n"
    run("register", registry, "tea", "-", typed='"int"')
    assert run("level", registry, "--subject", "tea", "--set", "none").output == (
        "tea: the level is NONE\n"
    )
    assert run("level", registry, "--subject", "tea", "--unset").output == (
        "tea: the level is BACKWARD, the global one\n"
    )
    run("level", registry, "--unset", code=2)


def test_what_is_deleted_can_be_read_until_it_is_deleted_for_good(registry: str) -> None:
    for kind in ("int", "long"):
        run("register", registry, "tea", "-", typed=f'"{kind}"')
    assert run("delete", registry, "tea", "--version", "1", "--yes").output == (
        "deleted version 1 of tea\n"
    )
    run("delete", registry, "tea", "--yes")
    assert run("list", registry, "-q").output == ""
    assert run("list", registry, "--deleted", "-q").output == "tea\n"
    assert run("show", registry, "tea", "--version", "2", "-q").output == '"long"\n'
    assert run("delete", registry, "tea", "--permanent", "--yes").output == (
        "deleted subject tea for good\n"
    )
    assert "has no subject" in run("show", registry, "tea", code=2).stderr


def test_a_directory_of_schemas_is_read_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "tea-value.avsc").write_text('"int"')
    place = str(tmp_path)
    assert run("list", place, "-q").output == "tea-value\n"
    shown = run("show", place, "tea-value")
    assert (shown.stdout, "version 1 of 1: AVRO, level NONE" in shown.stderr) == ('"int"\n', True)
    refused = run("register", place, "tea-value", "-", code=1, typed='"long"')
    assert "is a directory of schemas: change its files" in refused.stderr


def test_a_file_without_a_schema_is_refused(registry: str, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    for name, words in (("none", "No such file"), ("latin", "is not UTF-8")):
        refused = run("check", registry, "tea", str(tmp_path / name), code=2)
        assert words in refused.stderr
        assert "name a file with a schema" in refused.stderr
    assert "is empty" in run("check", registry, "tea", "-", code=2, typed=" \n").stderr
