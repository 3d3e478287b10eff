"""The records of `__consumer_offsets`."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.codec.schema import Message
from ottla.codec.versioned import version_of
from ottla.coordinator.offsets.records import (
    KEY_CLASSES,
    VALUE_CLASSES,
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.support.random_messages import random_message


def test_a_commit_is_written_as_kafka_does() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=5)
    assert encode_key(key) == b"\0\1\0\1g\0\1t\0\0\0\5"
    value = OffsetCommitValue(offset=9, metadata="m", commit_timestamp_ms=1)
    assert encode_value(value) == b"\0\3" + bytes(7) + b"\x09" + b"\xff" * 4 + b"\0\1m" + (
        bytes(7) + b"\1"
    )


def test_a_commit_with_its_own_expiry_takes_the_version_that_has_one() -> None:
    value = OffsetCommitValue(offset=9, commit_timestamp_ms=1, expire_timestamp_ms=2)
    data = encode_value(value)
    assert version_of(data) == 1
    assert decode_value(OffsetCommitKey(), data) == value


def test_both_old_kinds_of_commit_key_are_read() -> None:
    for kind in (b"\0\0", b"\0\1"):
        key = decode_key(kind + b"\0\1g\0\1t\0\0\0\5")
        assert key == OffsetCommitKey(group="g", topic="t", partition=5)


@pytest.mark.parametrize("key_class", VALUE_CLASSES, ids=lambda one: one.__name__)
def test_every_kind_of_record_reads_back(key_class: type[Message]) -> None:
    chance = random.Random(3)
    value_class = VALUE_CLASSES[key_class]
    for version in range(value_class.VERSIONS.first, value_class.VERSIONS.last + 1):
        key = random_message(key_class, key_class.VERSIONS.last, chance)
        assert decode_key(encode_key(key)) == key
        value = random_message(value_class, min(version, 3), chance)
        if isinstance(value, OffsetCommitValue):
            value.expire_timestamp_ms = -1
        assert decode_value(key, encode_value(value)) == value


def test_the_kinds_are_kafkas_numbers() -> None:
    assert sorted(KEY_CLASSES) == [*range(9), *range(10, 17)]
    assert KEY_CLASSES[2] is GroupMetadataKey


def test_a_tagged_struct_that_may_be_null_begins_with_a_marker() -> None:
    """KIP-893 counts for tagged structs too, where null is already said by absence."""
    value = ConsumerGroupMemberMetadataValue(
        classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=6000)
    )
    data = encode_value(value)
    assert data.endswith(b"\1\0\7\1\0\0\x17\x70\1\0")
    assert decode_value(ConsumerGroupMemberMetadataKey(), data) == value


def test_an_unknown_kind_of_record_is_none_of_our_business() -> None:
    assert decode_key(b"\0\x63anything") is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\2", b"\0\1\0\1g", b"\0\1\xff\xff"])
def test_a_broken_key_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_key(data)


def test_an_unknown_version_of_a_value_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="no version 5"):
        decode_value(GroupMetadataKey(), b"\0\5" + bytes(50))


@given(st.binary(max_size=80), st.sampled_from(sorted(VALUE_CLASSES, key=lambda one: one.__name__)))
def test_garbage_is_read_or_refused_with_our_error(data: bytes, key_class: type[Message]) -> None:
    for decode in (decode_key, lambda part: decode_value(key_class(), part)):
        try:
            decode(data)
        except ProtocolError:
            continue


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=2, protocol=None, leader=None)
    again = decode_value(GroupMetadataKey(), encode_value(value))
    assert again == value
