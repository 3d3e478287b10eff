"""`ottla serve --table`: tables kept fresh by a process beside the broker."""

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from ottla.table import dataset
from tests.integration.cli.support import run_ottla, serving
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port
from tests.support.running_cluster import RunningCluster

pytest.importorskip("deltalake")
pytestmark = pytest.mark.slow


def tables_of(data: Path) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, ["status", str(data), "--json"])
    found: list[dict[str, Any]] = json.loads(result.stdout)["tables"]
    return found


def rows(table: Path) -> int:
    return int(dataset(str(table)).count_rows()) if any(table.glob("_delta_log/*.json")) else 0


def produce(address: str, topic: str, count: int) -> None:
    with ottla.Producer(address) as producer:
        for number in range(count):
            producer.send(topic, b'{"id": %d}' % number)


def loader_of(broker: int) -> int | None:
    """The process id of the broker's process that loads; `None` while there is none."""
    for one in Path("/proc").glob("[0-9]*"):
        try:
            command = (one / "cmdline").read_bytes().split(b"\0")
            parent = int((one / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue  # It has ended meanwhile.
        if parent == broker and b"--follow" in command:
            return int(one.name)
    return None


def test_a_table_gets_what_is_produced_also_after_its_process_was_killed(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    if not Path("/proc/self/stat").exists():
        pytest.skip("the loading process is looked for in /proc, which is Linux's")
    data, table = tmp_path / "data", tmp_path / "orders"
    metrics = f"127.0.0.1:{free_port()}"
    options = ["--table", f"orders={table}", "--metrics", metrics]
    options += ["--table-options", "--decode json --schema 'id bigint' --partition-by day"]
    with serving(data, *options) as (address, process):
        wait_until(
            lambda: [one["error"] for one in tables_of(data)] == ["there is no topic orders yet"],
            "the table waits for its topic",
        )
        with ottla.Admin(address) as admin:
            admin.create_topic("orders", partitions=2)
        produce(address, "orders", 20)
        killed = loader_of(process.pid)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: loader_of(process.pid) not in (None, killed), "another process loads")
        wait_until(
            lambda: (
                [(one["lag_records"], one["error"]) for one in tables_of(data)] == [(0, None)]
                and rows(table) == 20
            ),
            lambda: f"20 rows are loaded, and that is said: {tables_of(data)}",
        )
        with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
            scraped = answer.read().decode()
        assert f'ottla_table_lag_records{{table="{table}",topic="orders"}} 0.0' in scraped
        assert f'ottla_table_up{{table="{table}",topic="orders"}} 1.0' in scraped
        assert f"table orders={table} lag=0 records" in run_ottla("status", data).stdout
        produce(address, "orders", 7)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    # What came last was committed before it ended.
    assert rows(table) == 27
    values = dataset(str(table)).to_table(columns=["value"]).to_pylist()
    assert sum(row["value"]["id"] for row in values) == sum((*range(20), *range(7)))


def test_values_are_decoded_by_the_registry_that_the_same_broker_serves(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("uvicorn")
    data, table = tmp_path / "data", tmp_path / "orders"
    registry = f"127.0.0.1:{free_port()}"
    options = ["--schema-registry", registry, "--table", f"orders={table}"]
    options += ["--table-options", f"--decode avro --registry http://{registry} --max-age 1s"]
    with serving(data, *options) as (address, _):
        one = registered(registry, "id")
        with ottla.Admin(address) as admin:
            admin.create_topic("orders")
        with ottla.Producer(address) as producer:
            producer.send("orders", one + b"\x02").result()
        wait_until(lambda: rows(table) == 1, lambda: f"a row is loaded: {tables_of(data)}")
        # A version that comes while the table is followed brings its column.
        two = registered(registry, "id", "count")
        with ottla.Producer(address) as producer:
            producer.send("orders", two + b"\x04\x06").result()
        wait_until(lambda: rows(table) == 2, lambda: f"two are loaded: {tables_of(data)}")
    found = dataset(str(table)).to_table(columns=["offset", "value"]).sort_by("offset")
    values = [row["value"] for row in found.to_pylist()]
    assert values == [{"id": 1, "count": None}, {"id": 2, "count": 3}]


def registered(registry: str, *names: str) -> bytes:
    """Has a version of the schema with those fields registered; returns what precedes values."""
    fields: list[dict[str, Any]] = [{"name": name, "type": "long"} for name in names]
    fields[1:] = [{**one, "default": 0} for one in fields[1:]]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    request = urllib.request.Request(
        f"http://{registry}/subjects/orders-value/versions",
        json.dumps({"schema": schema}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return bytes(1) + int(json.load(answer)["id"]).to_bytes(4, "big")


def test_in_a_cluster_one_broker_keeps_a_table_and_another_continues_when_that_one_dies(
    tmp_path: Path,
) -> None:
    pytest.importorskip("kazoo")
    table = tmp_path / "orders"
    options = ["--table", f"orders={table}"]
    options += ["--table-options", "--decode json --schema 'id bigint' --max-age 1s"]
    with RunningCluster(tmp_path / "cluster", arguments=options) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.create_topic("orders", partitions=2, replication_factor=3)
        cluster.wait_in_sync("orders")
        produce(cluster.bootstrap, "orders", 20)
        wait_until(lambda: rows(table) == 20, lambda: f"20 rows are loaded: {cluster.logs()}")
        leader = cluster.leaders("orders")[0][0]
        wait_until(lambda: keepers(cluster) == {leader}, "the leader alone says so")
        cluster.brokers[leader].kill()
        cluster.wait_led("orders", without=leader)
        produce(cluster.bootstrap, "orders", 7)
        wait_until(lambda: rows(table) == 27, lambda: f"27 rows are loaded: {cluster.logs()}")
        after = cluster.leaders("orders")[0][0]
        assert after != leader
        wait_until(lambda: keepers(cluster) == {after}, "another one keeps the table")
        cluster.brokers[leader].begin()
        cluster.brokers[leader].wait_ready()
        cluster.wait_in_sync("orders")
        produce(cluster.bootstrap, "orders", 5)
        wait_until(lambda: rows(table) == 32, lambda: f"32 rows are loaded: {cluster.logs()}")
        audited = run_ottla("audit", cluster.bootstrap, "orders", "--table", table, "--all")
        assert audited.returncode == 0, audited.stdout + audited.stderr
        for one in cluster.brokers.values():
            assert one.stop() == 0, one.output.read_text()
    assert rows(table) == 32


def keepers(cluster: RunningCluster) -> set[int]:
    """The brokers that run, and say that they keep a table that they can load."""
    return {
        one.id
        for one in cluster.brokers.values()
        if one.is_running and [each["error"] for each in tables_of(one.directory)] == [None]
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--table", "orders"], "--table takes TOPIC=PATH"),
        (["--table-options", "--grow"], "--table-options applies to tables: add --table"),
        (["--decode 'json"], "No closing quotation"),
        (
            ["--decode jsn"],
            "--table-options '--decode jsn': Invalid value for '--decode': 'jsn' is",
        ),
        (["--table", "orders=s3:/x"], "s3:/x: write s3://x, or ./s3:/x for a directory"),
        (["--table", "orders=hdfs://x/y"], "hdfs://x/y: a table lies in a directory"),
        (["--table", f"orders={__file__}/x"], f"{__file__} is a file, and a table is a directory"),
        (["--from 0"], "--from is for a table's first load"),
        (["--decode json --schema 'id bigit'"], "bigit"),
    ],
)
def test_a_mistake_about_tables_is_one_line_before_anything_is_served(
    tmp_path: Path, options: list[str], words: str
) -> None:
    if len(options) == 1:
        options = ["--table", f"orders={tmp_path / 'orders'}", "--table-options", *options]
    data = tmp_path / "data"
    done = CliRunner().invoke(cli, ["serve", str(data), "--listen", "127.0.0.1:0", *options])
    assert isinstance(done.exception, SystemExit)
    assert (done.exception.code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert words in line
    assert not data.exists()
