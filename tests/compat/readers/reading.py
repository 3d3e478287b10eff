"""Prints the rows that a reader finds in a table, as JSON: `reading.py READER TABLE CONDITION...`.

It runs in `.venv-readers`, where nothing of ottla is. A table is Delta's directory, or the file of
Iceberg's metadata that its catalog names.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

COLUMNS = ["offset", "value"]
OF_DELTA = ["offset", "day", "value"]
"""The day is a column of Delta's tables, and a transform of Iceberg's."""
QUOTED_OFFSET = '"offset"'
"""As DuckDB wants it, where it is a word of SQL."""


def by_duckdb(function: str, names: list[str], *extensions: str) -> Any:
    def read(table: str, conditions: list[str]) -> Any:
        import duckdb

        connection = duckdb.connect()
        for name in extensions:
            (file,) = installed(f"duckdb_extension_{name}").rglob(f"{name}.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        columns = ", ".join(f'"{name}"' for name in names)
        for condition in conditions:
            found = connection.execute(
                f"SELECT {columns} FROM {function}(?) "
                f"WHERE {condition.replace('offset', QUOTED_OFFSET)}",
                [table],
            )
            yield [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    return read


def by_spark(table: str, conditions: list[str]) -> Any:
    from pyspark.sql import SparkSession
    from relocating import relocate

    with tempfile.TemporaryDirectory() as directory:
        jackson = Path(directory) / "jackson.jar"
        relocate(installed("pyspark") / "jars", jackson)
        jars = installed("snowpark_connect_deps_iceberg").rglob("iceberg-spark-runtime-3.5_2.12-*")
        names = ",".join(str(one) for one in [*jars, jackson])
        spark = SparkSession.builder.master("local[1]").config("spark.jars", names).getOrCreate()
        rows = spark.read.format("iceberg").load(table).select(COLUMNS)
        for condition in conditions:
            yield [row.asDict(recursive=True) for row in rows.where(condition).collect()]


def installed(package: str) -> Path:
    (found,) = (Path(one, package) for one in sys.path if Path(one, package).is_dir())
    return found


READERS = {
    "delta by DuckDB": by_duckdb("delta_scan", OF_DELTA, "delta"),
    "iceberg by DuckDB": by_duckdb("iceberg_scan", COLUMNS, "avro", "iceberg"),
    "iceberg by Spark": by_spark,
}

if __name__ == "__main__":
    reader, table, *wanted = sys.argv[1:]
    print(json.dumps(list(READERS[reader](table, wanted))), flush=True)
    os._exit(0)
