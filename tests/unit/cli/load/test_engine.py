"""`ottla load --engine local`, and what a load says of the engine that ran it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.extras import install_command
from ottla.cli.load.text import show_report
from ottla.cli.main import cli
from ottla.loading.load import LoadReport
from ottla.table import dataset
from ottla.tables.entries import LoadedPartition
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import PATIENCE_S

pytest.importorskip("deltalake")
rich_console = pytest.importorskip("rich.console")


def fill(path: Path, count: int, topic: str = "orders") -> None:
    with ottla.open(path) as log:
        if topic not in log.topics():
            log.create_topic(topic)
        log.append_many(topic, [b'{"id": %d}' % number for number in range(count)])


def local_load(path: Path, *words: str) -> Result:
    arguments = ["load", str(path / "log"), "orders", "--into", str(path / "table"), *words]
    return CliRunner().invoke(cli, [*arguments, "--engine", "local"])


def report_of(rows: int, start_seconds: float) -> LoadReport:
    loaded = LoadedPartition(
        topic="orders",
        topic_id=None,
        partition=0,
        from_offset=0,
        until_offset=rows,
        row_count=rows,
    )
    return LoadReport(
        topic="orders",
        into="table",
        commit_id=0,
        partitions=(loaded,),
        files=(),
        seconds=9.0,
        start_seconds=start_seconds,
    )


def shown(report: LoadReport) -> str:
    written = io.StringIO()
    show_report(rich_console.Console(file=written, width=200), report)
    return written.getvalue()


@pytest.mark.slow  # The first load of a process imports Arrow and Delta.
def test_a_local_load_reruns_sets_aside_audits_and_compacts_as_one_with_spark(
    tmp_path: Path,
) -> None:
    fill(tmp_path / "log", 1200)
    json_options = ["--decode", "json", "--schema", "id bigint", "--on-error", "quarantine"]
    first = local_load(tmp_path, *json_options)
    assert first.exit_code == 0, first.output
    assert "1,200 rows in" in first.output
    assert "Spark" not in first.output
    with ottla.open(tmp_path / "log") as log:
        log.append("orders", b"no JSON")
    assert "1 record could not be decoded" in local_load(tmp_path, *json_options[-2:]).output
    assert (
        "10 rows read again" in local_load(tmp_path, "--rerun", "--from", "5", "--to", "15").output
    )
    assert "nothing new in orders" in local_load(tmp_path).output
    fill(tmp_path / "log", 3)
    assert "3 rows in" in local_load(tmp_path).output
    merged = CliRunner().invoke(
        cli, ["table", "optimize", str(tmp_path / "table"), "--engine", "local"]
    )
    assert "files of" in merged.output, merged.output
    assert dataset(str(tmp_path / "table")).count_rows() == 1203
    audit = ["audit", str(tmp_path / "log"), "-t", "orders", "--table", str(tmp_path / "table")]
    audited = CliRunner().invoke(cli, [*audit, "--json"])
    assert audited.exit_code == 0, audited.output
    assert json.loads(audited.output)["quarantined"] == 1


@pytest.mark.slow
def test_a_process_that_loads_locally_imports_nothing_that_only_large_loads_need(
    tmp_path: Path,
) -> None:
    fill(tmp_path / "log", 10)
    words = ["load", str(tmp_path / "log"), "orders", "--into", str(tmp_path / "table")]
    code = f"""
import sys
from ottla.cli.start import main
unwanted = {{"pandas", "py4j", "pyspark", "ottla.client.connecting.cluster"}}
unwanted |= {{"numpy.ma", "pyarrow.compute", "rich.progress"}}
sys.argv = ["ottla", *{[*words, "--engine", "local"]!r}]
try:
    main()
finally:
    print(sorted(unwanted & {{*sys.modules}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    assert "10 rows in" in done.stdout


def test_a_short_load_says_how_long_java_took_to_start_and_how_to_avoid_it() -> None:
    assert "7.5 s of that was spent starting Spark's JVM; add --engine local" in shown(
        report_of(1000, 7.5)
    )
    assert "Java" not in shown(report_of(5_000_000, 7.5))
    assert "Java" not in shown(report_of(1000, 0.01))


def test_without_pyspark_both_ways_out_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "log", 1)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    arguments = ["load", str(tmp_path / "log"), "orders", "--into", str(tmp_path / "table")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert result.stderr == (
        f"ottla: pyspark is not installed: {install_command('spark')}, or add --engine local to do "
        "without Spark\n"
    )
