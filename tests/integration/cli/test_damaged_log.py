"""Commands on a directory whose log is damaged: one message, exit 1, and a way on after it."""

from pathlib import Path

import pytest

import ottla
from tests.integration.cli.support import run_ottla

pytestmark = pytest.mark.slow


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ten records, each a batch, in a closed directory; a bit of the fourth has flipped."""
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("t")
        for number in range(10):
            log.append("t", b"%d" % number * 20)
    assert run_ottla("mirror", tmp_path / "data", tmp_path / "copy").returncode == 0
    path = log_file(tmp_path / "data")
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 10 + 80] ^= 1
    path.write_bytes(content)
    return tmp_path / "data"


def log_file(directory: Path) -> Path:
    return directory / "t-0" / f"{0:020d}.log"


def check_error(text: str, directory: Path) -> None:
    assert len(text.strip().splitlines()) == 1
    for words in (
        str(log_file(directory)),
        "at byte ",
        "offset 3 cannot be read",
        f"ottla log check {directory}",
        f"ottla log repair {directory}",
    ):
        assert words in text


def test_records_says_what_is_damaged_and_prints_the_rest_when_told_to(data: Path) -> None:
    done = run_ottla("records", data, "--topic", "t")
    assert done.returncode == 1
    check_error(done.stderr, data)
    done = run_ottla("records", data, "--topic", "t", "--skip-damaged")
    assert done.returncode == 0
    offsets = [line.split("\t")[1] for line in done.stdout.splitlines()]
    assert offsets == [str(number) for number in range(10) if number != 3]
    assert done.stderr.startswith("skipped: ")
    assert "offset 3 cannot be read" in done.stderr


def test_records_says_what_a_truncated_log_has_lost(data: Path) -> None:
    path = log_file(data)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 10])
    done = run_ottla("records", data, "--topic", "t")
    assert done.returncode == 1
    assert "offsets 3 to 9 cannot be read" in done.stderr


def test_a_mirror_refuses_a_damaged_source_or_leaves_out_what_is_damaged(
    data: Path, tmp_path: Path
) -> None:
    done = run_ottla("mirror", data, tmp_path / "new")
    assert done.returncode == 1
    assert "offset 3 cannot be read" in done.stdout + done.stderr
    done = run_ottla("mirror", data, tmp_path / "new", "--skip-damaged")
    assert done.returncode == 0
    assert "offset 3 cannot be read" in done.stderr
    copied = run_ottla("records", tmp_path / "new", "--topic", "t").stdout.splitlines()
    assert len(copied) == 9


@pytest.mark.parametrize("is_source", [True, False])
def test_a_verification_names_the_damage_of_either_side(
    data: Path, tmp_path: Path, is_source: bool
) -> None:
    copy = tmp_path / "copy"
    assert run_ottla("mirror", "verify", copy, copy).returncode == 0
    places = (data, copy) if is_source else (copy, data)
    done = run_ottla("mirror", "verify", *places)
    assert done.returncode == 1
    assert "offset 3 cannot be read" in done.stdout


def test_a_verification_compares_with_what_must_be_there(data: Path, tmp_path: Path) -> None:
    """Both sides have lost the same."""
    copy = tmp_path / "copy"
    for directory in (data, copy):
        path = log_file(directory)
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 10])
    done = run_ottla("mirror", "verify", data, copy)
    assert done.returncode == 1
    assert "offsets 3 to 9 cannot be read" in done.stdout


def test_after_a_repair_readers_are_content_again(data: Path) -> None:
    assert run_ottla("log", "repair", data, "--in-place").returncode == 0
    done = run_ottla("records", data, "--topic", "t")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 9)


def test_after_a_repair_of_a_truncated_log_readers_are_content_again(data: Path) -> None:
    path = log_file(data)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 10])
    assert run_ottla("log", "check", data).returncode == 1
    assert run_ottla("log", "repair", data, "--in-place").returncode == 0
    done = run_ottla("records", data, "--topic", "t")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
