"""The `.cleaned` files that a pass writes: durable when it is finished, or taken back."""

from contextlib import nullcontext

import pytest

from ottla.config.setting import INT32_MAX
from ottla.storage.compaction.output import CleanedSegments
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import NOW_MS, batch

PARTITION = "/data/t-0"


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    for path, parent in (("/data", "/"), (PARTITION, "/data")):
        disk.make_directory(path)
        disk.sync_directory(parent)
    return disk


def begun(disk: FakeFileSystem, base_offset: int = 5) -> CleanedSegments:
    output = CleanedSegments(
        disk,
        PARTITION,
        base_offset,
        index_interval_bytes=100,
        segment_index_bytes=1000,
        while_making=nullcontext,
    )
    output.begin()
    return output


def at_offset(offset: int) -> bytearray:
    content = batch(b"value")
    content[:8] = offset.to_bytes(8)
    return content


def logs(disk: FakeFileSystem) -> dict[str, bytes]:
    return {
        name: disk.open(f"{PARTITION}/{name}").pread(1 << 20, 0)
        for name in sorted(disk.list(PARTITION))
        if name.endswith(".log.cleaned")
    }


def name_of(base_offset: int) -> str:
    return f"{base_offset:020}.log.cleaned"


def test_where_nothing_is_kept_there_is_an_empty_segment(disk: FakeFileSystem) -> None:
    output = begun(disk)
    output.finish(NOW_MS)
    assert output.base_offsets == (5,)
    assert logs(disk) == {name_of(5): b""}


def test_what_an_earlier_pass_has_left_is_not_appended_to(disk: FakeFileSystem) -> None:
    left = begun(disk)
    left.append(at_offset(5), 5)
    left.finish(NOW_MS)
    output = begun(disk)
    output.append(at_offset(7), 7)
    assert output.write_out() == len(at_offset(7))
    assert output.write_out() == 0
    assert logs(disk) == {name_of(5): bytes(at_offset(7))}


def test_offsets_that_one_segment_cannot_hold_begin_another(disk: FakeFileSystem) -> None:
    output = begun(disk)
    last, beyond = 5 + INT32_MAX, 6 + INT32_MAX
    for offset in (5, last, beyond):
        output.append(at_offset(offset), offset)
    output.finish(NOW_MS)
    assert output.base_offsets == (5, beyond)
    first, second = at_offset(5) + at_offset(last), at_offset(beyond)
    assert logs(disk) == {name_of(5): bytes(first), name_of(beyond): bytes(second)}


def test_what_is_finished_outlives_a_crash_with_the_time_of_its_source(
    disk: FakeFileSystem,
) -> None:
    output = begun(disk)
    output.append(at_offset(5), 5)
    output.finish(NOW_MS - 1000)
    disk.sync_directory(PARTITION)
    status = disk.status(f"{PARTITION}/{name_of(5)}")
    assert status is not None
    assert status.modified_ms == NOW_MS - 1000
    after = disk.crash(CrashMode.STRICT)
    assert logs(after) == {name_of(5): bytes(at_offset(5))}


def test_taken_back_it_leaves_no_file(disk: FakeFileSystem) -> None:
    output = begun(disk)
    for offset in (5, 6 + INT32_MAX):
        output.append(at_offset(offset), offset)
    output.remove()
    assert list(disk.list(PARTITION)) == []
