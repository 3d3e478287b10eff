"""`ottla.ShareConsumer` and `ottla.aio.ShareConsumer` over an open log: each record is with one
member at a time, until something is said of it.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ottla
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

SETTINGS = {
    "group.share.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}
names = (f"name{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def log() -> Iterator[ottla.Log]:
    with ottla.open(":memory:", SETTINGS) as made:
        yield made


@pytest.fixture
def group(log: ottla.Log) -> str:
    """A group that begins with the first records."""
    name = next(names)
    with ottla.Admin(log) as admin:
        admin.alter_configs(ottla.ResourceKind.GROUP, name, {"share.auto.offset.reset": "earliest"})
    return name


@pytest.fixture
def topic(log: ottla.Log) -> str:
    name = next(names)
    log.create_topic(name, partitions=2)
    return name


def explicit(log: ottla.Log, group: str, topic: str, **given: Any) -> ottla.ShareConsumer:
    settings = {"share.acknowledgement.mode": "explicit", **given.pop("settings", {})}
    consumer = ottla.ShareConsumer(log, group, settings=settings, **given)
    consumer.subscribe(topic)
    return consumer


def implicit(log: ottla.Log, group: str, topic: str, **given: Any) -> ottla.ShareConsumer:
    consumer = ottla.ShareConsumer(log, group, **given)
    consumer.subscribe(topic)
    return consumer


def fill(log: ottla.Log, topic: str, count: int, partition: int = 0) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    log.append_many(topic, values, partition=partition)
    return values


def taken(consumer: ottla.ShareConsumer, count: int) -> list[ottla.ShareRecord]:
    return consumer.consume(count, timeout=PATIENCE_S)


def test_what_was_returned_is_accepted_by_the_next_call_and_the_end(
    log: ottla.Log, group: str, topic: str
) -> None:
    values = fill(log, topic, 5)
    with implicit(log, group, topic) as consumer:
        found = []
        for record in consumer:
            found.append(record.value)
            if len(found) == 3:
                break
    with implicit(log, group, topic) as consumer:
        found += [one.value for one in taken(consumer, 2)]
    assert found == values
    with implicit(log, group, topic) as consumer:
        assert consumer.poll(timeout=0.6) is None


def test_what_the_application_failed_on_is_delivered_again(
    log: ottla.Log, group: str, topic: str
) -> None:
    def work() -> None:
        with implicit(log, group, topic) as consumer:
            for record in consumer:
                if record.value == b"1":
                    raise KeyError

    fill(log, topic, 3)
    with pytest.raises(KeyError):
        work()
    with implicit(log, group, topic) as consumer:
        again = taken(consumer, 2)
    assert [(one.value, one.delivery_count) for one in again] == [(b"1", 2), (b"2", 2)]


def test_each_record_is_accepted_released_or_rejected_by_itself(
    log: ottla.Log, group: str, topic: str
) -> None:
    fill(log, topic, 3)
    with explicit(log, group, topic) as consumer:
        accepted, released, rejected = taken(consumer, 3)
        consumer.accept(accepted)
        consumer.release(released)
        consumer.reject(rejected)
        consumer.commit()
        with pytest.raises(ottla.LockLostError) as raised:
            consumer.accept(rejected)
        assert raised.value.results[0].offsets == [2]
        (again,) = taken(consumer, 1)
        assert (again.value, again.delivery_count) == (b"1", 2)
        with pytest.raises(ottla.LockLostError):
            consumer.accept(released)  # The earlier delivery of it.
        consumer.accept(again)


def test_a_block_accepts_releases_on_an_exception_and_rejects_on_some(
    log: ottla.Log, group: str, topic: str
) -> None:
    fill(log, topic, 4)
    with explicit(log, group, topic) as consumer:
        good, bad, broken, said = taken(consumer, 4)
        with consumer.ack(good) as acknowledging:
            acknowledging.renew()
        with pytest.raises(KeyError), consumer.ack(bad):
            raise KeyError
        with pytest.raises(ValueError), consumer.ack(broken, rejects=(ValueError, OSError)):
            raise ValueError
        with consumer.ack(said) as acknowledging:
            acknowledging.release()
        consumer.commit()
        again = taken(consumer, 2)
    assert [one.value for one in again] == [b"1", b"3"]


def test_members_share_a_partition_and_no_record_is_with_two_of_them(
    log: ottla.Log, group: str, topic: str
) -> None:
    values = fill(log, topic, 300)
    found: list[bytes] = []
    lock = threading.Lock()

    end = time.monotonic() + PATIENCE_S

    def work() -> None:
        settings = {"max.poll.records": 10, "share.acquire.mode": "record_limit"}
        with implicit(log, group, topic, settings=settings) as consumer:
            while len(found) < len(values):
                assert time.monotonic() < end
                records = consumer.poll_many(timeout=0.1)
                with lock:
                    found.extend(one.value for one in records)

    with ThreadPoolExecutor(3) as threads:
        for future in [threads.submit(work) for _ in range(3)]:
            future.result()
    assert sorted(found) == sorted(values)


def test_a_strict_consumer_locks_no_more_than_it_asked_for(log: ottla.Log, group: str) -> None:
    topic = next(names)
    log.create_topic(topic)  # Of two partitions each member would have one.
    fill(log, topic, 10)
    settings = {"max.poll.records": 4, "share.acquire.mode": "record_limit"}
    with (
        explicit(log, group, topic, settings=settings) as one,
        explicit(log, group, topic, settings=settings) as other,
    ):
        assert [record.offset for record in taken(one, 4)] == [0, 1, 2, 3]
        assert [record.offset for record in taken(other, 4)] == [4, 5, 6, 7]


def test_results_are_told_and_nothing_of_gaps(log: ottla.Log, group: str, topic: str) -> None:
    fill(log, topic, 2)
    told: list[ottla.AcknowledgementResult] = []
    with explicit(log, group, topic, on_acknowledged=told.append) as consumer:
        first, second = taken(consumer, 2)
        consumer.accept(first)
        consumer.commit()
        consumer.release(second)
    assert [(str(one.partition), one.offsets, one.error.name) for one in told] == [
        (f"{topic}-0", [0], "NONE"),
        (f"{topic}-0", [1], "NONE"),
    ]


def test_a_record_that_cannot_be_decoded_is_an_error_once_and_is_delivered_again(
    log: ottla.Log, group: str, topic: str
) -> None:
    log.append_many(topic, [b"1", b"one", b"3"], partition=0)
    with implicit(log, group, topic, value_deserializer="json") as consumer:
        assert [one.value for one in consumer.poll_many(timeout=PATIENCE_S)] == [1]
        with pytest.raises(ottla.DeserializationError) as raised:
            consumer.poll(timeout=PATIENCE_S)
        assert raised.value.offset == 1
        assert [one.value for one in consumer.poll_many(timeout=PATIENCE_S)] == [3]
    with implicit(log, group, topic) as consumer:
        assert [(one.value, one.delivery_count) for one in taken(consumer, 1)] == [(b"one", 2)]


def test_mistakes_are_named(log: ottla.Log, group: str, topic: str) -> None:
    with ottla.ShareConsumer(log, group) as consumer:
        with pytest.raises(ottla.UserError, match="reads nothing; call subscribe"):
            consumer.poll(timeout=0)
        consumer.subscribe("nosuch")
        with pytest.raises(ottla.UnknownTopicError):
            consumer.poll(timeout=0)
        consumer.subscribe(topic)
        with pytest.raises(ottla.UserError, match="not bytes"):
            consumer.accept(b"1")  # type: ignore[arg-type]
    with pytest.raises(ottla.ClosedError):
        consumer.poll()
    with pytest.raises(ottla.UserError, match=r"share\.acquire\.mode"):
        ottla.ShareConsumer(log, group, settings={"share.acquire.mode": "all"})  # type: ignore[typeddict-item]
    with pytest.raises(ottla.UserError, match="a share group is a name"):
        ottla.ShareConsumer(log, "")


def test_another_kind_of_group_is_refused(log: ottla.Log, topic: str) -> None:
    group = next(names)
    fill(log, topic, 1)
    settings: ottla.ConsumerSettings = {"auto.offset.reset": "earliest"}
    with ottla.Consumer(log, group, settings=settings) as consumer:
        consumer.subscribe(topic)
        assert consumer.poll(timeout=PATIENCE_S) is not None
        consumer.commit()
    with ottla.ShareConsumer(log, group) as shared:
        shared.subscribe(topic)
        with pytest.raises(ottla.OttlaError):
            shared.poll(timeout=PATIENCE_S)


def test_in_an_event_loop_it_reads_and_says_the_same(
    log: ottla.Log, group: str, topic: str
) -> None:
    fill(log, topic, 4)

    async def work() -> list[bytes]:
        found = []
        told: list[ottla.AcknowledgementResult] = []
        async with ottla.aio.ShareConsumer(log, group, on_acknowledged=told.append) as consumer:
            consumer.subscribe(topic)
            async for record in consumer:
                with consumer.ack(record):
                    found.append(record.value)
                if len(found) == 2:
                    break
            await consumer.commit()
            assert {offset for one in told for offset in one.offsets} == {0, 1}
            found += [one.value for one in await consumer.poll_many(1, timeout=PATIENCE_S)]
            record = await consumer.poll(timeout=PATIENCE_S)
            assert record is not None
            consumer.release(record)
        return found

    assert asyncio.run(work()) == [b"0", b"1", b"2"]
    with implicit(log, group, topic) as consumer:
        assert [(one.value, one.delivery_count) for one in taken(consumer, 1)] == [(b"3", 2)]
