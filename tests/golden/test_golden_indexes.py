"""Kafka's offset and time indexes, trimmed and pre-allocated ones alike."""

from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import OsFileSystem
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.time_index import TimeIndex
from tests.golden.directories import CASES, FILES, GoldenFile, golden_files, overwritten_files

OFFSET_LINE = r"offset: (\d+) position: (\d+)"
TIME_LINE = r"timestamp: (\d+) offset: (\d+)"


def without_zero_entry(
    dumped: list[tuple[int, ...]], zero: tuple[int, int]
) -> list[tuple[int, ...]]:
    """The dump tool shows the first entry even where it is the beginning of the zero tail."""
    return [] if dumped == [zero] else dumped


@pytest.mark.parametrize("case", CASES)
def test_offset_indexes_hold_what_kafka_says(case: str) -> None:
    for golden in golden_files(case, "*.index"):
        index = OffsetIndex(FILES, str(golden.path), base_offset=golden.base_offset, writable=False)
        entries = [index.entry(number) for number in range(index.entry_count)]
        expected = without_zero_entry(golden.dumped(OFFSET_LINE), (golden.base_offset, 0))
        assert entries == expected, golden.path
        assert [index.lookup(offset) for offset, _ in entries] == entries
        index.sanity_check()
        index.close()


@pytest.mark.parametrize("case", CASES)
def test_time_indexes_hold_what_kafka_says(case: str) -> None:
    for golden in golden_files(case, "*.timeindex"):
        index = TimeIndex(FILES, str(golden.path), base_offset=golden.base_offset, writable=False)
        entries = [index.entry(number) for number in range(index.entry_count)]
        expected = without_zero_entry(golden.dumped(TIME_LINE), (0, golden.base_offset))
        assert entries == expected, golden.path
        assert [index.lookup(timestamp_ms) for timestamp_ms, _ in entries] == entries
        index.sanity_check()
        index.close()


@pytest.mark.parametrize("case", CASES)
def test_offset_indexes_are_written_again_byte_by_byte(case: str, tmp_path: Path) -> None:
    for golden in golden_files(case, "*.index"):
        entries = without_zero_entry(golden.dumped(OFFSET_LINE), (golden.base_offset, 0))
        path = tmp_path / f"{golden.path.parent.name}-{golden.path.name}"
        index = OffsetIndex(
            OsFileSystem(),
            str(path),
            base_offset=golden.base_offset,
            max_index_size=max(len(golden.content), 8),
        )
        for offset, position in entries:
            index.append(offset, position)
        finish(index, golden)
        assert path.read_bytes() == golden.content, golden.path


@pytest.mark.parametrize("case", CASES)
def test_time_indexes_are_written_again_byte_by_byte(case: str, tmp_path: Path) -> None:
    for golden in golden_files(case, "*.timeindex"):
        entries = without_zero_entry(golden.dumped(TIME_LINE), (0, golden.base_offset))
        path = tmp_path / f"{golden.path.parent.name}-{golden.path.name}"
        index = TimeIndex(
            OsFileSystem(),
            str(path),
            base_offset=golden.base_offset,
            max_index_size=max(len(golden.content), 12),
        )
        for timestamp_ms, offset in entries:
            index.append(timestamp_ms, offset, skip_full_check=True)
        finish(index, golden)
        assert path.read_bytes() == golden.content, golden.path


def finish(index: OffsetIndex | TimeIndex, golden: GoldenFile) -> None:
    """Leaves the file as Kafka left it: pre-allocated, or trimmed by a clean stop.

    Kafka allocates a file without entries too, in which its own `DumpLogSegments` finds one.
    """
    if not index.entry_count and golden.content:
        assert not any(golden.content)
        index.abandon()
        OsFileSystem().open(index.path, writable=True).truncate(len(golden.content))
    elif index.entries_size == len(golden.content):
        index.close()
    else:
        index.abandon()


@pytest.mark.parametrize("path", overwritten_files("*index"), ids=lambda path: path.name)
def test_an_overwritten_index_fails_the_sanity_check(path: Path) -> None:
    kind = OffsetIndex if path.suffix == ".index" else TimeIndex
    index = kind(FILES, str(path), base_offset=int(path.stem), writable=False)
    with pytest.raises(CorruptionError):
        index.sanity_check()
    index.close()
