"""What a running broker tells Prometheus."""

import threading
import urllib.request
from collections.abc import Iterator

import pytest

from ottla.base.errors import UserError
from ottla.broker.broker import Broker
from ottla.broker.topics.topics import NewTopic
from ottla.cli.serve.metrics import BrokerCollector, MetricsServer
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.compaction.compaction import DamagedSegmentError
from ottla.testing import FakeClock
from tests.support.brokers import NOW_MS, at, disk, open_broker

pytest.importorskip("prometheus_client")
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "400"}


@pytest.fixture
def broker() -> Broker:
    broker = open_broker(disk("/d", "/e"), "/d", "/e")
    broker.create_topic(NewTopic(name="t", partition_count=1, overrides=COMPACTED))
    for number in range(20):
        builder = RecordBatchBuilder()
        builder.append(b"key", b"%d" % number, NOW_MS)
        broker.append(broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=NOW_MS)
    broker.write_out()
    broker.topics.partition("t", 0).log.writer.flush()
    return broker


@pytest.fixture
def server(broker: Broker) -> Iterator[MetricsServer]:
    collector = BrokerCollector(broker, FakeClock(), threading.RLock())
    server = MetricsServer(collector, ("127.0.0.1", 0))
    yield server
    server.close()


def told(server: MetricsServer) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def test_sizes_offsets_and_directories_are_told(broker: Broker, server: MetricsServer) -> None:
    found = told(server)
    assert found['ottla_log_end_offset{partition="0",topic="t"}'] == 20
    assert found['ottla_log_size_bytes{partition="0",topic="t"}'] > 1000
    assert found['ottla_log_directory_offline{directory="/d"}'] == 0
    broker.directories[0].health.fail(OSError(5, "Input/output error"))
    assert told(server)['ottla_log_directory_offline{directory="/d"}'] == 1


def test_a_cleaner_that_is_stuck_shows(broker: Broker, server: MetricsServer) -> None:
    assert told(server)['ottla_cleaner_dirty_ratio{partition="0",topic="t"}'] == 1
    for number in range(3):
        task = broker.cleaner.next_task(at(0))
        assert task is not None
        path = task.log.segments.first.log.path
        broker.cleaner.fail(task, DamagedSegmentError(path, 7, "a bad CRC", 0), at(0))
        if number == 0:
            found = told(server)
            assert found['ottla_cleaner_failures_in_a_row{partition="0",topic="t"}'] == 1
        broker.cleaner._troubles[task.key] = _long_ago(broker, task.key)
    found = told(server)
    assert found["ottla_cleaner_failures_total"] == 3
    assert found['ottla_cleaner_damaged_segments{partition="0",topic="t"}'] == 1


def _long_ago(broker: Broker, key: tuple[str, int]) -> object:
    from dataclasses import replace

    return replace(broker.cleaner.trouble_of(key), failed_ms=0)


def test_an_address_that_is_taken_is_one_line(broker: Broker, server: MetricsServer) -> None:
    collector = BrokerCollector(broker, FakeClock(), threading.RLock())
    with pytest.raises(
        UserError, match=f"--metrics 127.0.0.1:{server.port}: Address already in use"
    ):
        MetricsServer(collector, ("127.0.0.1", server.port))
