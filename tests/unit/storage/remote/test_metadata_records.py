"""Records of `__remote_log_metadata`: there and back again, and damage is refused."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.codec.api_messages import UnknownRecordError, decode_api_message, encode_record
from ottla.storage.remote.metadata_records import (
    BY_KEY,
    RECORDS,
    PartitionDeletion,
    RemoteLogSegmentMetadataSnapshotRecord,
    decode_event,
    encode_event,
)
from ottla.storage.remote.segment_metadata import PartitionDeleteState
from tests.support.logs import NOW_MS
from tests.support.random_messages import random_message
from tests.support.remote_segments import DELETING, PARTITION, STARTED, update, upload
from tests.unit.protocol.test_messages import check_annotations, damaged

SEGMENT = upload(7, 100, 199, {3: 100, 5: 140}, STARTED)
DELETION = PartitionDeletion(
    partition=PARTITION,
    broker_id=1,
    event_timestamp_ms=NOW_MS,
    state=PartitionDeleteState.DELETE_PARTITION_STARTED,
)


def test_every_record_survives_the_way_there_and_back() -> None:
    chance = random.Random(5)
    for record in RECORDS:
        check_annotations(record)
        for _ in range(5):
            made = random_message(record, 0, chance)
            assert decode_api_message(encode_record(made), BY_KEY) == (made, 0)


@pytest.mark.parametrize(
    "event",
    [
        SEGMENT,
        replace(SEGMENT, custom_metadata=b""),
        replace(SEGMENT, custom_metadata=b"where", has_no_transactions=True),
        update(7, DELETING),
        update(7, DELETING, b""),
        DELETION,
    ],
)
def test_what_a_record_says_is_written_and_read(event: object) -> None:
    assert decode_event(encode_event(event)) == event  # type: ignore[arg-type]


def test_no_transactions_are_only_written_where_there_are_none() -> None:
    plain, flagged = (
        encode_event(replace(SEGMENT, has_no_transactions=flag)) for flag in (False, True)
    )
    assert flagged == plain[:-1] + b"\x01\x00\x01\x01"


def test_an_unknown_tagged_field_is_skipped() -> None:
    data = encode_event(update(7, DELETING))
    assert decode_event(data[:-1] + b"\x01\x63\x02hi") == update(7, DELETING)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"\x01\x04\x00\x00", "metadata record 4 of version 0"),
        (b"\x01\x00\x01\x00", "metadata record 0 of version 1"),
    ],
)
def test_a_record_of_a_later_kafka_is_named(data: bytes, named: str) -> None:
    with pytest.raises(UnknownRecordError, match=named):
        decode_event(data)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"end_offset": 99}, "a segment from offset 100 to 99"),
        ({"start_offset": -1}, "a segment from offset -1 to 199"),
        ({"size": -1}, "a segment of -1 bytes"),
        ({"leader_epochs": ()}, "no leader epoch in the segment from offset 100 to 199"),
        ({"leader_epochs": ((0, 200),)}, "no leader epoch in the segment"),
        ({"leader_epochs": ((5, 100), (3, 140))}, "do not ascend"),
        ({"leader_epochs": ((3, 140), (5, 100))}, "do not ascend"),
        ({"leader_epochs": ((-1, 100),)}, "do not ascend"),
        ({"partition": replace(PARTITION, partition=-1)}, "partition -1"),
        ({"state": 4}, "4 is not a valid SegmentState"),
    ],
)
def test_fields_that_no_segment_has_are_damage(wrong: dict[str, object], reason: str) -> None:
    data = encode_event(replace(SEGMENT, **wrong))  # type: ignore[arg-type]
    with pytest.raises(CorruptionError, match=reason):
        decode_event(data)


def test_a_record_of_a_snapshot_file_is_out_of_place_in_the_topic() -> None:
    with pytest.raises(CorruptionError, match="snapshot file"):
        decode_event(encode_record(RemoteLogSegmentMetadataSnapshotRecord()))


def test_damaged_values_are_read_or_refused_with_our_errors() -> None:
    chance = random.Random(6)
    for event in (SEGMENT, update(7, DELETING, b"x"), DELETION):
        for broken in damaged(encode_event(event), chance):
            check_that_only_our_errors_come(broken)


@pytest.mark.slow
@given(st.integers(0, 3), st.binary(max_size=120))
def test_garbage_is_read_or_refused_with_our_errors(api_key: int, data: bytes) -> None:
    check_that_only_our_errors_come(data)
    check_that_only_our_errors_come(bytes([1, api_key, 0]) + data)


def check_that_only_our_errors_come(data: bytes) -> None:
    try:
        event = decode_event(data)
    except (CorruptionError, UnknownRecordError):
        return
    assert decode_event(encode_event(event)) == event
