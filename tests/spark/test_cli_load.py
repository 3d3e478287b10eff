"""`ottla load` as it is typed; the commands use the session that is there."""

from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.spark.session import LocalSession
from tests.support.topics import append


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["load", *arguments])
    return end.value.code if isinstance(end.value.code, int) else 0


@pytest.mark.usefixtures("local_session")
def test_a_load_shows_what_it_did_and_a_second_one_that_nothing_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path / "log", {0: 1200, 1: 34})
    arguments = [str(tmp_path / "log"), "--topic", "orders", "--into", str(tmp_path / "table")]
    assert run(*arguments) == 0
    told = capsys.readouterr().out
    assert "Loaded orders" in told
    assert "1,234 rows in" in told
    assert "1 Parquet file of" in told
    assert str(tmp_path / "table") in told
    assert run(*arguments) == 0
    assert "nothing new in orders" in capsys.readouterr().out


def test_what_a_person_did_wrong_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(tmp_path / "nowhere"), "--topic", "orders", "--into", str(tmp_path / "t")]
    assert run(*arguments) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert "nowhere is neither a directory that exists nor HOST:PORT of a broker" in told[0]


def test_a_damaged_log_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 500})
    first = tmp_path / "log" / "orders-0" / f"{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[300] ^= 1
    first.write_bytes(content)
    arguments = [str(tmp_path / "log"), "--topic", "orders", "--into", str(tmp_path / "table")]
    assert run(*arguments) == 1
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert "at byte 0: CRC" in told[0]
