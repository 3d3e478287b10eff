"""A restore from a tier cut off at every call: whole or not there, and it can be run again."""

import errno
import itertools
from functools import cache
from pathlib import Path

import pytest

from ottla.base.errors import StorageError
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.tiers.contents import TierContents
from ottla.storage.tiers.restoring import Restoring, plan_restore
from ottla.testing import (
    CrashPoint,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    every_crash_point,
)
from tests.crash.sampling import sample
from tests.support.brokers import disk, open_broker
from tests.support.logs import read_all
from tests.support.tiered import uploaded
from tests.support.tiers import local_objects

START = 3
"""The log starts within its first upload: only a checkpoint says it."""

pytestmark = pytest.mark.slow


@cache
def tier() -> RemoteStorage:
    """In memory, where no crash reaches it."""
    files = disk("/tier")
    for one in (uploaded(1, 0, 5), uploaded(2, 6, 11)):
        for path, content in local_objects(one):
            place = Path("/tier") / path
            for parent in reversed(place.parents):
                if files.status(str(parent)) is None:
                    files.make_directory(str(parent))
            file = files.open(str(place), create=True)
            file.pwrite(content, 0)
            file.close()
    return open_tier("/tier", file_system=files)


def restore(file_system: FileSystem, promises: list[str]) -> None:
    numbers = itertools.count(1)
    (log,) = TierContents(tier(), []).logs()
    plan = plan_restore(log, START)
    assert plan is not None
    restoring = Restoring(
        file_system, "/d", tier(), lambda: Uuid(next(numbers).to_bytes(16, "big"))
    )
    for _ in restoring.run([plan], lambda done, total: None):
        promises.append("restored")


def served(file_system: FakeFileSystem) -> list[int] | None:
    """The offsets that a broker serves; `None` if it has no such partition."""
    broker = open_broker(file_system)
    found = None
    if broker.topics.find("orders") is not None:
        log = broker.topics.partition("orders", 0).log
        assert (log.log_start_offset, log.log_end_offset) == (START, 12)
        found = [record.offset for record in read_all(log, START)]
    broker.close()
    return found


def check(point: CrashPoint) -> None:
    names = point.file_system.list("/d")
    is_there = "orders-0" in names
    assert is_there or not point.acknowledged
    if not is_there:
        if point.at_call % 2:  # A broker has no such topic, and no quarrel with what is left.
            assert served(point.file_system) is None
        restore(point.file_system, [])
    assert served(point.file_system) == [*range(START, 12)]


def test_every_crash_leaves_the_whole_partition_or_none(crash_seconds: float) -> None:
    count = 0
    points = every_crash_point(restore, make_file_system=disk("/d").snapshot, seeds=1)
    for point in sample(points, crash_seconds):
        try:
            check(point)
        except Exception as error:
            error.add_note(f"at {point}")
            raise
        count += 1
    assert count > 50


def test_a_disk_that_fails_at_any_call_leaves_none_and_says_so() -> None:
    recording = FaultyFileSystem(disk("/d"))
    restore(recording, [])
    refused = 0
    for at_call in range(len(recording.calls)):
        inner = disk("/d")
        plan = FaultPlan(at_call=at_call, error=OSError(errno.ENOSPC, "a fault of the test"))
        faulty = FaultyFileSystem(inner, plan)
        promises: list[str] = []
        try:
            restore(faulty, promises)
        except (OSError, StorageError):
            refused += 1
            assert promises == []
        else:
            assert promises == ["restored"], recording.calls[at_call]
        assert faulty.retried_failed_syncs == []
        if "orders-0" not in inner.list("/d"):
            restore(inner, [])
        assert served(inner) == [*range(START, 12)], recording.calls[at_call]
    assert refused > 30
