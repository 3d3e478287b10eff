"""`ottla log repair`: what it shows, what it does, and its exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.base.files import OsFileSystem
from ottla.cli.log.repair import lost_text
from ottla.cli.main import log_group, main
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.findings import LostOffsets
from tests.support.damaged_logs import (
    Files,
    bad_record,
    checkpoint_garbled,
    index_position,
    sound_files,
    torn_tail,
)


def written(files: Files, directory: Path) -> Path:
    """The files on this machine's disk; returns the log directory."""
    for name, content in files.content.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory / "data"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(log_group, ["repair", *map(str, arguments)], catch_exceptions=False)


def content_of(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def is_sound(directory: Path) -> bool:
    return check(OsFileSystem(), str(directory), deep=True).is_sound


def test_a_sound_directory_has_nothing_to_repair(tmp_path: Path) -> None:
    directory = written(sound_files(), tmp_path)
    result = run(directory)
    assert (result.exit_code, result.output) == (0, f"{directory}: nothing to repair\n")


def test_the_plan_is_shown_and_nothing_is_changed(tmp_path: Path) -> None:
    files = sound_files()
    name, position = bad_record(files)
    directory = written(files, tmp_path)
    before = content_of(directory)
    result = run(directory)
    assert result.exit_code == 1
    cut, index, last = result.output.splitlines()
    log = tmp_path / name
    assert cut.startswith(
        f"{log}: take out 83 bytes at byte {position}, kept in {log}.cut-{position}; "
        "offsets 2 to 3 are lost, 2 records at the most (CRC mismatch: header 0x"
    )
    assert index.startswith(f"{log}: rebuild its offset and time index")
    assert last.startswith("Nothing was changed")
    assert content_of(directory) == before


def test_in_place_repairs_and_says_what_is_lost_before_and_after(tmp_path: Path) -> None:
    files = sound_files()
    bad_record(files)
    checkpoint_garbled(files)
    directory = written(files, tmp_path)
    result = run("--in-place", directory)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert "offsets 2 to 3 are lost" in lines[0]
    assert lines[3] == (
        "Done: 3 steps. 83 bytes taken out of 1 log; t-0/00000000000000000000.log: "
        "offsets 2 to 3 are lost, 2 records at the most."
    )
    assert lines[-1].startswith(f"{directory}: sound")
    assert is_sound(directory)
    assert (directory / "recovery-point-offset-checkpoint.damaged").exists()


def test_a_copy_is_repaired_and_the_original_stays(tmp_path: Path) -> None:
    files = sound_files()
    torn_tail(files)
    index_position(files)
    directory = written(files, tmp_path)
    before = content_of(directory)
    result = run("--copy-to", tmp_path / "copy", directory)
    assert result.exit_code == 0
    assert is_sound(tmp_path / "copy")
    assert content_of(directory) == before


def test_what_cannot_be_repaired_leaves_exit_code_1(tmp_path: Path) -> None:
    files = sound_files()
    files["data/meta.properties"][:] = b"version=9\n"
    directory = written(files, tmp_path)
    for arguments in ([], ["--in-place"]):
        result = run(*arguments, directory)
        assert result.exit_code == 1
        assert "version 9 is not known" in result.output
    assert "no repair is known" in run(directory).output


def test_json_says_each_step(tmp_path: Path) -> None:
    files = sound_files()
    name, position = bad_record(files)
    directory = written(files, tmp_path)
    cut, index, summary = (
        json.loads(line) for line in run("--json", directory).output.splitlines()
    )
    assert (cut["type"], cut["kind"], cut["file"]) == ("action", "cut_out", str(tmp_path / name))
    assert (cut["position"], cut["size"]) == (position, 83)
    assert cut["kept_in"] == f"{tmp_path / name}.cut-{position}"
    assert (cut["lost_first_offset"], cut["lost_last_offset"]) == (2, 3)
    assert (index["kind"], index["kept_in"]) == ("rebuild_indexes", None)
    assert summary["type"] == "summary"
    lines = run("--json", "--in-place", directory).output.splitlines()
    assert json.loads(lines[-1])["is_sound"] is True


def test_a_directory_in_use_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sound_files()
    torn_tail(files)
    directory = written(files, tmp_path)
    lock = OsFileSystem().lock(str(directory / ".lock"))
    assert lock is not None
    with pytest.raises(SystemExit) as stopped:
        main(["log", "repair", "--in-place", str(directory)])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        f"ottla: {directory} is in use by this process; use the open log, or close it\n"
    )
    lock.release()
    with pytest.raises(SystemExit):
        main(["log", "repair", "--in-place", "--copy-to", "x", str(directory)])
    assert "exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        (LostOffsets(first=3, last=None), "whatever came after offset 2 is lost"),
        (
            LostOffsets(first=3, last=None, stated_last=9),
            "offsets 3 to 9 are lost, according to the header",
        ),
        (LostOffsets(first=3, last=2), "no offset is lost"),
        (LostOffsets(first=3, last=3), "offset 3 is lost"),
        (
            LostOffsets(first=3, last=3, is_control=True),
            "offset 3 is lost; it says that it ended a transaction",
        ),
    ],
)
def test_losses_are_reported_as_far_as_they_are_known(lost: LostOffsets, text: str) -> None:
    assert lost_text(lost) == text
