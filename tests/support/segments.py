"""A segment of a few batches, of which each test makes what it needs."""

from ottla.config.topic import TopicConfig
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_view import TimestampOffset
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, batch

CONFIG = TopicConfig(index_interval_bytes=100, segment_index_bytes=1000)
BASE = 10
COUNT = 8
"""Batches of one record; the latest timestamp is that of the fifth."""

TIMES_MS = [NOW_MS + (500 if number == 4 else number) for number in range(COUNT)]


def content_of(number: int) -> bytearray:
    content = batch(b"v" * 60, timestamp_ms=TIMES_MS[number])
    content[:8] = (BASE + number).to_bytes(8)
    return content


def new_disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("data")
    return disk


def opened(disk: FakeFileSystem, *, create: bool = False) -> Segment:
    return Segment(disk, "data", BASE, config=CONFIG, created_ms=NOW_MS, create=create)


def filled(disk: FakeFileSystem) -> Segment:
    segment = opened(disk, create=True)
    for number in range(COUNT):
        offset = BASE + number
        segment.append(content_of(number), offset, TimestampOffset(TIMES_MS[number], offset))
    segment.log.write_out()
    return segment
