"""What a start makes of `.cleaned`, `.swap` and `.deleted` files: a table of before and after.

Compaction writes its new segments as `.cleaned`, and renames them to `.swap` from the last to the
first, the log of each before its indexes (KAFKA-6264). So while any `.cleaned` is left, the swaps
at or after the lowest one are not all there yet, and the old segments are whole. Afterwards the
swaps stand for the old segments, of which some may be gone already.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from ottla.base.files import join
from ottla.config.topic import TopicConfig
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import SEGMENT_KINDS, parse_file_name
from ottla.storage.recovery.opened_log import LoadRequest
from ottla.storage.recovery.recovery import recover
from ottla.testing import CrashMode, FakeFileSystem, every_crash_point
from tests.support.logs import NOW_MS

DIRECTORY = "t-0"
CONFIG = TopicConfig(cleanup_policy=("compact",), segment_index_bytes=120)

Files = Mapping[str, str]
"""Short names ("10.log.swap") and what is in them: "10-19 new" is a batch of those offsets."""


@dataclass(frozen=True)
class Row:
    name: str
    before: Files
    logs: Files
    """The logs after the start, of which no other file is left but what comes with them."""


OLD = {"0.log": "0-9 old", "10.log": "10-19 old", "20.log": "20-29 old"}

ROWS = [
    Row("nothing unfinished", OLD, OLD),
    Row("deleted files go", {**OLD, "0.index.deleted": "", "5.log.deleted": "5-9 old"}, OLD),
    Row("cleaned files go", {**OLD, "0.log.cleaned": "0-19 new", "0.index.cleaned": ""}, OLD),
    Row(
        "a swap at the lowest cleaned offset is unfinished",
        {**OLD, "0.log.swap": "0-19 new", "0.index.cleaned": ""},
        OLD,
    ),
    Row(
        "a swap after the lowest cleaned offset is unfinished",
        {**OLD, "0.log.cleaned": "0-9 new", "10.log.swap": "10-19 new"},
        OLD,
    ),
    Row(
        "a swap before the lowest cleaned offset is finished",
        {**OLD, "0.log.swap": "0-9 new", "10.log.cleaned": "10-19 new"},
        {**OLD, "0.log": "0-9 new"},
    ),
    Row(
        "a swap takes the place of all that it was made from",
        {**OLD, "0.log.swap": "0-19 new"},
        {"0.log": "0-19 new", "20.log": "20-29 old"},
    ),
    Row(
        "several swaps take the place of one",
        {"0.log": "0-29 old", "0.log.swap": "0-9 new", "10.log.swap": "10-29 new"},
        {"0.log": "0-9 new", "10.log": "10-29 new"},
    ),
    Row(
        "the replaced segments may be marked as deleted already",
        {"0.log.deleted": "0-9 old", "10.log.deleted": "10-19 old", "0.log.swap": "0-19 new"},
        {"0.log": "0-19 new"},
    ),
    Row(
        "a log renamed to live leaves the swaps of its indexes",
        {"0.log": "0-19 new", "0.index.swap": "", "0.timeindex.swap": "", "20.log": "20-29 old"},
        {"0.log": "0-19 new", "20.log": "20-29 old"},
    ),
    Row(
        "an index swap whose log is nowhere is an orphan",
        {"10.log": "10-19 old", "0.index.swap": ""},
        {"10.log": "10-19 old"},
    ),
    Row("an empty swap replaces nothing", {**OLD, "10.log.swap": ""}, OLD),
    Row("a swap that is no log replaces nothing", {**OLD, "10.log.swap": "garbage"}, OLD),
    Row("a cut swap replaces nothing", {**OLD, "0.log.swap": "0-19 new cut"}, OLD),
    Row("a swap with a flipped bit replaces nothing", {**OLD, "0.log.swap": "0-19 new flip"}, OLD),
    Row("a swap replaces no batch that it lacks", {**OLD, "0.log.swap": "0-14 new"}, OLD),
    Row("a swap of later offsets replaces nothing", {**OLD, "0.log.swap": "20-29 new"}, OLD),
    Row("a swap of earlier offsets replaces nothing", {**OLD, "10.log.swap": "0-9 new"}, OLD),
    Row("a swap within a segment replaces nothing", {**OLD, "5.log.swap": "5-9 new"}, OLD),
    Row(
        "a damaged part of several swaps keeps the segment of all",
        {"0.log": "0-29 old", "0.log.swap": "0-9 new", "10.log.swap": "10-29 new cut"},
        {"0.log": "0-29 old"},
    ),
    Row(
        "of two replacements only the damaged one is undone",
        {**OLD, "0.log.swap": "0-9 new flip", "10.log.swap": "10-19 new"},
        {**OLD, "10.log": "10-19 new"},
    ),
    Row(
        "segments come back from their deletion if their swap is damaged",
        {
            "0.log.deleted": "0-9 old",
            "10.log.deleted": "10-19 old",
            "0.log.swap": "0-19 new flip",
            "20.log": "20-29 old",
        },
        OLD,
    ),
    Row("an index swap beside its index replaces nothing", {**OLD, "0.index.swap": "garbage"}, OLD),
]


def long_name(short: str) -> str:
    offset, _, rest = short.partition(".")
    return f"{int(offset):020d}.{rest}"


def content_of(text: str) -> bytes:
    if not text:
        return b""
    if text == "garbage":
        return b"garbage" * 10
    offsets, value, *damage = text.split()
    first, last = map(int, offsets.split("-"))
    builder = RecordBatchBuilder(first)
    for _ in range(first, last + 1):
        builder.append(b"k", value.encode(), NOW_MS)
    content = builder.build()
    match damage:
        case ["cut"]:
            return content[: len(content) // 2]
        case ["flip"]:
            return content[:-1] + bytes([content[-1] ^ 1])
    return content


def disk_of(files: Files) -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory(DIRECTORY)
    for short, text in files.items():
        file = disk.open(join(DIRECTORY, long_name(short)), create=True)
        file.pwrite(content_of(text), 0)
        file.sync()
        file.close()
    disk.sync_directory(".")
    disk.sync_directory(DIRECTORY)
    return disk


def start(disk: FakeFileSystem) -> None:
    recovered = recover(
        LoadRequest(
            file_system=disk,
            directory=DIRECTORY,
            config=CONFIG,
            now_ms=NOW_MS,
            was_clean_stop=False,
            recovery_point=0,
            log_start_offset=0,
        )
    )
    for segment in recovered.segments.values:
        segment.sync()
        segment.close_files()


def logs_of(disk: FakeFileSystem) -> dict[str, bytes]:
    found = {}
    for name in disk.list(DIRECTORY):
        assert not name.endswith((".swap", ".cleaned", ".deleted")), name
        if name.endswith(".log"):
            file = disk.open(join(DIRECTORY, name))
            found[name] = file.pread(file.size(), 0)
            file.close()
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_start_finishes_or_undoes_what_compaction_began(row: Row) -> None:
    disk = disk_of(row.before)
    start(disk)
    assert logs_of(disk) == {long_name(one): content_of(text) for one, text in row.logs.items()}
    bases = {name.partition(".")[0] for name in map(long_name, row.logs)}
    names = (parse_file_name(one) for one in disk.list(DIRECTORY))
    indexes = {f"{one.offset:020d}" for one in names if one and one.kind in SEGMENT_KINDS[:-1]}
    assert indexes <= bases


@pytest.mark.slow
@pytest.mark.parametrize("row", [ROWS[3], ROWS[6], ROWS[7]], ids=lambda row: row.name)
def test_a_start_that_is_cut_off_anywhere_is_finished_by_the_next(row: Row) -> None:
    def begin(disk: FakeFileSystem, _: list[object]) -> None:
        start(disk)

    wanted = {long_name(one): content_of(text) for one, text in row.logs.items()}
    for point in every_crash_point(
        begin, make_file_system=lambda: disk_of(row.before).crash(CrashMode.KEEP), seeds=1
    ):
        start(point.file_system)
        assert logs_of(point.file_system) == wanted, point
