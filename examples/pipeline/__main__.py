"""Spark Declarative Pipelines over a log: tables that say what they are, and Spark fills them.

    python -m examples.pipeline [ACCESS_LOG]

Writes the activity log if it is not there, then has `spark-pipelines run` fill the tables that
`transformations` declares. Run it again and they are filled again. Needs `pyspark[pipelines]`.
"""

import argparse
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.activity import write
from examples.activity_data import requests
from ottla.spark.java import find_java

TRANSFORMATIONS = Path(__file__).parent / "transformations"
JAVA = """\
#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
SOURCES = Path(__file__).resolve().parents[2] / "src"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("access_log", type=Path, nargs="?", help="gzipped or not")
    parser.add_argument("--data-dir", type=Path, default=Path("pipeline-data"))
    arguments = parser.parse_args()
    home = arguments.data_dir.resolve()
    count = write(home / "log", list(requests(arguments.access_log)))
    console = Console()
    console.print(f"{count:,} requests written to {home / 'log'}", soft_wrap=True)
    with console.status("filling tables"):
        run(home)
    show(home, console)


def run(home: Path) -> None:
    """Ends the process with Spark's own words if a table cannot be filled."""
    home.mkdir(parents=True, exist_ok=True)
    project = home / "project"
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(TRANSFORMATIONS, project / "transformations")
    (project / "spark-pipeline.yml").write_text(specification(home))
    (project / "conf").mkdir()
    (project / "conf" / "spark-defaults.conf").write_text(defaults(home))
    result = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run"],
        cwd=project,
        env={
            **os.environ,
            "JAVA_HOME": str(java_home(home)),
            "PYSPARK_PYTHON": sys.executable,
            # For Spark's workers, where ottla is not installed but lies beside this example.
            "PYTHONPATH": os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")]),
            "SPARK_CONF_DIR": str(project / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        sys.exit(result.stdout + result.stderr)


def java_home(home: Path) -> Path:
    """Where `bin/java` is; it leaves out a module that Spark asks for and small Javas lack."""
    program = home / "java" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(JAVA.format(java=find_java(os.environ).program))
    program.chmod(0o755)
    return home / "java"


def specification(home: Path) -> str:
    """The project's own file."""
    return f"""\
name: activity
storage: {(home / "storage").as_uri()}
libraries:
  - glob:
      include: transformations/**
configuration:
  ottla.example.path: {home / "log"}
  spark.sql.shuffle.partitions: "2"
"""


def defaults(home: Path) -> str:
    """Spark's settings. Only Hive's catalog still knows the tables when it is run again."""
    return f"""\
spark.sql.catalogImplementation hive
spark.sql.warehouse.dir {home / "tables"}
spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={home / "catalog"};create=true
spark.sql.session.timeZone UTC
spark.ui.enabled false
"""


def rows(home: Path, table: str) -> list[dict[str, str | int | date]]:
    """What is in a table; its files are plain Parquet."""
    import pyarrow.parquet as pq

    found: list[dict[str, str | int | date]] = pq.read_table(home / "tables" / table).to_pylist()
    return found


def show(home: Path, console: Console) -> None:
    days = Table("day (UTC)", "requests", "visitors", title="days")
    for one in sorted(rows(home, "days"), key=lambda row: str(row["day"])):
        days.add_row(str(one["day"]), f"{one['requests']:,}", f"{one['visitors']:,}")
    missing = Table("page", "requests", title="missing")
    for one in sorted(rows(home, "missing"), key=lambda row: -int(str(row["requests"])))[:8]:
        missing.add_row(str(one["page"]), f"{one['requests']:,}")
    console.print(days, missing)
    console.print(f"tables: {home / 'tables'}", soft_wrap=True)


if __name__ == "__main__":
    main()
