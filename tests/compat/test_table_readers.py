"""Readers of other programs' own, which need other versions than the tests: `make table-readers`.

DuckDB reads by its extensions `delta` (Delta's own kernel) and `iceberg`, Spark by Iceberg's jar.
Of Delta's jar for Spark there is no package: `OTTLA_DELTA_JARS` in `test_grown_tables.py` names it.
"""

import json
import subprocess
from pathlib import Path
from shutil import which

import pytest

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import optimize
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.values.decoder import Decoding, ValueFormat
from tests.support.grown_values import SCHEMAS, VALUES
from tests.support.patience import PATIENCE_S

READERS = Path(__file__).parent / "readers"
PYTHON = READERS.parents[2] / ".venv-readers" / "bin" / "python"
CONDITIONS = {
    "offset >= 0": [0, 1, 2, 3, 4, 5],
    "offset > 2": [3, 4, 5],
    "value.id > 1000": [2, 5],
    "value.note = 'n'": [1, 4],
}
"""With the offsets of the rows that fulfil each."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="they are not there: make table-readers"),
    pytest.mark.skipif(which("java") is None, reason="Spark 3.5 needs a Java 17"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, and a table of it in each format: by day, of columns that grew and became wider, read
    again in part, compacted, and loaded into once more."""
    path = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(path))
        patch.setenv("PYICEBERG_HOME", str(path))
        for into in (str(path / "table"), "iceberg://lake/shop.orders"):
            fill(path / f"log-{into[:7]}".replace("/", "-"), into)
    return path


def fill(log_path: Path, into: str) -> None:
    place = LoadRoute(str(log_path), "orders", into)
    for round_number, (schema, value) in enumerate([*zip(SCHEMAS, VALUES, strict=True)] * 2):
        with ottla.open(log_path) as log:
            if not round_number:
                log.create_topic("orders")
            log.append("orders", json.dumps(value).encode())
        decoding = Decoding(format=ValueFormat.JSON, schema=schema) if round_number < 3 else None
        layout = LayoutOptions(
            decoding=decoding,
            partitioning=None if round_number else Partitioning.by_time("day"),
        )
        load(load_job(place, LocalEngine(), options=LoadOptions(layout=layout)))
        if round_number == 3:
            rerun(load_job(place, LocalEngine()), rerun_range("1", "3", "orders"))
            optimize(into, LocalEngine())
            vacuum(into, SystemClock(), retention_ms=0)


def check(reader: str, table: str) -> None:
    words = [str(PYTHON), str(READERS / "reading.py"), reader, table, *CONDITIONS]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    for (condition, offsets), rows in zip(CONDITIONS.items(), json.loads(done.stdout), strict=True):
        assert sorted(row["offset"] for row in rows) == offsets, condition
        for row in rows:
            value = {"note": None, "tags": None, **VALUES[row["offset"] % 3]}
            assert {name: row["value"][name] for name in value} == value
            assert reader.startswith("iceberg") or row["day"]


def test_duckdb_reads_a_delta_table_by_its_own_extension(home: Path) -> None:
    check("delta by DuckDB", str(home / "table"))


@pytest.mark.parametrize("engine", ["DuckDB", "Spark"])
def test_engines_read_an_iceberg_table_by_its_metadata(home: Path, engine: str) -> None:
    from pyiceberg.catalog import load_catalog

    directory = home / ".local/share/ottla/iceberg/lake"
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{directory}/catalog.db")
    place = catalog.load_table("shop.orders").metadata_location
    check(f"iceberg by {engine}", place.removeprefix("file://"))
