"""A mirror that is cut off at every call, or whose disk refuses it, and then run again.

Whatever is left is a prefix of the source, the next run continues there, and what it comes to is
the source, with all that is derived from the batches as a rebuild gives it.
"""

import contextlib
import errno
import random
from collections.abc import Iterator

import pytest

from ottla.base.errors import ApiError, StorageError, UserError
from ottla.base.files import FileSystem
from ottla.mirror.target import Target
from ottla.storage.files.losses import NO_LOSSES
from ottla.storage.findings import Finding
from ottla.storage.reading.sound_batches import sound_batches
from ottla.testing import (
    CrashMode,
    Effect,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    SimulatedCrash,
    every_crash_point,
)
from tests.support.mirroring import (
    SOURCE,
    SourceLog,
    assert_is_mirrored,
    content,
    mirror_round,
    read_only,
    target_disk,
    target_on,
)

Promises = list[int]


class GrowingSource:
    """A source at three times: a mirror's round for each.

    It starts in the middle of a batch; then it rolls, grows a partition's worth of transactions and
    changes leaders; then it deletes its front and continues.
    """

    def __init__(self) -> None:
        source = SourceLog()
        source.create()
        source.fill(4)
        source.append(b"a", producer=7)
        source.delete_before(3)
        source.commit("g", {("t", 0): 5})
        self.times = [self._as_it_is(source)]
        source.fill(3)
        source.append(b"b", producer=8)
        source.end(7, commit=False)
        source.lead_again()
        source.fill(3)
        source.commit("g", {("t", 0): 14})
        self.times.append(self._as_it_is(source))
        source.delete_before(14)
        source.end(8, commit=True)
        source.fill(1)
        self.times.append(self._as_it_is(source))

    @staticmethod
    def _as_it_is(source: SourceLog) -> FakeFileSystem:
        for directory in source.broker.directories:
            directory.checkpoints.write()
        copy = FakeFileSystem()
        copy._disk = source.files._disk.copy()
        return copy

    @property
    def last(self) -> FakeFileSystem:
        return self.times[-1]


@pytest.fixture(scope="module")
def source() -> GrowingSource:
    return GrowingSource()


def mirror_all(source: GrowingSource, file_system: FileSystem, promises: Promises) -> None:
    """A round for each state of the source, in two runs; each flushed end is a promise."""
    with target_on(file_system) as target:
        mirror_round(source.times[0], target)
        mirror_round(source.times[1], target)
    promises.append(end_of(source.times[1]))
    with target_on(file_system) as target:
        mirror_round(source.times[2], target)
    promises.append(end_of(source.times[2]))


def end_of(file_system: FileSystem, path: str = SOURCE) -> int:
    return read_only(path, file_system, "t", 0).log_end_offset


def is_prefix(source: GrowingSource, target: Target) -> bool:
    """Whether what a target holds of the partition is what the source had there."""
    if target.topic("t") is None:
        return True
    whole = {
        one.base_offset: bytes(one.bytes_view())
        for time in source.times
        for one in read_only(SOURCE, time, "t", 0).batches.read(content(SOURCE, time, "t", 0)[0])
    }
    for one in sound_batches(target.log("t", 0), NO_LOSSES):
        assert not isinstance(one, Finding)
        if whole[one.base_offset] != bytes(one.bytes_view()):
            return False
    return True


def assert_goes_on(source: GrowingSource, file_system: FakeFileSystem, promised: int) -> None:
    with target_on(file_system) as target:
        assert is_prefix(source, target)
        if promised:
            assert target.log("t", 0).log_end_offset >= promised
        report = mirror_round(source.last, target, allow_gaps=True)
        assert report.refusals == {}
    assert_is_mirrored(source.last, file_system, after_power_failure=True)


STRIDE = 12
"""Of the calls in a short run; a long one (`make crash`) takes all."""


def some_crashes(source: GrowingSource) -> Iterator[tuple[str, FakeFileSystem, Promises]]:
    """What crashes at some of the calls leave, and what was promised before."""
    recording = FaultyFileSystem(target_disk())
    mirror_all(source, recording, [])
    for at_call in range(random.randrange(STRIDE), len(recording.calls), STRIDE):
        effect = random.choice([Effect.BEFORE, Effect.PARTIAL])
        plan = FaultPlan(at_call=at_call, error=SimulatedCrash(), effect=effect)
        files, promises = target_disk(), Promises()
        with contextlib.suppress(SimulatedCrash):
            mirror_all(source, FaultyFileSystem(files, plan), promises)
        for mode in CrashMode:
            yield f"{recording.calls[at_call]}, {mode}", files.crash(mode, at_call), promises


def all_crashes(source: GrowingSource) -> Iterator[tuple[str, FakeFileSystem, Promises]]:
    for point in every_crash_point(
        lambda file_system, promises: mirror_all(source, file_system, promises),
        make_file_system=target_disk,
        seeds=1,
        first_seed=random.randrange(10**6),
    ):
        yield str(point), point.file_system, point.acknowledged


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_mirror_continues_from_every_crash_point(
    source: GrowingSource, crash_seconds: float
) -> None:
    crashes = all_crashes(source) if crash_seconds else some_crashes(source)
    for where, file_system, promises in crashes:
        try:
            assert_goes_on(source, file_system, max(promises, default=0))
        except Exception as error:
            error.add_note(f"at {where}")
            raise


@pytest.mark.slow
def test_a_disk_that_fails_ends_the_mirror_with_our_own_error_and_costs_nothing(
    source: GrowingSource, crash_seconds: float
) -> None:
    recording = FaultyFileSystem(target_disk())
    mirror_all(source, recording, [])
    stride = 1 if crash_seconds else STRIDE
    for at_call in range(random.randrange(stride), len(recording.calls), stride):
        files = target_disk()
        plan = FaultPlan(at_call=at_call, error=OSError(errno.EIO, "no"))
        with contextlib.suppress(UserError, StorageError, ApiError, OSError):
            mirror_all(source, FaultyFileSystem(files, plan), [])
        try:
            assert_goes_on(source, files.crash(CrashMode.KEEP), 0)
        except Exception as error:
            error.add_note(f"at {recording.calls[at_call]}")
            raise
