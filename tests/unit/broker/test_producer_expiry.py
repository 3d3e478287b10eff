"""When a log forgets a producer: a day after it was last heard of, whatever clocks say."""

import pytest

from ottla.base.files import FileSystem
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from tests.support.brokers import NOW_MS, at, batch, disk, open_broker

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CHECK_MS = 600_000
"""`producer.id.expiration.check.interval.ms`; a producer is forgotten after a day."""


def broker_with_producer(
    timestamp_ms: int = NOW_MS, *, file_system: FileSystem | None = None
) -> Broker:
    broker = open_broker(file_system or disk("/d"))
    broker.admin.create_topic(NewTopic(name="t"))
    broker.appends.append(
        broker.topics.partition("t", 0),
        batch(producer_id=7, timestamp_ms=timestamp_ms),
        now_ms=NOW_MS,
    )
    broker.appends.write_out()
    broker.scheduler.run_due(at(0))
    return broker


def producers_after(broker: Broker, elapsed_ms: int, *, fast_ms: int = 0) -> list[int]:
    broker.scheduler.run_due(
        Timestamps(now_ms=NOW_MS + elapsed_ms + fast_ms, monotonic_ms=elapsed_ms)
    )
    return list(broker.topics.partition("t", 0).log.producers.entries)


def test_a_producer_that_is_no_longer_heard_of_is_forgotten() -> None:
    broker = broker_with_producer()
    assert producers_after(broker, CHECK_MS) == [7]
    assert producers_after(broker, CHECK_MS + DAY_MS - 1) == [7]
    assert producers_after(broker, 2 * CHECK_MS + DAY_MS) == []


@pytest.mark.parametrize("fast_ms", [-30 * DAY_MS, 30 * DAY_MS])
def test_setting_the_wall_clock_neither_hastens_nor_delays_that(fast_ms: int) -> None:
    broker = broker_with_producer()
    assert producers_after(broker, CHECK_MS) == [7]
    assert producers_after(broker, 2 * CHECK_MS, fast_ms=fast_ms) == [7]
    assert producers_after(broker, 2 * CHECK_MS + DAY_MS, fast_ms=fast_ms) == []


def test_a_producer_whose_records_say_another_time_is_heard_of_all_the_same() -> None:
    """Who loads what happened years ago does not send duplicates for that."""
    broker = broker_with_producer(timestamp_ms=NOW_MS - 1000 * DAY_MS)
    assert producers_after(broker, CHECK_MS) == [7]
    assert producers_after(broker, 2 * CHECK_MS) == [7]


def test_time_between_two_lives_counts_but_leaves_a_producer_an_hour() -> None:
    file_system = disk("/d")
    broker_with_producer(timestamp_ms=NOW_MS - 2 * DAY_MS, file_system=file_system).close()
    again = open_broker(file_system)
    again.scheduler.run_due(at(0))
    assert producers_after(again, CHECK_MS) == [7]
    assert producers_after(again, CHECK_MS + HOUR_MS - 1) == [7]
    assert producers_after(again, 2 * CHECK_MS + HOUR_MS) == []
