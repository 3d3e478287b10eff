"""Pages of docs/format show bytes that are really written."""

import re
from pathlib import Path

from ottla.base.ids import Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.codec.api_messages import encode_record
from ottla.codec.compression import Compression
from ottla.coordinator.share import records as share_records
from ottla.coordinator.share.persisted_state import (
    PersistedState,
    SharePartitionKey,
    snapshot_record,
    update_record,
)
from ottla.coordinator.share.records_in_flight import DeliveryState, StateBatch
from ottla.coordinator.transaction.records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionTopic,
    encode_key,
    encode_value,
)
from ottla.metadata.records import ConfigRecord
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.legacy import build_message
from ottla.storage.remote.metadata_records import SegmentUpdate, encode_event
from ottla.storage.remote.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tests.support.old_messages import build_wrapper

PAGES = Path(__file__).parents[2] / "docs" / "format"
TIME_MS = 1_700_000_000_000


def examples(page: str) -> list[bytes]:
    """The blocks of hexadecimal bytes on a page, without the words beside them."""
    blocks = [one for one in (PAGES / page).read_text().split("```")[1::2] if "+--" not in one]
    columns = [re.findall(r"^((?:[0-9a-f]{2} ?)+)(?:   .*)?$", one, re.MULTILINE) for one in blocks]
    return [bytes.fromhex("".join(lines)) for lines in columns]


def test_the_batches_on_the_page_are_what_is_written() -> None:
    builder = RecordBatchBuilder(42, leader_epoch=3)
    builder.append(b"k", b"one", TIME_MS)
    builder.append(None, b"two", TIME_MS + 250, [("h", b"x")])
    commit = build_end_transaction_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=7),
        producer_id=9,
        producer_epoch=0,
        timestamp_ms=TIME_MS + 250,
        base_offset=44,
        leader_epoch=3,
    )
    assert examples("record-batch.md") == [builder.build(), commit]


def test_the_messages_on_the_page_are_what_old_clients_write() -> None:
    inner = [
        build_message(b"k", b"one", magic=1, offset=0, timestamp_ms=TIME_MS),
        build_message(None, b"two", magic=1, offset=1, timestamp_ms=TIME_MS + 250),
    ]
    wrapper = build_wrapper(
        inner, magic=1, compression=Compression.LZ4, offset=43, timestamp_ms=TIME_MS + 250
    )
    assert examples("message-set.md") == [
        build_message(b"k", b"one", magic=0, offset=42),
        build_message(b"k", b"one", magic=1, offset=42, timestamp_ms=TIME_MS),
        wrapper,
    ]


def test_the_records_of_a_transaction_on_the_page_are_what_is_written() -> None:
    key = TransactionLogKey(transactional_id="tx")
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[TransactionTopic(topic="t", partition_ids=[0, 3])],
        transaction_last_update_timestamp_ms=TIME_MS + 20,
        transaction_start_timestamp_ms=TIME_MS + 10,
    )
    assert examples("transaction-state.md") == [encode_key(key), encode_value(value)]


def test_the_records_of_a_share_group_on_the_page_are_what_is_written() -> None:
    partition = SharePartitionKey("jobs", Uuid(bytes(range(1, 17))), 3)
    state = PersistedState(
        state_epoch=5,
        leader_epoch=7,
        start_offset=40,
        batches=(StateBatch(42, 44, DeliveryState.AVAILABLE, 2),),
        complete_count=0,
        create_ms=TIME_MS,
    )
    acknowledged = StateBatch(43, 43, DeliveryState.ACKNOWLEDGED, 2)
    records = [
        *snapshot_record(partition, state, TIME_MS + 250),
        *update_record(partition, 1, (7, -1, 1, [acknowledged])),
    ]
    encoders = [share_records.encode_key, share_records.encode_value] * 2
    assert examples("share-group-state.md") == [
        encode(one) for encode, one in zip(encoders, records, strict=True)
    ]


def test_the_metadata_record_on_the_page_is_what_is_written() -> None:
    record = ConfigRecord(
        resource_type=ResourceKind.TOPIC, resource_name="logs", name="retention.ms", value="-1"
    )
    assert examples("cluster-metadata.md") == [encode_record(record)]


def test_the_records_of_an_upload_on_the_page_are_what_is_written() -> None:
    partition = TopicIdPartition("t", Uuid(bytes(range(1, 17))), 3)
    upload = Uuid(bytes(range(0x21, 0x31)))
    begun = RemoteLogSegmentMetadata(
        partition=partition,
        segment_id=upload,
        start_offset=140,
        end_offset=209,
        broker_id=1,
        max_timestamp_ms=TIME_MS,
        event_timestamp_ms=TIME_MS + 250,
        leader_epochs=((0, 140), (2, 180)),
        size=7000,
    )
    finished = SegmentUpdate(
        partition=partition,
        segment_id=upload,
        broker_id=1,
        event_timestamp_ms=TIME_MS + 500,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )
    assert examples("remote-log-metadata.md") == [encode_event(begun), encode_event(finished)]
