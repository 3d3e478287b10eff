"""Tables whose schema has grown, as programs read them that know nothing of ottla."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.layout import LayoutOptions
from ottla.tables.values.decoder import Decoding, ValueFormat
from tests.support.grown_values import SCHEMAS, VALUES

deltalake = pytest.importorskip("deltalake")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

GROWN = [{"note": None, "tags": None, **value} for value in VALUES]
Rows = list[dict[str, Any]]


@pytest.fixture
def grown(tmp_path: Path) -> str:
    """A load for each schema, which the next one adds a column to."""
    for count, value in enumerate(VALUES, 1):
        with ottla.open(tmp_path / "log") as log:
            if "orders" not in log.topics():
                log.create_topic("orders")
            log.append("orders", json.dumps(value).encode())
        layout = LayoutOptions(
            decoding=Decoding(format=ValueFormat.JSON, schema=SCHEMAS[count - 1]),
            partitioning=Partitioning.by_time("day") if count == 1 else None,
        )
        place = LoadRoute(str(tmp_path / "log"), "orders", str(tmp_path / "table"))
        load(load_job(place, LocalEngine(), options=LoadOptions(layout=layout)))
    return str(tmp_path / "table")


@pytest.mark.slow
def test_columns_come_in_the_version_of_their_rows(grown: str) -> None:
    # Besides the loads the last one made a schema of wider numbers, and files.
    assert deltalake.DeltaTable(grown).version() + 1 == len(VALUES) + 2
    second = deltalake.DeltaTable(grown, version=1)
    assert "note" in pa.schema(second.schema()).field("value").type.names
    assert second.to_pyarrow_table().num_rows == 2


def by_deltalake(path: str) -> Rows:
    found: Rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    return found


def by_polars(path: str) -> Rows:
    polars = pytest.importorskip("polars")
    found: Rows = polars.scan_delta(path).collect().to_dicts()
    return found


def by_duckdb(path: str) -> Rows:
    """By a pyarrow dataset of the Delta table: its own extension is not in the wheel."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        found = connection.from_arrow(deltalake.DeltaTable(path).to_pyarrow_dataset())
        rows: Rows = found.to_arrow_table().to_pylist()
        return rows


def by_ottla(path: str) -> Rows:
    found: Rows = ottla.table.dataset(path).to_table().to_pylist()
    return found


def by_daft(path: str) -> Rows:
    """In a process of its own: it runs threads that outlive a query, and may crash as it ends."""
    if find_spec("daft") is None:
        pytest.skip("daft is not installed")
    return by_program("import daft\nrows = daft.read_deltalake(path).to_arrow()", path)


def by_spark_with_deltas_jars(path: str) -> Rows:
    """Spark's own reader; Delta's jars are in no package that these tests may install."""
    jars = os.environ.get("OTTLA_DELTA_JARS")
    if not jars:
        pytest.skip("OTTLA_DELTA_JARS names no jars of Delta Lake (delta-spark, delta-storage)")
    program = f"""
import os
from ottla.spark.java import find_java
from pyspark.sql import SparkSession
os.environ["JAVA_HOME"] = os.path.dirname(os.path.dirname(find_java(os.environ).program))
builder = SparkSession.builder.master("local[1]").config("spark.jars", {jars!r})
builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
rows = builder.getOrCreate().read.format("delta").load(path).toArrow()
"""
    return by_program(program, path)


def by_program(program: str, path: str) -> Rows:
    """The rows that a program reads of `path` into a table of Arrow, `rows`."""
    text = f"import json\npath = {path!r}\n{program}\n"
    text += "print(json.dumps(rows.select(['offset', 'day', 'value']).to_pylist()), flush=True)\n"
    text += "import os; os._exit(0)"
    environment = {**os.environ, "DO_NOT_TRACK": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found: Rows = json.loads(done.stdout)
    return found


READERS = [
    by_deltalake,
    by_polars,
    by_duckdb,
    by_ottla,
    pytest.param(by_daft, marks=pytest.mark.slow),
    pytest.param(by_spark_with_deltas_jars, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("read", READERS)
def test_columns_that_a_table_grew_are_null_in_the_rows_before(
    grown: str, read: Callable[[str], Rows]
) -> None:
    rows = sorted(read(grown), key=lambda row: row["offset"])
    assert [row["value"] for row in rows] == GROWN
    assert all(row["day"] for row in rows)


@pytest.mark.slow
def test_no_file_of_a_table_has_a_narrower_type_than_its_column(grown: str) -> None:
    """Readers that do not widen may refuse such a file, or leave out rows in silence."""
    table = deltalake.DeltaTable(grown)
    files = table.file_uris()
    assert len(files) == len(VALUES)
    for path in files:
        value = parquet.read_schema(path).field("value").type
        assert value.field("id").type == pa.int64()
        assert value.field("who").type.field("ages").type.value_type == pa.int64()
