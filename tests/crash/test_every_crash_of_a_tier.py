"""A broker that is cut off at every call to its disk and its tier, and opened again.

Segments are copied, leave the local disk, expire, and the tier is turned off. Whatever a crash
leaves, each record of the log is in a local segment or in the tier, and in no other version; what
is known of the tier is what its records say; and after some work no object is left that no record
names.
"""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.broker.broker import Broker
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.reading.metadata_reader import read_remote_log_metadata
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.remote.segment_metadata import SegmentState
from ottla.testing import CrashPoint, FakeFileSystem, every_crash_point
from tests.crash.sampling import sample
from tests.support.brokers import disk
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    local_values,
    objects_of,
    remote_logs,
    tiered_topic,
    work,
)

Workload = Callable[[FileSystem, list[object]], None]

KEY = TopicPartition("orders", 0)
COUNT = 25
ROUND_MS = 2_000
OBJECTS_EACH = 5
SETTINGS = {"rlmm_config_remote_log_metadata_topic_num_partitions": "1"}


def prepared() -> FakeFileSystem:
    """Three segments, the first of which is in the tier; everything is durable."""
    file_system, moment = disk("/d"), Moment()
    file_system.make_directory("/tier")
    file_system.sync_directory("/")
    broker = broker_with_tier(file_system, ids=count(1), **SETTINGS)
    partition = tiered_topic(broker, local_retention_bytes="100", file_delete_delay_ms="0")
    fill(broker, partition, 15, moment=moment)
    work(broker, moment)
    fill(broker, partition, COUNT - 15, moment=moment)
    broker.close()
    return file_system


def opened(file_system: FileSystem, first_id: int) -> Broker:
    return broker_with_tier(file_system, ids=count(first_id), **SETTINGS)


def pass_rounds(broker: Broker, moment: Moment, number: int = 3) -> None:
    for _ in range(number):
        moment.pass_ms(ROUND_MS)
        broker.scheduler.run_due(moment())
        work(broker, moment)


def copy_and_expire(file_system: FileSystem, acknowledged: list[object]) -> None:
    """Copies a segment, lets local ones go, and deletes records up to within the second one."""
    moment = Moment()
    broker = opened(file_system, 1000)
    pass_rounds(broker, moment)
    acknowledged.append(0)
    broker.admin.delete_records({KEY: 12})
    acknowledged.append(12)
    pass_rounds(broker, moment, 2)


def turn_off(file_system: FileSystem, acknowledged: list[object]) -> None:
    """Turns the tier off, and on again."""
    moment = Moment()
    broker = opened(file_system, 1000)
    topic = broker.topics.get("orders")
    off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    broker.topic_changes.configure(topic, lambda known: {**known, **off})
    acknowledged.append("off")
    pass_rounds(broker, moment, 2)
    on = {**topic.overrides, "remote.storage.enable": "true"}
    broker.topic_changes.configure(topic, lambda _: on)
    pass_rounds(broker, moment, 2)


def check(point: CrashPoint) -> None:
    moment = Moment()
    broker = opened(point.file_system, 5000)
    try:
        start_before = broker.topics.partition(*KEY).log.log_start_offset
        for _ in range(3):
            work(broker, moment)
            moment.pass_ms(ROUND_MS)
        partition = broker.topics.partition(*KEY)
        log = partition.log
        promised = [one for one in point.acknowledged if isinstance(one, int)]
        assert log.log_start_offset >= max(promised, default=0)
        assert log.log_end_offset == COUNT
        assert start_before <= log.log_start_offset
        found = [*tier_values(broker), *local_values(partition)]
        assert found == [b"%d" % one for one in range(log.log_start_offset, COUNT)]
        check_tier(broker, point.file_system)
    finally:
        for directory in broker.directories:
            directory.abandon()


def tier_values(broker: Broker) -> Iterator[bytes]:
    """The values before the first local offset, looked up by offset as a fetch does."""
    topic, log = broker.topics.get("orders"), broker.topics.partition(*KEY).log
    index = remote_logs(broker).index_of(topic.topic_id, 0)
    offset = log.log_start_offset
    while offset < log.offsets.local_start_offset:
        assert index is not None
        segment = index.look_up(log.epochs.epoch_for_offset(offset) or 0, offset)
        assert segment is not None, f"no upload has offset {offset}"
        content = remote_logs(broker).storage.read_log(segment, 0, segment.size)
        for batch in iter_batches(content):
            for record in read_records(batch):
                if offset <= record.offset < log.offsets.local_start_offset:
                    yield record.value or b""
        offset = segment.end_offset + 1


def check_tier(broker: Broker, file_system: FileSystem) -> None:
    metadata = remote_logs(broker).metadata
    live = {one.partition: one.segments() for one in metadata.indexes() if len(one)}
    segments = [one for some in live.values() for one in some]
    assert all(one.state is SegmentState.COPY_SEGMENT_FINISHED for one in segments)
    assert len(objects_of(file_system)) == OBJECTS_EACH * len(segments)
    stored = read_remote_log_metadata([ReadOnlyLogDirectory("/d", file_system)])
    assert not stored.findings
    assert {one.partition: one.segments() for one in stored.indexes if len(one)} == live


@pytest.mark.slow
@pytest.mark.parametrize("workload", [copy_and_expire, turn_off])
def test_no_crash_loses_a_record_or_leaves_an_object(
    workload: Workload, crash_seconds: float
) -> None:
    points = every_crash_point(workload, make_file_system=prepared, seeds=1, share=1 / 5)
    for point in sample(points, crash_seconds):
        try:
            check(point)
        except BaseException as error:
            error.add_note(f"at {point}")
            raise
