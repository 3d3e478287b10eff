"""What a broker exports of its remote tier."""

from contextlib import closing

import pytest

from ottla.broker.broker import Broker
from ottla.cli.serve.metrics.collector import BrokerCollector, Collected
from ottla.config.listeners import Listener
from ottla.server.network.listener import Server
from ottla.storage.remote.remote_storage import TierError
from ottla.testing import FakeClock
from tests.support.brokers import disk, open_broker
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    index_of,
    store_of,
    tiered_topic,
    work,
)

pytest.importorskip("prometheus_client")


def exported(broker: Broker) -> dict[tuple[str, str], float]:
    """By the metric's name and its first label's value."""
    clock = FakeClock()
    with closing(Server(broker, [Listener(name="P", address=("127.0.0.1", 0))], clock=clock)) as it:
        collected = Collected(
            broker=broker,
            server=it,
            clock=clock,
            lock=it.lock,
            has_internal_topics=True,
            start_s=0.0,
            events=dict,
            is_ready=lambda: True,
        )
        return {
            (sample.name.removeprefix("ottla_remote_"), next(iter(sample.labels.values()), "")): (
                sample.value
            )
            for family in BrokerCollector(collected).collect()
            for sample in family.samples
            if sample.name.startswith("ottla_remote_")
        }


def test_a_broker_without_a_tier_exports_nothing_of_one() -> None:
    assert exported(open_broker(disk("/d"))) == {}


def test_copies_and_what_is_left_of_them_show() -> None:
    moment = Moment()
    broker = broker_with_tier(disk("/d"))
    partition = tiered_topic(broker)
    fill(broker, partition, 35, moment=moment)
    store_of(broker).fault = TierError("down", is_retriable=True)
    work(broker, moment)
    found = exported(broker)
    sizes = [one.size for one in partition.log.segments.values]
    assert found["copy_errors_total", "orders"] == 1
    assert found["copy_lag_segments", "orders"] == 3
    assert found["copy_lag_bytes", "orders"] == sum(sizes[:3])
    assert found["failing_since_timestamp_seconds", ""] == moment.now_ms / 1000
    assert found["jobs", "copy"] == 0
    store_of(broker).fault = None
    moment.pass_ms(5_000)
    for _ in range(3):
        work(broker, moment)
    found = exported(broker)
    assert found["copy_requests_total", "orders"] == 4
    assert found["copy_bytes_total", "orders"] == sum(sizes[:3])
    assert found["copy_lag_segments", "orders"] == 0
    assert found["log_size_bytes", "orders"] == index_of(broker).size
    assert found["log_metadata_count", "orders"] == 3
    assert found["delete_requests_total", "orders"] == 1  # of the upload that failed
    assert found["delete_lag_segments", "orders"] == 0
    assert found["failing_since_timestamp_seconds", ""] == 0
