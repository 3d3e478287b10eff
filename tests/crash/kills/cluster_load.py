"""Clients at work on a cluster of real brokers, and all that can be read of it afterwards."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.testing.history import LogEnd, Operation, Poll, Read
from tests.compat import java_clients
from tests.compat.java import absence as absence_of_java
from tests.compat.java import array_list, duration
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.running_cluster import RunningCluster, Silence

confluent_kafka = pytest.importorskip("confluent_kafka")
kafka_admin = pytest.importorskip("confluent_kafka.admin")
kafka = pytest.importorskip("kafka")
pytest.importorskip("kazoo.client")

TOPIC = "orders"
PARTITIONS = 3
ROOT = Path(__file__).resolve().parents[3]
WITH_TESTS = {**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{ROOT}"}

History = list[Operation]


def make_topic(cluster: RunningCluster) -> None:
    admin = cluster.admin()
    new = kafka_admin.NewTopic(TOPIC, PARTITIONS, 3)
    admin.create_topics([new])[TOPIC].result(PATIENCE_S)
    cluster.wait_in_sync(TOPIC)


@contextmanager
def load(cluster: RunningCluster, folder: Path, *clients: str) -> Iterator[Callable[[], None]]:
    """Producers at work; the function waits until each has more acknowledged than before."""
    paths = {name: folder / name for name in clients}
    command = [sys.executable, "-m", "tests.support.cluster_clients"]
    processes: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        for name, path in paths.items():
            arguments = [name, cluster.bootstrap, TOPIC, str(PARTITIONS), str(path)]
            with (folder / f"{name}.log").open("wb") as errors:
                process = subprocess.Popen(
                    [*command, *arguments],
                    stdin=subprocess.PIPE,
                    stderr=errors,
                    env=WITH_TESTS,
                    cwd=ROOT,
                )
            stack.callback(process.kill)
            stack.callback(end, process, name)
            processes[name] = process

        def counts() -> dict[str, int]:
            return {name: _acknowledged(path) for name, path in paths.items()}

        def more() -> None:
            before = counts()

            def is_more() -> bool:
                for name, process in processes.items():
                    assert process.poll() is None, (name, (folder / f"{name}.log").read_text())
                return all(count >= before[name] + 30 for name, count in counts().items())

            wait_until(is_more, lambda: f"{counts()} after {before}: {cluster.logs()}")

        yield more


def end(process: subprocess.Popen[bytes], name: str) -> None:
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(2 * PATIENCE_S) == 0, name


def _acknowledged(path: Path) -> int:
    return path.read_bytes().count(b'"outcome": "ok"') if path.exists() else 0


def read_all(cluster: RunningCluster) -> History:
    """Every partition from its start to its end, by each client."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "socket.timeout.ms": 3000},
        logger=Silence(),
    )
    with closing(consumer):
        ends = read_ends(consumer)
        now = time.monotonic_ns()
        history: History = [
            LogEnd(process="reader", began=now, ended=now, partition=f"{TOPIC}-{index}", offset=end)
            for index, end in ends.items()
        ]
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, one, 0) for one in ends])

        def poll() -> list[Read]:
            return [
                Read(f"{TOPIC}-{one.partition()}", one.offset(), one.value().decode())
                for one in consumer.consume(1000, 0.2)
                if one.error() is None
            ]

        history += read_to("reader", poll, ends, cluster)
    history += read_by_kafka_python(cluster, ends) + read_by_ottla(cluster, ends)
    return history if absence_of_java() else history + read_by_java(cluster, ends)


def read_ends(consumer: Any) -> dict[int, int]:
    places = [confluent_kafka.TopicPartition(TOPIC, one, 0) for one in range(PARTITIONS)]
    return {one.partition: consumer.get_watermark_offsets(one, PATIENCE_S)[1] for one in places}


def read_by_kafka_python(cluster: RunningCluster, ends: dict[int, int]) -> History:
    with closing(kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","))) as consumer:
        consumer.assign([kafka.TopicPartition(TOPIC, one) for one in ends])
        consumer.seek_to_beginning()

        def poll() -> list[Read]:
            return [
                Read(f"{TOPIC}-{one.partition}", one.offset, one.value.decode())
                for records in consumer.poll(200).values()
                for one in records
            ]

        return read_to("kafka-python-reader", poll, ends, cluster)


def read_by_ottla(cluster: RunningCluster, ends: dict[int, int]) -> History:
    with ottla.Consumer(cluster.bootstrap) as consumer:
        consumer.assign({ottla.TopicPartition(TOPIC, one): 0 for one in ends})

        def poll() -> list[Read]:
            return [
                Read(f"{TOPIC}-{one.partition}", one.offset, one.value.decode())
                for one in consumer.consume(1000, timeout=0.2)
                if one.value is not None
            ]

        return read_to("ottla-reader", poll, ends, cluster)


def read_by_java(cluster: RunningCluster, ends: dict[int, int]) -> History:
    with java_clients.closing(java_clients.consumer(cluster.bootstrap)) as consumer:
        consumer.assign(array_list([java_clients.place(TOPIC, one) for one in ends]))

        def poll() -> list[Read]:
            return [
                Read(f"{TOPIC}-{one.partition()}", int(one.offset()), str(one.value()))
                for one in consumer.poll(duration(0.2))
            ]

        return read_to("java-reader", poll, ends, cluster)


def read_to(
    process: str, poll: Callable[[], list[Read]], ends: dict[int, int], cluster: RunningCluster
) -> History:
    """Until all partitions are read to their ends, however many records there are; fails where
    none comes any more.
    """
    positions = {f"{TOPIC}-{one}": 0 for one in ends}
    wanted = {f"{TOPIC}-{one}": end for one, end in ends.items()}
    history: History = []

    def is_more() -> bool:
        began = time.monotonic_ns()
        some = polled(process, began, poll())
        history.append(some)
        positions.update(some.positions)
        return bool(some.records)

    while positions != wanted:
        wait_until(is_more, lambda: f"{process} has read to {positions}: {cluster.logs()}")
    return history


def polled(process: str, began: int, reads: list[Read]) -> Poll:
    positions = {one.partition: one.offset + 1 for one in reads}
    return Poll(
        process=process,
        began=began,
        ended=time.monotonic_ns(),
        records=tuple(reads),
        positions=positions,
    )
