"""A crash at every call of the disk while a segment is copied into a tier, and deleted from it.

The tier lies in a directory. Whatever a crash leaves: what was acknowledged is whole, what was not
does not look like a segment or is one, and deleting it leaves nothing behind.
"""

import errno
from collections.abc import Callable
from secrets import token_bytes

import pytest

from ottla.base.files import FileSystem
from ottla.objects.directory_store import DirectoryStore
from ottla.storage.remote.aiven_encryption import TierKeys
from ottla.storage.remote.aiven_layout import AivenTier
from ottla.storage.remote.aiven_writing import AivenFormat
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.local_layout import ROOT, LocalTier
from ottla.storage.remote.remote_storage import RemoteStorage, TierError
from ottla.storage.remote.tier_objects import TierObjects
from ottla.testing import (
    Effect,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    IoKind,
    every_crash_point,
)
from tests.support.copying import files_of
from tests.support.tier_readers import Found, read_aiven, read_local
from tests.support.tiers import uploaded

ONE = uploaded(100, 3, with_aborts=True)
OTHER = uploaded(106, 2)

Reader = Callable[[dict[str, bytes]], Found]


def local(disk: FileSystem) -> RemoteStorage:
    return LocalTier(TierObjects(DirectoryStore("/tier", disk)), ROOT, BlockCache(1 << 20))


def aiven(disk: FileSystem) -> RemoteStorage:
    objects = TierObjects(DirectoryStore("/tier", disk))
    form = AivenFormat(chunk_size=500, compresses=True, random_bytes=token_bytes)
    return AivenTier(objects, "pre/", BlockCache(1 << 20), TierKeys([], disk), form)


LAYOUTS = {
    "local": (local, lambda objects: read_local(objects, ONE.metadata)),
    "aiven": (aiven, lambda objects: read_aiven(objects, ONE.metadata, "pre/")),
}


def objects_on(disk: FileSystem) -> dict[str, bytes]:
    store = DirectoryStore("/tier", disk)
    return {one.path: store.read(one.path) for one in store.find("")}


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_is_whole_once_it_is_acknowledged_and_gone_once_its_deletion_is(
    layout: str,
) -> None:
    tier_on, read = LAYOUTS[layout]

    def workload(disk: FileSystem, acknowledged: list[str]) -> None:
        tier = tier_on(disk)
        tier.copy_segment(OTHER.metadata, files_of(OTHER, "/data", disk))
        acknowledged.append("other")
        tier.copy_segment(ONE.metadata, files_of(ONE, "/data", disk))
        acknowledged.append("copied")
        tier.delete_segment(ONE.metadata)
        acknowledged.append("deleted")

    states = set()
    for point in every_crash_point(workload, share=0.5):
        disk, done = point.file_system, point.acknowledged
        tier = tier_on(disk)
        listed = [one.start_offset for one in tier.segments()]
        if (done == ["other", "copied"] and 100 in listed) or point.call is None:
            states.add("whole")
        # What looks like a segment is one: an interrupted upload or deletion does not.
        for one in (ONE, OTHER):
            if one.metadata.start_offset in listed:
                assert tier.read_log(one.metadata, 0, len(one.log)) == one.log, point
        if "other" in done:
            assert 106 in listed, point
        if "deleted" in done:
            assert 100 not in listed, point
            assert not any("00100-" in path for path in objects_on(disk)), point
        # After the crash the upload is deleted, as the leader does that finds it half done.
        tier.delete_segment(ONE.metadata)
        assert not any("00100-" in path for path in objects_on(disk)), point
        tier.copy_segment(ONE.metadata, files_of(ONE, "/data", disk))
        found = read(objects_on(disk))
        assert (found.log, found.indexes) == (ONE.log, ONE.indexes), point
    assert states


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_that_was_acknowledged_survives_a_power_failure(layout: str) -> None:
    tier_on, read = LAYOUTS[layout]

    def workload(disk: FileSystem, acknowledged: list[str]) -> None:
        tier_on(disk).copy_segment(ONE.metadata, files_of(ONE, "/data", disk))
        acknowledged.append("copied")

    (*_, last) = every_crash_point(workload)
    assert last.acknowledged == ["copied"]
    for point in every_crash_point(workload):
        if point.acknowledged:
            found = read(objects_on(point.file_system))
            assert (found.log, found.indexes) == (ONE.log, ONE.indexes), point


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("is_lasting", [False, True])
def test_a_disk_that_fails_at_any_call_fails_the_copy_and_leaves_nothing_that_stays(
    layout: str, code: int, is_lasting: bool
) -> None:
    tier_on, read = LAYOUTS[layout]
    files = files_of(ONE, "/data", FakeFileSystem())
    recording = FaultyFileSystem(FakeFileSystem())
    tier_on(recording).copy_segment(ONE.metadata, files)
    said: list[bool] = []
    for at_call, call in enumerate(recording.calls):
        is_write = call.kind in (IoKind.PWRITE, IoKind.PWRITEV)
        for effect in tuple(Effect) if is_write else (Effect.BEFORE, Effect.AFTER):
            error = OSError(code, "a fault of the test")
            plan = FaultPlan(at_call=at_call, error=error, effect=effect, is_lasting=is_lasting)
            disk = FakeFileSystem()
            faulty = FaultyFileSystem(disk, plan)
            try:
                tier_on(faulty).copy_segment(ONE.metadata, files)
            except TierError as caught:
                said.append(caught.is_retriable)
            else:
                # What is removed and not there, and what need not be durable again.
                found = read(objects_on(disk))
                assert (found.log, found.indexes) == (ONE.log, ONE.indexes), plan
            assert faulty.retried_failed_syncs == []
            tier_on(disk).delete_segment(ONE.metadata)
            assert objects_on(disk) == {}, plan
    assert len(said) > 20
    assert set(said) == {code != errno.EACCES}
