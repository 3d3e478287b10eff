"""Records of metadata: each survives the way there and back, and garbage is refused."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.codec.api_messages import UnknownRecordError, encode_record
from ottla.codec.schema import Message
from ottla.metadata.control import (
    CONTROL_RECORDS,
    control_key,
    decode_control_record,
    encode_control_record,
)
from ottla.metadata.records import (
    RECORDS,
    BeginTransactionRecord,
    PartitionChangeRecord,
    decode_record,
)
from ottla.record.control import ControlRecordType, control_type
from tests.support.random_messages import random_message
from tests.unit.protocol.test_messages import check_annotations, damaged

VERSIONS = [
    (record, version)
    for record in RECORDS
    for version in range(record.VERSIONS.first, record.VERSIONS.last + 1)
]
CONTROL_VERSIONS = [
    (kind, record, version)
    for kind, record in CONTROL_RECORDS.items()
    for version in range(record.VERSIONS.first, record.VERSIONS.last + 1)
]


def test_annotations_say_what_the_fields_hold() -> None:
    for record in (*RECORDS, *CONTROL_RECORDS.values()):
        check_annotations(record)


def test_every_record_survives_the_way_there_and_back_in_every_version() -> None:
    chance = random.Random(5)
    for record, version in VERSIONS:
        for _ in range(5):
            made = random_message(record, version, chance)
            data = encode_record(made, version)
            assert decode_record(data) == (made, version)
            assert encode_record(*decode_record(data)) == data


def test_every_control_record_survives_the_way_there_and_back() -> None:
    chance = random.Random(5)
    for kind, record, version in CONTROL_VERSIONS:
        made = random_message(record, version, chance)
        made.version = version  # type: ignore[attr-defined]
        data = encode_control_record(made)
        assert decode_control_record(kind, data) == made
        assert control_type(control_key(made)) is kind


def test_broken_records_are_read_or_refused_with_our_error() -> None:
    chance = random.Random(6)
    for record, version in VERSIONS:
        made = random_message(record, version, chance)
        for broken in damaged(encode_record(made, version), chance):
            check_that_only_our_error_comes(broken)


@pytest.mark.slow
@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_garbage_is_read_or_refused_with_our_error(
    kind: tuple[type[Message], int], data: bytes
) -> None:
    check_that_only_our_error_comes(data)
    check_that_only_our_error_comes(bytes([1, kind[0].API_KEY or 0, kind[1]]) + data)
    for control in ControlRecordType:
        with_version = bytes([0, kind[1]]) + data
        for content in (data, with_version):
            try:
                decode_control_record(control, content)
            except ProtocolError:
                continue


def check_that_only_our_error_comes(data: bytes) -> None:
    try:
        decode_record(data)
    except ProtocolError:
        return


def test_a_record_of_a_later_kafka_is_named_and_one_with_a_new_tag_is_read() -> None:
    for data, api_key, version in ((b"\x01\x63\x00\x00", 99, 0), (b"\x01\x02\x07\x00", 2, 7)):
        with pytest.raises(UnknownRecordError) as caught:
            decode_record(data)
        assert (caught.value.api_key, caught.value.version) == (api_key, version)
    plain = encode_record(BeginTransactionRecord())
    assert plain[-1] == 0
    with_tag = plain[:-1] + b"\x01\x63\x02hi"
    assert decode_record(with_tag)[0] == BeginTransactionRecord()


def test_another_frame_and_bytes_left_over_are_refused() -> None:
    for data in (b"\x02\x14\x00\x00", b"\x01\x14\x00\x00\x00", b"", b"\x01"):
        with pytest.raises(ProtocolError):
            decode_record(data)


def test_a_change_that_says_nothing_is_a_few_bytes() -> None:
    assert len(encode_record(PartitionChangeRecord(partition_id=0))) == 3 + 4 + 16 + 1
