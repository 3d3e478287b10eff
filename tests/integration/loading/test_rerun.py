"""Reruns: ranges that are read again, whatever happens on the way."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.cli.main import main
from ottla.loading.job import LoadRoute
from ottla.loading.load import LoadReport
from ottla.loading.rerun_plan import RerunRange, rerun_range
from ottla.table import files as table_files
from ottla.tables.entries import Action
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import Progress, Step
from tests.support.auditing import audited
from tests.support.local_loads import load, rerun
from tests.support.topics import append, dataset_rows, log_rows

BEFORE_THE_COMMIT = [step for step in Step if step is not Step.COMMITTED]


class Stopped(BaseException):
    """Ends a rerun on the spot, as a kill does, but leaves the process."""


def forge(path: str) -> None:
    """Values that were never produced, in a file that looks as before otherwise."""
    rows = pq.read_table(path)
    values = pa.array([b"forged"] * rows.num_rows, pa.binary())
    pq.write_table(rows.set_column(rows.schema.get_field_index("value"), "value", values), path)
    # Spark would find out by the checksum that it keeps beside the file.
    (Path(path).parent / f".{Path(path).name}.crc").unlink(missing_ok=True)


def run_again(path: Path, wanted: RerunRange) -> LoadReport:
    place = LoadRoute(str(path / "log"), "orders", str(path / "table"))
    return rerun(place, wanted)


def test_a_range_is_read_again_and_rows_beside_it_stay(loaded: Path) -> None:
    before = dataset_rows(loaded / "table")
    for path in table_files(str(loaded / "table")):
        forge(path)
    report = run_again(loaded, rerun_range("0:333", "0:720", "orders"))
    assert [(one.partition, one.from_offset, one.until_offset) for one in report.partitions] == [
        (0, 333, 720)
    ]
    assert report.partitions[0].copied_count > 0
    after = dataset_rows(loaded / "table")
    is_new = [row[0] == 0 and 333 <= row[1] < 720 for row in after]
    assert [row for row, new in zip(after, is_new, strict=True) if new] == before[333:720]
    assert {row[3] for row, new in zip(after, is_new, strict=True) if not new} == {b"forged"}
    assert [row[:2] for row in after] == [row[:2] for row in before]
    entry = Table(str(loaded / "table")).entries()[-1]
    assert (entry.action, len(entry.replaces) > 1) == (Action.RERUN, True)


def test_a_table_read_again_whole_equals_its_log_and_loads_continue(loaded: Path) -> None:
    for path in table_files(str(loaded / "table")):
        forge(path)
    report = run_again(loaded, RerunRange())
    assert (report.commit_id, report.row_count) == (2, 780)
    assert audited(loaded).differences == []
    append(loaded / "log", {0: 10})
    load(str(loaded / "log"), "orders", str(loaded / "table"))
    assert dataset_rows(loaded / "table") == log_rows(loaded / "log")
    found = audited(loaded)
    assert (found.differences, found.reruns, found.rows) == ([], 1, 790)


def test_reruns_of_parts_of_reruns_still_add_up(loaded: Path) -> None:
    for begin, end in ((100, 500), (400, 710), (450, 460)):
        run_again(loaded, rerun_range(f"0:{begin}", f"0:{end}", "orders"))
    assert dataset_rows(loaded / "table") == log_rows(loaded / "log")
    report = audited(loaded)
    assert report.differences == []
    assert report.rows_counted == report.rows_compared == 780


def test_times_mean_the_first_offset_that_is_as_late(loaded: Path) -> None:
    wanted = rerun_range("@1700000000010", "@1700000000025", "orders")
    report = run_again(loaded, wanted)
    assert [(one.from_offset, one.until_offset) for one in report.partitions] == [
        (10, 25),
        (10, 25),
    ]
    assert audited(loaded).is_equal
    with pytest.raises(UserError, match="nothing to read again"):
        run_again(loaded, rerun_range("@2000000000000", None, "orders"))


def test_a_rerun_that_stops_at_any_step_leaves_readers_the_table_as_it_was(loaded: Path) -> None:
    table = loaded / "table"
    files = table_files(str(table))
    place = LoadRoute(str(loaded / "log"), "orders", str(table))
    for step in BEFORE_THE_COMMIT:

        def stop(progress: Progress, step: Step = step) -> None:
            if progress.step is step:
                raise Stopped

        with pytest.raises(Stopped):
            rerun(
                place,
                rerun_range("20", "600", "orders"),
                progress=stop,
            )
        assert table_files(str(table)) == files
    assert audited(loaded).is_equal
    assert run_again(loaded, rerun_range("20", "600", "orders")).commit_id == 2
    assert audited(loaded).is_equal
    vacuum(str(table), SystemClock(), retention_ms=0)
    in_data = {str(path) for path in (table / "data").rglob("*.parquet")}
    assert in_data == set(table_files(str(table)))


def test_where_no_table_is_none_is_made(tmp_path: Path) -> None:
    append(tmp_path / "log", {0: 5})
    with pytest.raises(UserError, match="holds no table"):
        run_again(tmp_path, RerunRange())
    assert not (tmp_path / "table").exists()


def test_the_command_says_what_was_read_again(
    loaded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(loaded / "log"), "--topic", "orders", "--into", str(loaded / "table")]
    time = datetime.fromtimestamp(1_700_000_000.030, UTC).isoformat()
    with pytest.raises(SystemExit) as end:
        main(["load", *arguments, "--engine", "local", "--rerun", "--from", "0:20", "--to", time])
    assert not end.value.code
    told = capsys.readouterr().out
    assert "Reran orders" in told
    assert "10 rows read again" in told
    with pytest.raises(SystemExit) as refused:
        main(["load", *arguments, "--engine", "local", "--from", "20"])
    assert refused.value.code == 2
    assert "--from is for a table's first load" in capsys.readouterr().err
