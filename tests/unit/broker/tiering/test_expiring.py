"""What is deleted from the tier, and in which order: a log never begins where nothing is."""

from contextlib import closing

import pytest

from ottla.base.errors import ApiError
from ottla.base.files import read_file
from ottla.base.partitions import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.tiering import expiring
from ottla.broker.topics.partition import Partition
from ottla.storage.remote.remote_storage import TierError
from ottla.storage.retention.retention import forget_former_tier
from tests.support.brokers import disk
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    index_of,
    objects_of,
    remote_logs,
    states,
    steps_of,
    store_of,
    tiered_topic,
    work,
)

DONE = "COPY_SEGMENT_FINISHED"
KEY = TopicPartition("orders", 0)


def copied(broker: Broker, moment: Moment, count: int = 35, **settings: str) -> Partition:
    partition = tiered_topic(broker, **settings)
    fill(broker, partition, count, moment=moment)
    work(broker, moment)
    return partition


def change(broker: Broker, **settings: str) -> None:
    topic = broker.topics.get("orders")
    new = {one.replace("_", "."): text for one, text in settings.items()}
    broker.topic_changes.configure(topic, lambda known: {**known, **new})


def test_uploads_older_than_the_retention_are_deleted_and_the_log_starts_after_them() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        partition = copied(broker, moment, retention_ms="600000", local_retention_ms="1000")
        moment.pass_ms(500_000)
        fill(broker, partition, 10, moment=moment)
        moment.pass_ms(200_000)
        work(broker, moment)
        assert states(broker) == [(30, 39, DONE)]
        assert partition.log.log_start_offset == 30
        assert len(objects_of(file_system)) == 5
        work(broker, moment)
        counts = remote_logs(broker).counts.of("orders")
        assert (counts.deletions, counts.deletion_errors) == (3, 0)
    with closing(broker_with_tier(file_system)) as broker:
        assert broker.topics.partition("orders", 0).log.log_start_offset == 30


