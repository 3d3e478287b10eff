"""A log that is damaged after a clean stop, as a load, an audit and the data source meet it."""

from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.spark.session import LocalSession
from tests.support.topics import append, table_rows

BATCH_RECORDS = 25


def run(*arguments: str | Path) -> int:
    """A command's exit code."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    return end.value.code if isinstance(end.value.code, int) else 0


def flip(path: Path) -> None:
    """Flips a bit of a record in the last segment's first batch."""
    last = max((path / "orders-0").glob("*.log"))
    content = bytearray(last.read_bytes())
    content[300] ^= 1
    last.write_bytes(content)


def cut_at_last_batch(path: Path) -> None:
    """Takes the last segment's content away, which leaves no torn batch behind."""
    max((path / "orders-0").glob("*.log")).write_bytes(b"")


def arguments_of(tmp_path: Path) -> list[str | Path]:
    return [tmp_path / "log", "--topic", "orders"]


@pytest.mark.parametrize("damage", [flip, cut_at_last_batch])
def test_a_load_and_an_audit_end_with_what_is_damaged(
    tmp_path: Path,
    local_session: LocalSession,
    capsys: pytest.CaptureFixture[str],
    damage: object,
) -> None:
    append(tmp_path / "log", {0: 500})
    into = ["--into", tmp_path / "table"]
    assert run("load", *arguments_of(tmp_path), *into) == 0
    assert callable(damage)
    damage(tmp_path / "log")
    capsys.readouterr()
    assert run("audit", *arguments_of(tmp_path), "--table", tmp_path / "table", "--all") == 1
    told = capsys.readouterr()
    assert "cannot be read" in told.err
    assert "equal" not in told.out
    assert run("load", *arguments_of(tmp_path), "--into", tmp_path / "other") == 1
    told = capsys.readouterr()
    for words in ("orders-0", "at byte", "cannot be read", "ottla log repair"):
        assert words in told.err
    assert len(told.err.strip().splitlines()) == 1


def test_what_lies_after_damage_is_loaded_and_audited_where_that_is_asked_for(
    tmp_path: Path, local_session: LocalSession, caplog: pytest.LogCaptureFixture
) -> None:
    append(tmp_path / "log", {0: 500})
    flip(tmp_path / "log")
    into = ["--into", tmp_path / "table", "--skip-damaged"]
    assert run("load", *arguments_of(tmp_path), *into) == 0
    assert "skipped: " in caplog.text
    rows = table_rows(local_session.spark, tmp_path / "table")
    assert len(rows) == 500 - BATCH_RECORDS
    audit = ["--table", tmp_path / "table", "--all", "--skip-damaged"]
    assert run("audit", *arguments_of(tmp_path), *audit) == 0


def test_the_data_source_reads_on_after_damage_with_its_option(
    tmp_path: Path, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 500})
    flip(tmp_path / "log")
    reader = local_session.spark.read.format("ottla").option("subscribe", "orders")
    with pytest.raises(Exception, match="cannot be read"):
        reader.load(str(tmp_path / "log")).count()
    rows = reader.option("skipDamaged", "true").load(str(tmp_path / "log"))
    assert rows.count() == 500 - BATCH_RECORDS
