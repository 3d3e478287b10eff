"""Batches written again for consumers of the older formats."""

import pytest
from kafka.record import MemoryRecords

from ottla.base.errors import ApiError
from ottla.codec.compression import Compression
from ottla.record.batch import TimestampType, batch_at, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.down_conversion import down_convert
from ottla.record.legacy import build_message
from ottla.record.record import read_records

OLD_CODECS = [one for one in Compression if one is not Compression.ZSTD]


def batch(count: int = 3, **attributes: object) -> bytes:
    builder = RecordBatchBuilder(10, **attributes)  # type: ignore[arg-type]
    for number in range(count):
        builder.append(b"k%d" % number, b"v%d" % number, 1000 + number, [("lost", b"header")])
    return builder.build()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", OLD_CODECS)
def test_records_come_through_without_their_headers(magic: int, compression: Compression) -> None:
    old = down_convert([batch_at(batch(compression=compression))], magic, 0)
    read = [record for one in iter_batches(old) for record in read_records(one)]
    assert {one.magic for one in iter_batches(old)} == {magic}
    assert [(one.offset, one.key, one.value) for one in read] == [
        (10, b"k0", b"v0"),
        (11, b"k1", b"v1"),
        (12, b"k2", b"v2"),
    ]
    assert [one.timestamp_ms for one in read] == ([1000, 1001, 1002] if magic else [-1] * 3)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_another_client_reads_the_same(magic: int, compression: Compression) -> None:
    old = down_convert([batch_at(batch(compression=compression))], magic, 0)
    records = MemoryRecords(old)
    read = []
    while records.has_next():
        read += [(one.offset, one.key, one.value) for one in records.next_batch()]
    assert read == [(10, b"k0", b"v0"), (11, b"k1", b"v1"), (12, b"k2", b"v2")]


def test_append_time_is_kept_in_format_v1() -> None:
    old = down_convert([batch_at(batch(append_time_ms=77, compression=Compression.GZIP))], 1, 0)
    read = [record for one in iter_batches(old) for record in read_records(one)]
    assert {(one.timestamp_ms, one.timestamp_type) for one in read} == {
        (77, TimestampType.LOG_APPEND_TIME)
    }


def test_records_before_the_offset_asked_for_and_markers_are_left_out() -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=0),
        producer_id=1,
        producer_epoch=0,
        timestamp_ms=1,
        base_offset=13,
    )
    old = down_convert([batch_at(batch()), batch_at(marker)], 1, 12)
    assert [one.last_offset for one in iter_batches(old)] == [12]


def test_what_is_old_already_stays_as_it_is() -> None:
    message = build_message(b"k", b"v", magic=0, offset=4)
    assert down_convert([batch_at(message)], 1, 0) == message


def test_zstd_is_refused_with_kafkas_code() -> None:
    with pytest.raises(ApiError, match="zstd"):
        down_convert([batch_at(batch(compression=Compression.ZSTD))], 1, 0)
