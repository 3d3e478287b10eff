"""Other engines read a table: each row once, whatever else lies there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ottla.table
from ottla.cli.main import main
from ottla.loading.job import LoadRoute
from ottla.loading.rerun_plan import rerun_range
from ottla.spark.load import load, rerun
from ottla.spark.session import LocalSession
from tests.support.topics import append, log_rows, table_rows

deltalake = pytest.importorskip("deltalake")

Offsets = list[tuple[int, int]]


def by_pyarrow(path: str) -> Offsets:
    rows = ottla.table.dataset(path).to_table(columns=["partition", "offset"])
    return list(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


def by_pandas(path: str) -> Offsets:
    import pandas as pd

    rows = pd.concat([pd.read_parquet(file) for file in ottla.table.files(path)])
    return list(zip(rows["partition"].tolist(), rows["offset"].tolist(), strict=True))


def by_polars(path: str) -> Offsets:
    polars = pytest.importorskip("polars")
    return polars.scan_delta(path).select("partition", "offset").collect().rows()


def by_duckdb(path: str) -> Offsets:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.read_parquet(ottla.table.files(path))
    return found.project('"partition", "offset"').fetchall()


def by_duckdb_and_the_log(path: str) -> Offsets:
    """By a pyarrow dataset of the Delta table: its own extension is not in the wheel."""
    duckdb = pytest.importorskip("duckdb")
    rows = deltalake.DeltaTable(path).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        return connection.from_arrow(rows).project('"partition", "offset"').fetchall()


def by_delta(path: str) -> Offsets:
    rows = deltalake.DeltaTable(path).to_pyarrow_table(columns=["partition", "offset"])
    return list(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


READERS = [by_pyarrow, by_pandas, by_polars, by_duckdb, by_duckdb_and_the_log, by_delta]


@pytest.fixture
def torn(loaded: Path, local_session: LocalSession) -> Path:
    """With files that were replaced, and others that no commit came to name."""
    place = LoadRoute(str(loaded / "log"), "orders", str(loaded / "table"))
    rerun(place, rerun_range("5", "300", "orders"), spark=local_session.spark)
    left = loaded / "table" / "data" / f"load-{9:020d}-00000000"
    left.mkdir()
    (left / "part-0.parquet").write_bytes(
        Path(ottla.table.files(str(loaded / "table"))[0]).read_bytes()
    )
    return loaded


@pytest.mark.parametrize("read", READERS)
def test_every_reader_sees_every_row_once(torn: Path, read: Callable[[str], Offsets]) -> None:
    expected = [row[:2] for row in log_rows(torn / "log")]
    assert sorted(read(str(torn / "table"))) == expected


def test_spark_and_the_dataset_see_the_same_values(torn: Path, local_session: LocalSession) -> None:
    expected = log_rows(torn / "log")
    assert table_rows(local_session.spark, torn / "table") == expected
    rows = ottla.table.dataset(str(torn / "table")).to_table()
    order = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert order["value"].to_pylist() == [row[3] for row in expected]


def run(capsys: Any, *arguments: str) -> list[str]:
    with pytest.raises(SystemExit) as end:
        main(["table", *arguments])
    assert not end.value.code
    return list(capsys.readouterr().out.splitlines())


def test_the_commands_print_files_and_rows(torn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(torn / "table")
    files = ottla.table.files(table)
    assert run(capsys, "files", table) == files
    told = [json.loads(line) for line in run(capsys, "files", table, "--json")]
    assert sum(one["row_count"] for one in told) == 780
    assert f"{len(files)} files, 780 rows" in "\n".join(run(capsys, "files", table, "--long"))
    rows = [json.loads(line) for line in run(capsys, "read", table, "--json")]
    assert len(rows) == 780
    assert set(rows[0]) >= {"key", "value", "partition", "offset", "timestamp", "headers"}
    shown = run(capsys, "read", table, "--columns", "partition,offset", "-n", "3")
    assert "3 of 780 rows" in "\n".join(shown)


def test_hours_that_are_complete_are_reported_and_marked(
    tmp_path: Path, local_session: LocalSession, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path / "log", {0: 5})
    table = str(tmp_path / "table")
    load(str(tmp_path / "log"), "orders", table, spark=local_session.spark)
    (hour,) = ottla.table.complete_hours(table)
    assert dict(hour.until_offsets) == {0: 5, 1: 0}
    assert (tmp_path / "table" / "_ottla" / "hours" / f"{hour.name}.json").exists()
    assert "0: 5, 1: 0" in "\n".join(run(capsys, "hours", table))
    assert run(capsys, "hours", table, "--hour", hour.name) == [f"{hour.name} is complete"]
    with pytest.raises(SystemExit) as end:
        main(["table", "hours", table, "--hour", "2999-01-01T00"])
    assert end.value.code == 1


def test_a_damaged_file_is_one_line(loaded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in ottla.table.files(str(loaded / "table")):
        Path(file).write_bytes(b"torn")
    for command in ("read", "optimize"):
        with pytest.raises(SystemExit) as end:
            main(["table", command, str(loaded / "table")])
        assert end.value.code == 1
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert ".parquet" in line
