"""`ottla log dump` as a person sees it, on a small log of this machine's disk."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.base.times import time_text
from ottla.cli.main import log_group, main
from ottla.cli.terminal import offsets_text, text_of_bytes
from tests.support.logs import TOPIC_ID, append, open_directory

LOG_NAME = "00000000000000000000.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """The directory of a partition with two batches."""
    directory = open_directory(OsFileSystem(), path=str(tmp_path / "data"))
    log = directory.create_log("t", 0, TOPIC_ID)
    append(log, b"zero", None)
    append(log, b"line\nbreak \xff", producer_id=4, producer_epoch=1, base_sequence=0)
    directory.close()
    return tmp_path / "data" / "t-0"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(log_group, ["dump", *map(str, arguments)], catch_exceptions=False)


def json_lines(*arguments: object) -> list[dict[str, Any]]:
    result = run("--json", *arguments)
    assert result.exit_code == 0
    return [json.loads(line) for line in result.output.splitlines()]


def test_batches_are_a_table(partition: Path) -> None:
    heading, names, first, second, _ = run(partition / LOG_NAME).output.splitlines()
    assert heading.endswith(f"{LOG_NAME}: log, {(partition / LOG_NAME).stat().st_size} bytes")
    columns = (
        "position offsets count size codec timestamps (UTC) leader epoch producer sequence crc"
    )
    assert " ".join(names.split()) == columns
    assert first.split()[:5] == ["0", "0–1", "2", "85", "none"]
    assert second.split()[:4] == ["85", "2", "1", "83"]
    assert "4/1" in second


def test_deep_shows_keys_and_values_as_text(partition: Path) -> None:
    output = run("--deep", partition / LOG_NAME).output
    assert 'offset 0  2023-11-14 22:13:20.000  key "key"  value "zero"' in output
    assert 'offset 1  2023-11-14 22:13:20.000  key "key"  value null' in output
    assert r'value "line\nbreak \xff"' in output
    assert len(output.splitlines()) == 7


def test_json_has_one_object_a_line(partition: Path) -> None:
    heading, *others = json_lines("--deep", partition / LOG_NAME)
    assert heading["type"] == "file"
    assert [one["type"] for one in others] == ["batch", "record", "record", "batch", "record"]
    assert {one["file"] for one in others} == {str(partition / LOG_NAME)}
    assert others[0]["base_offset"] == 0
    assert base64.b64decode(others[-1]["value"]) == b"line\nbreak \xff"
    assert others[2]["value"] is None


def test_damage_is_a_line_among_the_others(partition: Path) -> None:
    log = partition / LOG_NAME
    log.write_bytes(log.read_bytes()[:-3])
    result = run(log)
    assert result.exit_code == 0
    assert "DAMAGE at byte 85, 80 bytes: cut short: 83 bytes expected, 80 found" in result.output
    assert json_lines(log)[-1]["type"] == "damage"


def test_a_whole_log_directory_is_listed_in_order(partition: Path) -> None:
    found = json_lines(partition.parent)
    files = [Path(one["file"]).name for one in found if one["type"] == "file"]
    assert files[0] == "meta.properties"
    assert files.index("partition.metadata") < files.index(LOG_NAME) < len(files) - 1


def test_what_cannot_be_dumped_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["log", "dump", str(tmp_path / "nothing")])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"ottla: {tmp_path}/nothing does not exist\n"
    with pytest.raises(UserError, match="holds no Kafka log"):
        run(tmp_path)


def test_texts() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert time_text(1 << 62) == f"{1 << 62} ms"
    assert offsets_text(3, 3) == "3"
    assert offsets_text(3, 9) == "3–9"
    assert offsets_text(None, 9) == "?–9"
    assert text_of_bytes("é\\\t\u200b".encode()) == r'"é\\\t\xe2\x80\x8b"'
    assert text_of_bytes(b'{"a": 1}') == """'{"a": 1}'"""
    assert text_of_bytes(b"""'a' "b\"""") == r'''"'a' \"b\""'''
