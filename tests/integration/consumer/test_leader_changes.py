"""Consumers of a partition whose leader changes, with a log that may have been cut (KIP-320)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.client.consumer.errors import LogTruncatedError
from ottla.testing import LocalBroker
from ottla.testing.pytest_plugin import SETTINGS
from tests.support.brokers import lead_in_next_epoch
from tests.support.patience import PATIENCE_S

PLACE = ottla.TopicPartition("orders", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "broker", SETTINGS) as one:
        one.create_topic("orders")
        for number in range(10):
            one.produce("orders", f"old {number}")
        yield one


def consumer_of(broker: LocalBroker, reset: str = "earliest", **more: Any) -> ottla.Consumer:
    consumer = ottla.Consumer(broker.address, settings={"auto.offset.reset": reset} | more)
    consumer.assign({PLACE: 0})
    return consumer


def elect(broker: LocalBroker, end_offset: int) -> None:
    """Another leader comes, whose log ended at an offset, and appends what is new."""

    def deed(one: Broker, at: Timestamps) -> None:
        partition = broker.log.find_partition(*PLACE)
        partition.log.maintenance.truncate_to(end_offset, now_ms=at.now_ms)
        lead_in_next_epoch(one, partition)

    broker.log.hold(deed)
    for number in range(10):
        builder = ottla.RecordBatchBuilder()
        builder.append(None, b"new %d" % number, broker.clock.now_ms())
        broker.log.append_batch("orders", 0, builder)


def read(consumer: ottla.Consumer, count: int) -> list[str]:
    return [one.value.decode() for one in consumer.consume(count, PATIENCE_S)]


@pytest.mark.slow
def test_a_log_that_was_cut_is_read_on_from_where_it_was_cut(
    broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with consumer_of(broker) as consumer:
        assert read(consumer, 10)[-1] == "old 9"
        elect(broker, 6)
        assert read(consumer, 10) == [f"new {number}" for number in range(10)]
        assert "truncated to offset 6, below offset 10" in caplog.text


@pytest.mark.slow
def test_a_cut_is_an_error_where_nothing_says_how_to_go_on(broker: LocalBroker) -> None:
    with consumer_of(broker, "none") as consumer:
        read(consumer, 10)
        elect(broker, 6)
        for _ in range(2):  # Until the application has decided.
            with pytest.raises(LogTruncatedError, match="seek to 6 to continue") as caught:
                read(consumer, 1)
        consumer.seek(PLACE, caught.value.end_offset)
        assert read(consumer, 1) == ["new 0"]


@pytest.mark.slow
def test_a_cut_above_what_the_application_has_seen_is_none_of_its_business(
    broker: LocalBroker,
) -> None:
    one_by_one = {"max.partition.fetch.bytes": 1}
    with consumer_of(broker, "none", **one_by_one) as consumer:
        assert read(consumer, 3) == ["old 0", "old 1", "old 2"]
        elect(broker, 6)
        assert read(consumer, 5) == ["old 3", "old 4", "old 5", "new 0", "new 1"]


@pytest.mark.slow
def test_a_group_continues_where_the_log_was_cut_while_it_was_away(broker: LocalBroker) -> None:
    settings = {"auto.offset.reset": "earliest"}
    with ottla.Consumer(broker.address, "g", settings=settings) as consumer:
        consumer.assign([PLACE])
        read(consumer, 10)
    elect(broker, 6)
    with ottla.Consumer(broker.address, "g", settings=settings) as consumer:
        consumer.assign([PLACE])
        assert read(consumer, 1) == ["new 0"]


@pytest.mark.slow
def test_another_leader_that_has_everything_is_read_without_a_gap(broker: LocalBroker) -> None:
    with consumer_of(broker, "none") as consumer:
        read(consumer, 10)
        elect(broker, 10)
        assert read(consumer, 2) == ["new 0", "new 1"]


@pytest.mark.slow
def test_a_broker_that_has_forgotten_a_fetch_session_is_asked_again(broker: LocalBroker) -> None:
    with consumer_of(broker) as consumer:
        read(consumer, 10)
        broker.fail("fetch", "FETCH_SESSION_ID_NOT_FOUND", times=1)
        broker.produce("orders", "after it")
        assert read(consumer, 1) == ["after it"]
