"""A topic copied within its cluster: the same records, without what was aborted, in batches that
the new topic takes.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.client.connecting.target import open_target
from ottla.codec.compression import Compression
from ottla.mirror.topic_copy import CopyProgress, copy_records, create_copy, plan_topic_copy
from ottla.search.sources import ClusterRecords
from ottla.testing import LocalBroker

FEW_LOGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
FAR_MS = 2**62


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "data", FEW_LOGS) as found:
        yield found


def copied(broker: LocalBroker, source: str, new: str, **given: str) -> list[CopyProgress]:
    """Copies, and returns the progress at each step."""
    seen: list[CopyProgress] = []
    with open_target(broker.address) as reader, open_target(broker.address) as writer:
        admin = ottla.Admin(broker.log)
        settings = {name.replace("_", "."): text for name, text in given.items()}
        plan = plan_topic_copy(admin, source, new, settings)
        create_copy(admin, plan)
        seen.append(copy_records(reader, writer, plan, seen.append))
        assert seen[-1].offset_count == plan.total
        admin.close()
    return seen


def records_of(broker: LocalBroker, topic: str) -> list[tuple[object, ...]]:
    with open_target(broker.address) as cluster:
        source = ClusterRecords(cluster)
        places = [ottla.TopicPartition(topic, index) for index in source.partitions(topic)]
        bounds = source.bounds(places)
        return [
            (place.partition, one.key, one.value, one.timestamp_ms, tuple(one.headers))
            for place in places
            for one in source.records(place, bounds[place])
        ]


def test_the_copy_has_the_records_of_each_partition_in_their_order(broker: LocalBroker) -> None:
    broker.create_topic("orders", partitions=2, config={"retention.ms": -1})
    for number in range(10):
        broker.log.append(
            "orders",
            None if number == 3 else b"tea %d" % number,
            None if number == 4 else b"key",
            partition=number % 2,
            headers=[("h", None), ("h", b"\xff")],
        )
    (*_, last) = copied(broker, "orders", "again")
    assert (last.record_count, last.offset_count) == (10, 10)
    assert records_of(broker, "again") == records_of(broker, "orders")
    with ottla.Admin(broker.log) as admin:
        assert admin.topic_overrides(["again"]) == {"again": {"retention.ms": "-1"}}


def test_what_was_aborted_or_deleted_is_not_copied(broker: LocalBroker) -> None:
    broker.create_topic("orders")
    broker.produce("orders", "deleted")
    producer = ottla.Producer(broker.address, settings={"transactional.id": "payments"})
    with producer:
        for number in range(4):
            with suppress(ZeroDivisionError), producer.transaction():
                producer.send("orders", b"aborted", b"k")
                producer.flush()
                raise ZeroDivisionError
            with producer.transaction():
                producer.send("orders", b"committed %d" % number, b"k")
    with ottla.Admin(broker.log) as admin:
        admin.delete_records({ottla.TopicPartition("orders", 0): 1})
    copied(broker, "orders", "again")
    values = [one[2] for one in records_of(broker, "again")]
    assert values == [b"committed %d" % number for number in range(4)]
    assert broker.log.offsets("again")[0] == (0, 4)


def test_batches_fit_the_new_topic_and_keep_their_codec(broker: LocalBroker) -> None:
    broker.create_topic("orders")
    for number in range(40):
        codec = Compression.LZ4 if number < 20 else Compression.NONE
        builder = ottla.RecordBatchBuilder(compression=codec)
        for part in range(10):
            builder.append(b"k", b"%d " % part * 200, FAR_MS if number == 30 else -1)
        broker.log.append_batch("orders", 0, builder)
    steps = copied(broker, "orders", "small", max_message_bytes="4096")
    assert len(steps) > 40
    assert records_of(broker, "small") == records_of(broker, "orders")
    counts = [one.offset_count for one in steps]
    assert counts == sorted(counts)


def test_times_that_no_batch_can_have_together_are_in_two(broker: LocalBroker) -> None:
    broker.create_topic("far")
    for time_ms in (-(2**63), 2**63 - 1, 0):
        builder = ottla.RecordBatchBuilder()
        builder.append(b"k", b"v", time_ms)
        broker.log.append_batch("far", 0, builder)
    copied(broker, "far", "again")
    assert records_of(broker, "again") == records_of(broker, "far")


def test_a_copy_ends_where_its_progress_is_stopped(broker: LocalBroker) -> None:
    broker.create_topic("orders", partitions=2)
    broker.produce("orders", "tea", partition=0)

    def stop(progress: CopyProgress) -> None:
        raise ZeroDivisionError

    with open_target(broker.address) as cluster, ottla.Admin(broker.log) as admin:
        plan = plan_topic_copy(admin, "orders", "again")
        create_copy(admin, plan)
        with pytest.raises(ZeroDivisionError):
            copy_records(cluster, cluster, plan, stop)


@pytest.mark.parametrize(
    ("source", "new", "words"),
    [
        ("orders", "orders", "topic orders exists"),
        ("order", "new", "did you mean orders"),
        ("orders", "a b", "topic a b: "),
        ("orders", "__consumer_offsets", "exists"),
    ],
)
def test_a_copy_that_cannot_be_is_refused_before_anything_is_made(
    broker: LocalBroker, source: str, new: str, words: str
) -> None:
    broker.create_topic("orders")
    with ottla.Admin(broker.log) as admin:
        admin.alter_group_offsets("g", {ottla.TopicPartition("orders", 0): 0})
        with pytest.raises(UserError, match=words):
            plan_topic_copy(admin, source, new)
