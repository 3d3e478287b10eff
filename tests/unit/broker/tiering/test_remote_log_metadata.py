"""What a running broker knows of uploads is what a restart reads from the topic."""

from dataclasses import replace

import pytest

from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.tiering.metadata_reading import RECORDS_PER_SLICE
from ottla.broker.tiering.remote_log_metadata import RemoteLogMetadata
from ottla.broker.topics.topics import NewTopic
from ottla.storage.files.filenames import REMOTE_LOG_METADATA
from ottla.storage.remote.metadata_records import SegmentUpdate
from ottla.storage.remote.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, at, disk, id_of, open_broker

ORDERS = TopicIdPartition("orders", id_of(7), 0)
AT = Timestamps(now_ms=NOW_MS, monotonic_ms=0.0)


def broker_with_a_tier(file_system: FakeFileSystem) -> Broker:
    return open_broker(
        file_system,
        remote_log_storage_system_enable="true",
        remote_log_storage_manager_class_name=(
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        rsm_config_dir="/tier",
        rlmm_config_remote_log_metadata_topic_num_partitions="3",
    )


def metadata_of(broker: Broker) -> RemoteLogMetadata:
    assert broker.remote_logs is not None
    return broker.remote_logs.metadata


def upload(number: int, partition: TopicIdPartition = ORDERS) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        partition=partition,
        segment_id=Uuid(number.to_bytes(16, "big")),
        start_offset=10 * number,
        end_offset=10 * number + 9,
        broker_id=1,
        max_timestamp_ms=NOW_MS,
        event_timestamp_ms=NOW_MS,
        leader_epochs=((0, 10 * number),),
        size=100,
    )


def finished(segment: RemoteLogSegmentMetadata) -> SegmentUpdate:
    return SegmentUpdate(
        partition=segment.partition,
        segment_id=segment.segment_id,
        broker_id=1,
        event_timestamp_ms=NOW_MS,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )


def read_all(metadata: RemoteLogMetadata) -> int:
    """Returns the number of slices."""
    count = 1
    while metadata.advance(AT):
        count += 1
    return count


def test_without_uploads_there_is_no_topic_and_nothing_to_wait_for() -> None:
    broker = broker_with_a_tier(disk("/d"))
    metadata = metadata_of(broker)
    broker.admin.create_topic(NewTopic(name="orders", topic_id=ORDERS.topic_id))
    assert metadata.is_ready(ORDERS.topic_id, 0)
    assert not metadata.is_ready(id_of(8), 0)
    assert metadata.index_of(ORDERS.topic_id, 0) is None
    assert broker.topics.find(REMOTE_LOG_METADATA) is None


def test_a_broker_without_a_tier_has_no_remote_logs() -> None:
    assert open_broker(disk("/d")).remote_logs is None


def test_the_topic_is_created_with_kafkas_settings() -> None:
    broker = broker_with_a_tier(disk("/d"))
    metadata_of(broker).prepare()
    metadata_of(broker).prepare()
    topic = broker.topics.get(REMOTE_LOG_METADATA)
    assert topic.partition_count == 3
    assert topic.overrides == {
        "cleanup.policy": "delete",
        "remote.storage.enable": "false",
        "retention.ms": "-1",
    }


def test_a_record_is_applied_when_it_is_published() -> None:
    metadata = metadata_of(broker_with_a_tier(disk("/d")))
    metadata.prepare()
    assert metadata.publish(upload(0), AT).is_applied
    assert metadata.publish(finished(upload(0)), AT).is_applied
    index = metadata.index_of(ORDERS.topic_id, 0)
    assert index is not None
    found = index.look_up(0, 5)
    assert found == replace(upload(0), state=SegmentState.COPY_SEGMENT_FINISHED)


def test_a_record_needs_the_topic() -> None:
    metadata = metadata_of(broker_with_a_tier(disk("/d")))
    with pytest.raises(ApiError):
        metadata.publish(upload(0), AT)


def test_a_restart_reads_in_slices_what_was_known() -> None:
    file_system = disk("/d")
    broker = broker_with_a_tier(file_system)
    metadata = metadata_of(broker)
    metadata.prepare()
    partitions = [replace(ORDERS, partition=number) for number in range(4)]
    for number in range(RECORDS_PER_SLICE):
        for partition in partitions:
            segment = upload(number + 100 * partition.partition, partition)
            metadata.publish(segment, AT)
            metadata.publish(finished(segment), AT)
    known = {one.partition: one.segments() for one in metadata.indexes()}
    broker.close()

    again = metadata_of(broker_with_a_tier(file_system))
    assert not any(again.is_ready(ORDERS.topic_id, one.partition) for one in partitions)
    assert read_all(again) >= 8
    assert all(again.is_ready(ORDERS.topic_id, one.partition) for one in partitions)
    assert {one.partition: one.segments() for one in again.indexes()} == known
    assert not again.unreadable


def test_the_records_of_a_deleted_topic_are_forgotten() -> None:
    broker = broker_with_a_tier(disk("/d"))
    metadata = metadata_of(broker)
    metadata.prepare()
    metadata.publish(upload(0), AT)
    broker.admin.delete_topics([broker.topics.get(REMOTE_LOG_METADATA)])
    metadata.advance(at(1.0))
    assert metadata.index_of(ORDERS.topic_id, 0) is None
    metadata.prepare()
    assert metadata.publish(upload(0), AT).is_applied
