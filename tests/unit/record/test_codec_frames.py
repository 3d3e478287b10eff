"""Every place that reads a batch reads what Kafka's record layer does, and refuses what it does."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import cycle

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.turns import CURRENT, Turn
from ottla.client.bulk.reading import Fetched
from ottla.client.consumer.records import CorruptBatchError, Decoding
from ottla.codec.unpacking import UnpackedMemory
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.columns import decode_columns
from ottla.record.record import read_records, records_in_turns
from ottla.testing import FakeFileSystem
from tests.support.codec_frames import KEYS, VALUE, batch_of, frames, verdicts
from tests.support.compacting import COMPACTED, clean
from tests.support.logs import NOW_MS, open_log, read_all

pytestmark = pytest.mark.slow

Row = tuple[int, bytes | None, bytes | None]
VERDICTS = verdicts()
FRAMES = [(one, magic) for one in frames() for magic in VERDICTS[one.name]]


def expected(offsets: Iterable[int]) -> list[Row]:
    return [(offset, key, VALUE) for offset, key in zip(offsets, cycle(KEYS), strict=False)]


def by_records(data: bytes) -> list[Row]:
    return [
        (one.offset, one.key, one.value)
        for batch in iter_batches(data)
        for one in read_records(batch)
    ]


def in_a_long_request(data: bytes) -> list[Row]:
    memory = UnpackedMemory()
    token = CURRENT.set(Turn(lambda: None, lambda: 1.0, max_elements=1, max_size=1))
    try:
        return [
            (one.offset, one.key, one.value)
            for batch in iter_batches(data)
            for one in list(records_in_turns(batch, memory))
        ]
    finally:
        memory.give_back()
        CURRENT.reset(token)


def by_consumer(data: bytes) -> list[Row]:
    place = TopicPartition("t", 0)
    fetched = Fetched(
        records=memoryview(data), high_watermark=9, last_stable_offset=9, log_start_offset=0
    )
    lists = Decoding().records(place, fetched, 0)
    return [(one.offset, one.key, one.value) for rows in lists for one in rows]


def to_columns(data: bytes) -> list[Row]:
    found = decode_columns(data, ("offset", "key", "value")).to_pydict()
    return list(zip(found["offset"], found["key"], found["value"], strict=True))


@pytest.mark.parametrize("read", [by_records, in_a_long_request, by_consumer, to_columns])
def test_a_frame_is_read_as_kafka_reads_it(read: Callable[[bytes], list[Row]]) -> None:
    wrong = []
    for frame, magic in FRAMES:
        offsets = VERDICTS[frame.name][magic]
        try:
            found = read(batch_of(frame, magic))
        except (InvalidBatchError, CorruptBatchError):
            found = None
        if found != (None if offsets is None else expected(offsets)):
            wrong.append((frame.name, magic, found))
    assert wrong == []


@pytest.mark.parametrize("writable", [bytes, bytearray])
def test_what_kafka_does_not_read_is_not_stored(writable: type) -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system, replace(COMPACTED, segment_bytes=1 << 20))
    stored: list[bytes | None] = []
    for frame, magic in FRAMES:
        offsets = VERDICTS[frame.name][magic]
        data = writable(batch_of(frame, magic))
        if offsets is None:
            with pytest.raises(ApiError) as refused:
                log.writer.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
            assert refused.value.code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
        else:
            log.writer.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
            stored += [key for _, key, _ in expected(offsets)]
    log.writer.write_out()
    assert [one.key for one in read_all(log)] == stored
    log.writer.roll(NOW_MS)
    log.writer.write_out()
    clean(log, file_system)
    assert {one.key for one in read_all(log)} == set(KEYS)
