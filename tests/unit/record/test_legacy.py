"""Message formats v0 and v1."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.codec.compression import Compression
from ottla.record.batch import InvalidBatchError, TimestampType, batch_at, iter_batches
from ottla.record.legacy import LegacyBatch, build_message
from ottla.record.record import read_records
from tests.support.old_messages import build_wrapper


def wrapped(inner: bytes, *, magic: int, offset: int, attributes: int) -> bytes:
    return build_wrapper(
        [inner],
        magic=magic,
        compression=Compression(attributes & 7),
        offset=offset,
        timestamp_ms=99,
        is_append_time=bool(attributes & 8),
    )


def test_a_message_of_format_v0_has_no_time() -> None:
    batch = batch_at(build_message(b"k", b"v", magic=0, offset=3))
    batch.check()
    (record,) = read_records(batch)
    assert (record.offset, record.key, record.value) == (3, b"k", b"v")
    assert (record.timestamp_type, record.timestamp_ms) == (None, -1)


def test_a_v1_wrapper_counts_inner_offsets_from_its_last() -> None:
    inner = b"".join(
        build_message(None, b"%d" % i, magic=1, offset=i, timestamp_ms=i) for i in range(3)
    )
    batch = batch_at(wrapped(inner, magic=1, offset=12, attributes=1))
    assert [(one.offset, one.timestamp_ms) for one in read_records(batch)] == [
        (10, 0),
        (11, 1),
        (12, 2),
    ]
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (10, 12, 3)


def test_a_v1_wrapper_with_absolute_inner_offsets_is_read_as_it_says() -> None:
    inner = b"".join(build_message(None, b"x", magic=1, offset=i) for i in (10, 12))
    batch = batch_at(wrapped(inner, magic=1, offset=12, attributes=2))
    assert [one.offset for one in read_records(batch)] == [10, 12]


def test_a_v0_wrapper_holds_absolute_offsets() -> None:
    inner = b"".join(build_message(b"k", None, magic=0, offset=i) for i in (7, 9))
    batch = batch_at(wrapped(inner, magic=0, offset=9, attributes=3))
    assert [(one.offset, one.value) for one in read_records(batch)] == [(7, None), (9, None)]


def test_a_v1_wrapper_at_offset_0_leaves_inner_offsets_as_they_are() -> None:
    inner = b"".join(build_message(None, b"x", magic=1, offset=i) for i in (0, 1, 2))
    batch = batch_at(wrapped(inner, magic=1, offset=0, attributes=1))
    assert [one.offset for one in read_records(batch)] == [0, 1, 2]


def test_a_v1_wrapper_before_its_last_message_is_refused() -> None:
    inner = build_message(None, b"x", magic=1, offset=5)
    with pytest.raises(InvalidBatchError, match="a wrapper at offset 3 ends with a message at 5"):
        list(read_records(batch_at(wrapped(inner, magic=1, offset=3, attributes=1))))


def test_a_message_of_format_v0_in_a_wrapper_of_v1_has_no_time() -> None:
    inner = build_message(None, b"x", magic=0, offset=0)
    (record,) = read_records(batch_at(wrapped(inner, magic=1, offset=4, attributes=1 | 8)))
    assert (record.offset, record.timestamp_type, record.timestamp_ms) == (4, None, -1)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (b"", "holds no message"),
        (build_message(None, b"xy", magic=1)[:-1], "holds no message"),
        (build_message(None, b"xy", magic=1)[:-1] + b"z", "CRC"),
        (wrapped(build_message(None, b"x", magic=1), magic=1, offset=0, attributes=2), "a wrapper"),
    ],
)
def test_a_wrapper_with_the_wrong_content_is_refused(inner: bytes, reason: str) -> None:
    batch = batch_at(wrapped(inner, magic=1, offset=0, attributes=1))
    batch.check()
    with pytest.raises(InvalidBatchError, match=reason):
        list(read_records(batch))


def test_what_is_cut_short_at_the_end_of_a_wrapper_is_left_out_as_in_kafka() -> None:
    whole = build_message(None, b"xy", magic=1)
    for inner in (whole + b"trailing", whole + whole[:-1], whole + whole[:12]):
        batch = batch_at(wrapped(inner, magic=1, offset=0, attributes=1))
        assert [one.value for one in read_records(batch)] == [b"xy"]


def test_a_wrapper_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidBatchError, match="no value"):
        list(read_records(batch_at(build_message(b"k", None, magic=1, attributes=1))))


def test_zstd_came_after_these_formats() -> None:
    with pytest.raises(InvalidBatchError, match="unknown codec 4 in format v1"):
        batch_at(build_message(None, b"", magic=1, attributes=4)).check()


def test_an_old_message_answers_as_a_batch_of_no_producer() -> None:
    batch = batch_at(build_message(b"k", b"v", magic=1, offset=8, timestamp_ms=3))
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (8, 8, 9)
    assert (batch.last_offset_delta, batch.record_count, batch.max_timestamp_ms) == (0, 1, 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert (batch.last_sequence, batch.partition_leader_epoch) == (-1, -1)
    assert (batch.is_control, batch.is_transactional, batch.has_delete_horizon) == (False,) * 3


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_cut_anywhere_is_refused(magic: int) -> None:
    whole = build_message(b"key", b"value", magic=magic)
    for size in range(len(whole)):
        with pytest.raises(InvalidBatchError):
            batch_at(whole[:size]).check()
        assert list(iter_batches(whole[:size], allow_torn_tail=True)) == []
    (record,) = read_records(batch_at(whole + b"trailing"))
    assert record.value == b"value"


def test_a_wrapper_with_append_time_gives_it_to_all_its_messages() -> None:
    inner = build_message(None, b"x", magic=1, offset=0, timestamp_ms=5)
    (record,) = read_records(batch_at(wrapped(inner, magic=1, offset=0, attributes=1 | 8)))
    assert (record.timestamp_ms, record.timestamp_type) == (99, TimestampType.LOG_APPEND_TIME)


@pytest.mark.parametrize("byte", range(12, 34))
def test_damage_after_the_size_is_noticed(byte: int) -> None:
    damaged = bytearray(build_message(b"k", b"v", magic=1, offset=3, timestamp_ms=1))
    damaged[byte] ^= 4
    with pytest.raises(InvalidBatchError):
        batch_at(damaged).check()


def test_messages_and_batches_share_a_region() -> None:
    region = build_message(b"a", b"b", magic=0, offset=0) + build_message(
        b"a", b"b", magic=1, offset=1
    )
    assert [one.magic for one in iter_batches(region)] == [0, 1]


@given(st.binary(max_size=60), st.sampled_from([0, 1]), st.integers(0, 7))
def test_garbage_in_a_wrapper_gives_records_or_our_error(
    inner: bytes, magic: int, attributes: int
) -> None:
    with contextlib.suppress(InvalidBatchError):
        list(
            read_records(
                LegacyBatch(build_message(None, inner, magic=magic, attributes=attributes))
            )
        )