def test_uploads_above_the_size_are_deleted() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        partition = copied(broker, moment)
        size = partition.log.segments.values[0].size
        change(broker, retention_bytes=str(2 * size + size // 2))
        work(broker, moment)
        # Copied local segments count once: two uploads and the active segment's five records.
        assert states(broker) == [(10, 19, DONE), (20, 29, DONE)]
        assert partition.log.log_start_offset == 10


def test_the_log_start_is_durable_before_the_first_object_goes() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        copied(broker, moment, retention_ms="1000")
        moment.pass_ms(2_000)
        work_steps = steps_of(broker, moment)
        next(work_steps)
        assert store_of(broker).calls == ["copy"] * 3
        assert b"orders 0 30" in read_file(file_system, "/d/log-start-offset-checkpoint")


def test_deleted_records_leave_the_tier() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        copied(broker, moment)
        broker.admin.delete_records({KEY: 19})
        work(broker, moment)
        assert states(broker) == [(10, 19, DONE), (20, 29, DONE)]
        broker.admin.delete_records({KEY: 20})
        work(broker, moment)
        assert states(broker) == [(20, 29, DONE)]
        assert len(objects_of(file_system)) == 5


@pytest.mark.parametrize("number", range(3))
def test_a_deletion_that_fails_is_continued(number: int) -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        copied(broker, moment)
        broker.admin.delete_records({KEY: 30})
        store = store_of(broker)
        for done, _ in enumerate(steps_of(broker, moment)):
            store.fault = TierError("no", is_retriable=True) if done >= number else None
        assert remote_logs(broker).counts.of("orders").deletion_errors == 1
        assert remote_logs(broker).counts.failing_since_ms is not None
        store.fault = None
        moment.pass_ms(1_000)
        work(broker, moment)
        assert states(broker) == []
        assert objects_of(file_system) == []


def test_a_deleted_topic_leaves_the_tier() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        copied(broker, moment)
        broker.admin.delete_topics([broker.topics.get("orders")])
        work(broker, moment)
        assert objects_of(file_system) == []
        assert not list(remote_logs(broker).metadata.indexes())
        again = tiered_topic(broker)
        fill(broker, again, 15, moment=moment)
        work(broker, moment)
        assert states(broker) == [(0, 9, DONE)]


def test_a_deleted_topic_leaves_the_tier_after_a_restart() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        copied(broker, moment)
        broker.admin.delete_topics([broker.topics.get("orders")])
    with closing(broker_with_tier(file_system)) as broker:
        work(broker, moment)
        moment.pass_ms(1_000)
        work(broker, moment)
        assert objects_of(file_system) == []
        assert not list(remote_logs(broker).metadata.indexes())


def test_a_tier_that_is_turned_off_is_emptied_and_the_log_starts_where_it_is_local() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        partition = copied(broker, moment)
        partition.log.offsets.move_local_start(20)  # as local retention does
        with pytest.raises(ApiError, match="without deleting remote data"):
            change(broker, remote_storage_enable="false")
        change(broker, remote_storage_enable="false", remote_log_delete_on_disable="true")
        work(broker, moment)
        assert objects_of(file_system) == []
        assert states(broker) == []
        assert partition.log.log_start_offset == 20
        fill(broker, partition, 10, moment=moment)
        change(broker, remote_storage_enable="true")
        work(broker, moment)
        # Kafka 3.9 takes the highest offset that was ever copied, and loses 20 to 29.
        assert states(broker) == [(20, 29, DONE), (30, 39, DONE)]


def test_a_log_start_that_retention_has_moved_is_durable_before_the_tier_is_emptied() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        partition = copied(broker, moment)
        partition.log.offsets.move_local_start(20)
        change(broker, remote_storage_enable="false", remote_log_delete_on_disable="true")
        forget_former_tier(partition.log)
        next(steps_of(broker, moment))
        assert store_of(broker).calls == ["copy"] * 3
        assert b"orders 0 20" in read_file(file_system, "/d/log-start-offset-checkpoint")


@pytest.mark.parametrize("number", range(12))
def test_nothing_is_lost_if_the_tier_is_turned_on_again_meanwhile(number: int) -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        partition = copied(broker, moment)
        partition.log.offsets.move_local_start(10)
        change(broker, remote_storage_enable="false", remote_log_delete_on_disable="true")
        for done, _ in enumerate(steps_of(broker, moment)):
            if done == number:
                change(broker, remote_storage_enable="true")
        work(broker, moment)
        # Either all that is still local is in the tier, or it was turned on too late for that.
        is_on = broker.topics.get("orders").config.remote_storage_enable
        assert states(broker) == ([(10, 19, DONE), (20, 29, DONE)] if is_on else [])
        assert is_on or len(objects_of(file_system)) == 0


def test_what_a_killed_process_had_begun_to_upload_is_deleted_and_copied_again() -> None:
    moment, file_system = Moment(), disk("/d")
    broker = broker_with_tier(file_system)
    partition = tiered_topic(broker)
    fill(broker, partition, 15, moment=moment)
    for number, job in enumerate(steps_of(broker, moment)):
        if number == 3:
            job.carry_out()
            break
    assert store_of(broker).calls == ["copy"]
    assert [one[2] for one in states(broker)] == ["COPY_SEGMENT_STARTED"]
    for directory in broker.directories:
        directory.abandon()
    with closing(broker_with_tier(file_system)) as broker:
        work(broker, moment)
        assert states(broker) == [(0, 9, DONE)]
        assert len(objects_of(file_system)) == 5


def test_of_many_uploads_a_thread_says_which_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring, "FEW", 2)
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        copied(broker, moment)
        broker.admin.delete_records({KEY: 20})
        names = {one.name for one in steps_of(broker, moment)}
        assert names == {"expiring orders-0"}
        work(broker, moment)
        assert states(broker) == [(20, 29, DONE)]
        (tiered,) = remote_logs(broker).jobs.partitions
        assert (tiered.facts.uploads, tiered.facts.remote_bytes) == (1, index_of(broker).size)
