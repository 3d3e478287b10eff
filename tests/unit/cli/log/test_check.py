"""`ottla log check`: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import log_group, main
from tests.support.damaged_logs import Files, bad_record, sound_files, torn_tail


def written(files: Files, directory: Path) -> Path:
    """The files on this machine's disk; returns the log directory."""
    for name, content in files.content.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory / "data"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(log_group, ["check", *map(str, arguments)], catch_exceptions=False)


def test_a_sound_directory_is_one_line_and_exit_code_0(tmp_path: Path) -> None:
    directory = written(sound_files(), tmp_path)
    result = run("--deep", directory)
    assert result.exit_code == 0
    assert result.output == (
        f"{directory}: sound (2 partitions, 5 segments, 23 batches, 42 records, 1938 bytes)\n"
    )


def test_findings_are_a_line_each_and_exit_code_1(tmp_path: Path) -> None:
    files = sound_files()
    name, position = bad_record(files)
    torn_tail(files)
    result = run(written(files, tmp_path))
    assert result.exit_code == 1
    *lines, last = result.output.splitlines()
    expected = f"{tmp_path / name} at byte {position}: CRC mismatch: header 0x"
    assert len([line for line in lines if line.startswith(expected)]) == 1
    assert last.startswith(f"{tmp_path}/data: ")
    assert " findings (" in last


def test_notes_are_distinguished_and_leave_the_exit_code_0(tmp_path: Path) -> None:
    files = sound_files()
    del files.content["data/.kafka_cleanshutdown"]
    result = run(written(files, tmp_path))
    assert result.exit_code == 0
    assert result.output.startswith(f"note: {tmp_path}/data: was not stopped cleanly")


def test_json_has_one_object_a_line(tmp_path: Path) -> None:
    files = sound_files()
    name, position = torn_tail(files)
    result = run("--json", written(files, tmp_path))
    assert result.exit_code == 1
    *findings, summary = (json.loads(line) for line in result.output.splitlines())
    (torn,) = [one for one in findings if one["kind"] == "log_damage"]
    assert (torn["type"], torn["file"], torn["position"]) == (
        "finding",
        str(tmp_path / name),
        position,
    )
    assert summary["type"] == "summary"
    assert summary["is_sound"] is False
    assert summary["findings"] == len(findings)


def test_what_cannot_be_checked_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["log", "check", str(tmp_path)])
    assert stopped.value.code == 2
    assert "holds no Kafka log" in capsys.readouterr().err
