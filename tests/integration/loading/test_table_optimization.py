"""Small files put together, and the old ones removed, whatever happens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import TaskError, UserError
from ottla.cli.main import main
from ottla.loading.job import LoadRoute
from ottla.loading.rerun_plan import rerun_range
from ottla.table import files as table_files
from ottla.tables.ledger.completeness import HOUR_MS
from ottla.tables.maintenance.merging import MergeJob
from ottla.tables.maintenance.optimize import OptimizeOptions, OptimizeReport
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import Progress, Step
from tests.support.auditing import audited
from tests.support.local_loads import load, optimize, rerun
from tests.support.topics import append, dataset_rows, log_rows

BEFORE_THE_COMMIT = [step for step in Step if step is not Step.COMMITTED]


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


def compacted(
    path: Path,
    progress: Callable[[Progress], None] = lambda _: None,
    target_size: int = 2**27,
) -> OptimizeReport:
    return optimize(
        str(path / "table"),
        progress=progress,
        options=OptimizeOptions(target_size=target_size),
    )


def test_a_compacted_table_has_the_same_rows_in_one_file(loaded: Path) -> None:
    files = table_files(str(loaded / "table"))
    report = compacted(loaded)
    assert len(files) > len(report.after) == 2
    assert [file.row_count for file in report.after] == [741, 39]
    assert dataset_rows(loaded / "table") == log_rows(loaded / "log")
    found = audited(loaded)
    assert (found.differences, found.optimizations, found.files) == ([], 1, 1)
    assert found.rows_counted == found.rows_compared == 780
    assert compacted(loaded).commit_id is None


def test_files_grow_no_larger_than_the_target(loaded: Path) -> None:
    sizes = [file.size for file in Table(str(loaded / "table")).current_files()]
    report = compacted(loaded, target_size=2 * max(sizes) + 1)
    by_partition = [file.partition for file in report.after]
    assert 2 < len(report.after) < len(sizes)
    assert by_partition.count(0) >= 2
    assert audited(loaded).is_equal


def test_loads_and_reruns_continue_after_a_compaction(loaded: Path) -> None:
    compacted(loaded)
    place = LoadRoute(str(loaded / "log"), "orders", str(loaded / "table"))
    again = rerun(place, rerun_range("0:100", "0:200", "orders"))
    assert again.partitions[0].copied_count == 641
    append(loaded / "log", {0: 10})
    load(str(loaded / "log"), "orders", str(loaded / "table"))
    compacted(loaded)
    assert dataset_rows(loaded / "table") == log_rows(loaded / "log")
    found = audited(loaded)
    assert found.differences == []
    assert (found.loads, found.reruns, found.optimizations, found.files) == (3, 1, 2, 1)


def test_a_compaction_that_stops_at_any_step_leaves_readers_the_table_as_it_was(
    loaded: Path,
) -> None:
    files = table_files(str(loaded / "table"))
    for step in BEFORE_THE_COMMIT:

        def stop(progress: Progress, step: Step = step) -> None:
            if progress.step is step:
                raise Stopped

        with pytest.raises(Stopped):
            compacted(loaded, stop)
        assert table_files(str(loaded / "table")) == files
    assert audited(loaded).is_equal
    assert compacted(loaded).commit_id == 2
    assert audited(loaded).is_equal
    in_data = {str(path) for path in (loaded / "table" / "data").rglob("*.parquet")}
    assert in_data > set(files) | set(table_files(str(loaded / "table")))
    assert vacuumed(loaded, 0) == (len(in_data) - 1, 0)
    in_data = {str(path) for path in (loaded / "table" / "data").rglob("*.parquet")}
    assert in_data == set(table_files(str(loaded / "table")))


def test_rows_that_got_lost_on_the_way_stop_a_compaction(
    loaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = MergeJob.run

    def run(self: MergeJob, *arguments: object) -> object:
        files = written(self, *arguments)  # type: ignore[arg-type]
        return files[:-1]

    monkeypatch.setattr(MergeJob, "run", run)
    with pytest.raises(TaskError, match="the written rows differ from those read"):
        compacted(loaded)
    assert audited(loaded).is_equal


def vacuumed(path: Path, hours: float, **given: bool) -> tuple[int, int]:
    retention_ms = round(hours * HOUR_MS)
    report = vacuum(str(path / "table"), SystemClock(), retention_ms=retention_ms, **given)
    return len(report.removed_paths), len(report.retained_paths)


def test_replaced_files_stay_for_readers_and_then_go(loaded: Path) -> None:
    files = [Path(path) for path in table_files(str(loaded / "table"))]
    compacted(loaded)
    assert vacuumed(loaded, 2) == (0, len(files))
    assert vacuumed(loaded, 0, is_dry=True) == (len(files), 0)
    assert all(path.exists() for path in files)
    assert vacuumed(loaded, 0) == (len(files), 0)
    assert not any(path.exists() for path in files)
    assert vacuumed(loaded, 0) == (0, 0)
    in_data = {str(path) for path in (loaded / "table" / "data").rglob("*.parquet")}
    assert in_data == set(table_files(str(loaded / "table")))
    assert audited(loaded).is_equal


def test_a_vacuum_that_stops_between_files_is_finished_by_the_next(loaded: Path) -> None:
    compacted(loaded)
    replaced = Table(str(loaded / "table")).entries()[-1].replaces

    def stop(path: str) -> None:
        (loaded / "table" / path).unlink()
        raise Stopped

    with pytest.raises(Stopped):
        vacuum(str(loaded / "table"), SystemClock(), retention_ms=0, on_removal=stop)
    assert audited(loaded).is_equal
    assert vacuumed(loaded, 0) == (len(replaced) - 1, 0)
    assert audited(loaded).is_equal
    assert vacuumed(loaded, 0) == (0, 0)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["table", *arguments])
    return end.value.code if isinstance(end.value.code, int) else 0


def test_the_commands_say_what_became_of_the_files(
    loaded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(loaded / "table")
    count = len(table_files(table))
    assert run("optimize", table, "--engine", "local") == 0
    assert f"{count} files of" in capsys.readouterr().out
    assert run("optimize", table, "--engine", "local") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert run("vacuum", table) == 0
    assert f"{count} files stay for readers" in capsys.readouterr().out
    assert run("vacuum", table, "--keep-hours", "0", "--dry-run") == 0
    assert f"would remove {count} files" in capsys.readouterr().out
    assert run("vacuum", table, "--keep-hours", "0") == 0
    assert f"removed {count} files that were replaced or left behind (" in capsys.readouterr().out


def test_the_commands_say_the_same_to_programs(
    loaded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(loaded / "table")
    before = {f"{table}/{path}" for path in paths_of(table)}

    def answer(*arguments: str) -> dict[str, Any]:
        assert run(*arguments, "--json") == 0
        return dict(json.loads(capsys.readouterr().out))

    compaction = answer("optimize", table, "--engine", "local")
    after = {f"{table}/{path}" for path in paths_of(table)}
    counts = [compaction[name] for name in ("rows", "files_before", "files_after")]
    assert counts == [780, len(before), len(after)]
    assert compaction["bytes_before"] > compaction["bytes_after"] > 0
    assert answer("optimize", table, "--engine", "local")["commit"] is None
    for words, is_dry in ((("--dry-run",), True), ((), False)):
        removal = answer("vacuum", table, "--keep-hours", "0", *words)
        assert removal["is_dry_run"] is is_dry
        assert set(removal["removed"]) == before
        assert removal["removed_bytes"] == compaction["bytes_before"]
    assert {str(path) for path in Path(table, "data").rglob("*.parquet")} == after


def paths_of(table: str) -> set[str]:
    return {file.path for file in Table(table).current_files()}


@pytest.mark.parametrize("command", ["optimize", "vacuum", "files", "read", "hours", "history"])
def test_where_there_is_no_table_none_is_made(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, str(tmp_path / "nowhere")) == 2
    assert "holds no table that ottla loaded" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(UserError):
        Table(str(tmp_path / "nowhere")).entries()
