"""A swap is judged before it replaces anything: by its batches, its note, and what it covers."""

import pytest

from ottla.base.files import join, write_file
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import FileName, parse_file_name
from ottla.storage.files.integrity import Integrity, SegmentFacts
from ottla.storage.segment.swaps import SwapGroup, SwapJudgement, judge_swaps, swap_groups
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS

DIRECTORY = "/t-0"


def name(text: str) -> FileName:
    """Of a short name such as `10.log.swap`."""
    offset, dot, rest = text.partition(".")
    found = parse_file_name(f"{int(offset):020}{dot}{rest}")
    assert found is not None
    return found


def group_of(*offsets: int) -> SwapGroup:
    return SwapGroup(logs=tuple(name(f"{one}.log.swap") for one in offsets))


def records(first: int, count: int) -> bytes:
    """A batch of `count` records from an offset on."""
    builder = RecordBatchBuilder(first, leader_epoch=0)
    for one in range(first, first + count):
        builder.append(None, b"%d" % one, NOW_MS + one)
    return builder.build()


def disk_of(**files: bytes) -> FakeFileSystem:
    """A directory; `swap_0` is `0.log.swap` and `log_10` is `10.log`."""
    disk = FakeFileSystem()
    disk.make_directory(DIRECTORY)
    for short, content in files.items():
        kind, offset = short.split("_")
        path = join(DIRECTORY, name(f"{offset}.log" + ".swap" * (kind == "swap")).text)
        write_file(disk, path, [content])
    return disk


def judged(
    disk: FakeFileSystem, group: SwapGroup, *live: int, integrity: Integrity | None = None
) -> SwapJudgement:
    return judge_swaps(disk, DIRECTORY, group, live, integrity)


def test_swaps_that_replace_the_same_segments_are_one_group() -> None:
    names = ["0.log", "0.log.swap", "10.log.swap", "20.log.deleted", "20.log.swap", "0.index.swap"]
    assert swap_groups(map(name, names)) == [group_of(0, 10), group_of(20)]


def test_a_sound_swap_replaces_the_segments_whose_offsets_it_has() -> None:
    disk = disk_of(swap_0=records(0, 20), log_0=records(0, 10), log_10=records(10, 10))
    judgement = judged(disk, group_of(0), 0, 10, 20)
    assert judgement == SwapJudgement(end=20)
    assert [judgement.replaces(group_of(0), one) for one in (0, 10, 20)] == [True, True, False]


FAULTS = {
    "empty": (b"", "it has no batches"),
    "garbage": (b"x" * 70, ""),
    "cut": (records(0, 20)[:-1], ""),
    "flipped": (records(0, 20)[:-1] + b"?", "CRC"),
    "lacking a batch": (records(0, 10) + records(15, 5), "which it lacks"),
    "not ascending": (records(10, 10) + records(0, 10), ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_swap_with_a_fault_replaces_nothing_and_is_named(fault: str) -> None:
    content, reason = FAULTS[fault]
    disk = disk_of(swap_0=content, log_0=records(0, 10), log_10=records(10, 10))
    judgement = judged(disk, group_of(0), 0, 10)
    assert judgement.fault is not None
    assert judgement.fault.path == join(DIRECTORY, name("0.log.swap").text)
    assert reason in str(judgement.fault)
    assert not judgement.replaces(group_of(0), 10)


def test_a_swap_that_a_compaction_has_noted_may_lack_what_was_compacted() -> None:
    content = records(0, 1) + records(15, 5)
    disk = disk_of(swap_0=content, log_0=records(0, 10), log_10=records(10, 10))
    checksum = int.from_bytes(content[17:21], "big")
    noted = Integrity(swaps={0: SegmentFacts(first_checksum=checksum, size=len(content))})
    assert judged(disk, group_of(0), 0, 10, integrity=noted).fault is None
    other = Integrity(swaps={0: SegmentFacts(first_checksum=checksum, size=len(content) + 1)})
    fault = judged(disk, group_of(0), 0, 10, integrity=other).fault
    assert fault is not None
    assert f"{len(content)} bytes instead of {len(content) + 1}" in str(fault)
