"""Logs of every message format: what is appended is read back, what is torn is cut off whole."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.codec.compression import Compression
from ottla.config.topic import TopicConfig
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.down_conversion import down_convert
from ottla.record.message_set import MessageSetBuilder
from ottla.record.record import Record, read_records
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import NOW_MS, SMALL, open_directory, open_log, read_all

VERSIONS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
BYTES = st.none() | st.binary(max_size=40)
TIMES = st.integers(0, NOW_MS)
OLD_CODECS = st.sampled_from([one for one in Compression if one is not Compression.ZSTD])


@dataclass(frozen=True)
class Append:
    """A set as it is sent, in a format and codec, to a topic that is then of format `target`."""

    source: int
    target: int
    compression: Compression
    compression_type: str
    messages: list[tuple[bytes | None, bytes | None, int]]

    def records(self) -> bytes:
        if self.source == 2:
            batch = RecordBatchBuilder(compression=self.compression)
            for key, value, time_ms in self.messages:
                batch.append(key, value, time_ms)
            return batch.build()
        messages = MessageSetBuilder(magic=self.source, compression=self.compression)
        for key, value, time_ms in self.messages:
            messages.append(key, value, time_ms)
        return messages.build()

    @property
    def expected(self) -> list[tuple[bytes | None, bytes | None, int]]:
        has_times = self.source > 0 and self.target > 0
        return [(key, value, ms if has_times else -1) for key, value, ms in self.messages]


APPENDS = st.lists(
    st.builds(
        Append,
        source=st.integers(0, 2),
        target=st.integers(0, 2),
        compression=OLD_CODECS,
        compression_type=st.sampled_from(("producer", "uncompressed", "gzip", "snappy", "lz4")),
        messages=st.lists(st.tuples(BYTES, BYTES, TIMES), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=8,
)


def config_of(one: Append) -> TopicConfig:
    return TopicConfig(
        message_format_version=VERSIONS[one.target],
        honours_format_version=True,
        compression_type=one.compression_type,
        segment_bytes=800,
        index_interval_bytes=SMALL.index_interval_bytes,
        segment_index_bytes=SMALL.segment_index_bytes,
    )


def filled(disk: FakeFileSystem, appends: list[Append]) -> PartitionLog:
    log = open_log(disk, config_of(appends[0]))
    for one in appends:
        log.maintenance.reconfigure(config_of(one))
        info = log.writer.append_as_leader(bytearray(one.records()), leader_epoch=0, now_ms=NOW_MS)
        assert info.first_offset == log.log_end_offset - len(one.messages)
    log.writer.write_out()
    return log


def told(records: list[Record]) -> list[tuple[bytes | None, bytes | None, int]]:
    return [(one.key, one.value, one.timestamp_ms) for one in records]


@pytest.mark.slow
@given(APPENDS)
def test_every_set_in_every_codec_is_read_back_from_every_format(appends: list[Append]) -> None:
    log = filled(FakeFileSystem(), appends)
    records = read_all(log)
    assert [one.offset for one in records] == list(range(log.log_end_offset))
    assert told(records) == [message for one in appends for message in one.expected]
    for offset in range(log.log_end_offset):
        assert read_all(log, offset)[0] == records[offset]


@pytest.mark.slow
@given(APPENDS, st.booleans())
def test_the_check_finds_nothing_wrong_with_any_of_them(
    appends: list[Append], has_crashed: bool
) -> None:
    disk = FakeFileSystem()
    log = filled(disk, appends)
    if has_crashed:
        open_directory(disk := disk.crash(CrashMode.KEEP), config_of(appends[-1])).close()
    else:
        log.maintenance.close()
    assert [one for one in check(disk, "data", deep=True).findings if not one.is_note] == []


@pytest.mark.slow
@given(APPENDS, st.integers(0, 1))
def test_old_consumers_get_the_same_records(appends: list[Append], magic: int) -> None:
    log = filled(FakeFileSystem(), appends)
    found: list[Record] = []
    for segment in log.segments.values:
        batches = list(iter_batches(segment.log.read(0, segment.log.written_size)))
        converted = down_convert(batches, magic, 0)
        assert all(one.magic <= magic for one in iter_batches(converted))
        found += [record for one in iter_batches(converted) for record in read_records(one)]
    assert [one.offset for one in found] == list(range(log.log_end_offset))
    sent = [message[:2] for one in appends for message in one.messages]
    assert [(one.key, one.value) for one in found] == sent


@pytest.mark.slow
@given(APPENDS, st.data())
def test_a_log_torn_anywhere_keeps_every_batch_before_the_tear(
    appends: list[Append], data: st.DataObject
) -> None:
    disk = FakeFileSystem()
    before = read_all(log := filled(disk, appends))
    last = log.segments.active
    size = data.draw(st.integers(0, last.log.written_size), label="bytes that were written")
    whole = [end for end in _ends(last.log.read(0, last.log.written_size)) if end[0] <= size]
    path, base_offset = last.log.path, last.base_offset
    disk = disk.crash(CrashMode.KEEP)
    file = disk.open(path, writable=True)
    file.truncate(size)
    file.close()
    # As a power failure tears it: after a kill everything written is there.
    disk.remove(f"data/{BOOT_NOTE}")
    log = open_log(disk, config_of(appends[-1]))
    assert log.log_end_offset == (whole[-1][1] if whole else base_offset)
    assert read_all(log) == before[: log.log_end_offset]
    again = appends[-1]
    log.writer.append_as_leader(bytearray(again.records()), leader_epoch=0, now_ms=NOW_MS)
    log.writer.write_out()
    assert told(read_all(log))[-len(again.messages) :] == again.expected


def _ends(region: bytes) -> list[tuple[int, int]]:
    """Where each batch ends, and the offset after it."""
    ends: list[tuple[int, int]] = []
    for batch in iter_batches(region):
        ends.append((batch.size + (ends[-1][0] if ends else 0), batch.last_offset + 1))
    return ends
