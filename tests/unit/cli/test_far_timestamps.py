"""Records of times that no calendar has: before year 1, after year 9999, and the ends of a Long.

Producers that send microseconds as milliseconds write year 58,000. Every place keeps the number of
such a record, or says null, and shows the records beside it.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
import ottla.table
from ottla.cli.main import cli

pytestmark = pytest.mark.slow

TIMES = [
    -(2**63),
    -62_135_596_800_001,
    -1,
    0,
    1_700_000_000_000,
    253_402_300_800_000,
    1_700_000_000_000_000,
    2**63 // 1_000,
    2**63 - 1,
]
"""In milliseconds; some are in no year from 1 to 9999, and -1 means none."""

FAR = [one for one in TIMES if not -62_135_596_800_000 <= one < 253_402_300_800_000]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("far") / "data"
    with ottla.open(directory) as log:
        log.create_topic("t")
        for number, time_ms in enumerate(TIMES):
            batch = ottla.RecordBatchBuilder()
            batch.append(b"k%d" % number, b'{"n": %d}' % number, time_ms)
            log.append_batch("t", 0, batch)
    return directory


def run(*arguments: object) -> str:
    found = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.parametrize(
    "form",
    ["line", "json", "%T %s\n", "{timestamp} {value}\n"],
)
def test_each_record_is_printed_with_its_time_in_every_format(data: Path, form: str) -> None:
    printed = run("consume", data, "t", "--format", form)
    assert printed.count("\n") >= len(TIMES)
    assert all(str(one) in printed for one in FAR)


@pytest.mark.parametrize("command", ["records", "consume"])
@pytest.mark.parametrize(
    ("place", "count"),
    [("@0", 6), ("@253402300800000", 4), (f"@{2**63 - 1}", 1), ("@9999-12-31T23:59:59Z", 4)],
)
def test_reading_starts_at_any_time(data: Path, command: str, place: str, count: int) -> None:
    assert run(command, data, "t", "-o", place).count("\n") == count


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow", "duckdb"])
def test_every_record_is_exported_with_its_time_or_with_null(
    data: Path, tmp_path: Path, ending: str
) -> None:
    pytest.importorskip("pyarrow")
    file = tmp_path / f"t.{ending}"
    run("export", data, "t", "-o", file)
    if ending in ("csv", "jsonl"):
        assert all(str(one) in file.read_text() for one in FAR)
        return
    if ending == "parquet":
        rows = pytest.importorskip("pyarrow.parquet").read_table(file)
    elif ending == "arrow":
        rows = pytest.importorskip("pyarrow.feather").read_table(file)
    else:
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(file), read_only=True) as opened:
            rows = opened.sql('FROM t ORDER BY "offset"').to_arrow_table()
    if ending == "duckdb":
        # DuckDB's own conversions end at the years that it has.
        times = rows["timestamp"].to_pylist()
        assert [one is None for one in times] == [one in (*FAR, -1) for one in TIMES]
    else:
        expected = [None if one == -1 else one for one in TIMES]
        assert rows["timestamp"].cast("int64").to_pylist() == expected


LOADS = [(), ("--partition-by", "hour"), ("--upsert-by", "key"), ("--decode", "json")]


@pytest.mark.parametrize("into", ["table", "iceberg://lake/shop.far"])
@pytest.mark.parametrize("options", LOADS, ids=" ".join)
def test_every_record_is_loaded_with_its_time_or_with_null(
    data: Path, tmp_path: Path, into: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyiceberg" if "iceberg" in into else "deltalake")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    table = into if "iceberg" in into else str(tmp_path / into)
    local = ("--engine", "local")
    run("load", data, "--topic", "t", "--into", table, *local, *options)
    for _ in range(2):
        found = ottla.table.dataset(table).to_table().sort_by("offset")["timestamp"]
        known = [one for one in TIMES if one not in (*FAR, -1)]
        assert found.drop_null().cast("int64").to_pylist() == [one * 1000 for one in known]
        assert [one is None for one in found.to_pylist()] == [one not in known for one in TIMES]
        run("audit", data, "t", "--table", table, "--all")
        assert run("table", "read", table).count("null") >= len(TIMES) - len(known)
        run("table", "optimize", table, *local, "--sort-by", "timestamp")


def test_every_record_is_found_by_a_query(data: Path) -> None:
    pytest.importorskip("duckdb")
    known = [one for one in TIMES if one not in (*FAR, -1)]
    (count,) = run("sql", data, "select count(timestamp) as n from t", "--json").splitlines()
    assert json.loads(count)["n"] == len(known)
    assert run("sql", data, "select * from t", "--json").count("\n") == len(TIMES)


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "describe"),
        ("explain", "retention"),
        ("explain", "compaction"),
    ],
)
def test_the_topic_is_described(data: Path, arguments: tuple[str, ...]) -> None:
    assert "t" in run(*arguments, data, "t")


def test_what_a_scan_gives_has_every_time_as_the_number_that_it_is(data: Path) -> None:
    pytest.importorskip("pyarrow")
    with ottla.open(data, read_only=True) as log:
        assert log.scan("t").to_arrow()["timestamp_ms"].to_pylist() == TIMES
        if find_spec("pandas"):
            assert log.scan("t").to_pandas()["timestamp_ms"].tolist() == TIMES
        if find_spec("polars"):
            assert log.scan("t").to_polars()["timestamp_ms"].to_list() == TIMES
        assert [one.timestamp_ms for one in log.read("t")] == TIMES
