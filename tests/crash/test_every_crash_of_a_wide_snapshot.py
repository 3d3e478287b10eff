"""Snapshots of two directories cut off at every call: both of one state, or no broker starts."""

import itertools
from collections.abc import Callable
from functools import cache

import pytest

from ottla.base.errors import UserError
from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.files.filenames import RESTORING
from ottla.storage.snapshots.snapshots import Snapshots
from ottla.testing import CrashMode, CrashPoint, FakeFileSystem, every_crash_point
from tests.crash.sampling import sample
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.logs import values
from tests.support.moving import SMALL_SEGMENTS

PATHS = ("/d", "/e")
OLD, NEW = ([b"old"], [b"old"]), ([b"old", b"new"], [b"old", b"new"])


def opened(file_system: FileSystem, *paths: str) -> Broker:
    ids = itertools.count(5000)
    return open_broker(
        file_system, *paths, ids=ids, log_index_size_max_bytes="120", **SMALL_SEGMENTS
    )


def append(broker: Broker, content: bytes) -> None:
    for index in range(2):
        broker.appends.append(broker.topics.partition("t", index), batch(content), now_ms=NOW_MS)
    broker.appends.write_out()


def content_of(file_system: FileSystem, *paths: str) -> tuple[list[bytes], ...]:
    broker = opened(file_system, *paths)
    assert {one.directory.path for one in broker.topics.get("t").partitions.values()} == set(paths)
    found = tuple(values(broker.topics.partition("t", index).log) for index in range(2))
    broker.close()
    return found


def nothing(done: int, total: int) -> None:
    pass


def snapshots(file_system: FileSystem) -> Snapshots:
    return Snapshots(file_system, PATHS)


@cache
def old() -> FakeFileSystem:
    file_system = disk(*PATHS)
    broker = opened(file_system, *PATHS)
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    append(broker, b"old")
    broker.close()
    return file_system.crash(CrashMode.STRICT)


@cache
def new() -> FakeFileSystem:
    """With a snapshot of the old state, `a`."""
    file_system = old().snapshot()
    snapshots(file_system).create("a", now_ms=NOW_MS, on_copied=nothing)
    broker = opened(file_system, *PATHS)
    append(broker, b"new")
    broker.close()
    return file_system.snapshot().crash(CrashMode.STRICT)


def create(file_system: FileSystem, promises: list[str]) -> None:
    broker = opened(file_system, *PATHS)
    snapshots(file_system).create_beside(
        "a",
        now_ms=NOW_MS,
        on_copied=nothing,
        recover=lambda paths: opened(file_system, *paths).close(),
    )
    promises.append("a")
    broker.close()


def check_create(point: CrashPoint) -> None:
    after = point.file_system
    names = [one.name for one in snapshots(after).find_all()]
    assert names in (["a"], [])
    assert names or not point.acknowledged
    for name in names:
        assert content_of(after, *snapshots(after).find(name)) == OLD
    assert content_of(after, *PATHS) == OLD
    for name in ("b", *({"a"} - set(names))):  # what the crash left is in nobody's way
        snapshots(after).create(name, now_ms=NOW_MS + 1, on_copied=nothing)
        assert content_of(after, *snapshots(after).find(name)) == OLD


def restore(file_system: FileSystem, promises: list[str]) -> None:
    snapshots(file_system).restore("a", kept="k", now_ms=NOW_MS, on_copied=nothing)
    promises.append("restored")


def check_restore(point: CrashPoint) -> None:
    after = point.file_system
    if any(after.status(f"{path}/{RESTORING}") is not None for path in PATHS):
        assert not point.acknowledged
        with pytest.raises(UserError, match="a restore of its snapshot was interrupted"):
            opened(after, *PATHS)
    else:
        assert content_of(after, *PATHS) in ((OLD,) if point.acknowledged else (OLD, NEW))
    before = content_of(after, *snapshots(after).find("a"))
    assert before == OLD
    again = snapshots(after).restore("a", kept="k2", now_ms=NOW_MS, on_copied=nothing)
    assert content_of(after, *PATHS) == OLD
    assert again is not None
    kept = [one.name for one in snapshots(after).find_all() if one.name != "a"]
    # The state before the first restore is not lost, whichever of the two has kept it.
    assert NEW in [content_of(after, *snapshots(after).find(one)) for one in kept]


def delete(file_system: FileSystem, promises: list[str]) -> None:
    snapshots(file_system).delete("a")
    promises.append("deleted")


def check_delete(point: CrashPoint) -> None:
    after = point.file_system
    names = [one.name for one in snapshots(after).find_all()]
    assert not (names and point.acknowledged)
    for name in names:
        assert content_of(after, *snapshots(after).find(name)) == OLD
    assert content_of(after, *PATHS) == NEW
    if not names:
        snapshots(after).create("a", now_ms=NOW_MS, on_copied=nothing)
        assert content_of(after, *snapshots(after).find("a")) == NEW


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "begin", "check"),
    [
        pytest.param(create, old, check_create, id="create"),
        pytest.param(restore, new, check_restore, id="restore"),
        pytest.param(delete, new, check_delete, id="delete"),
    ],
)
def test_a_crash_leaves_both_directories_of_one_state_or_says_so(
    workload: Callable[[FileSystem, list[str]], None],
    begin: Callable[[], FakeFileSystem],
    check: Callable[[CrashPoint], None],
    crash_seconds: float,
) -> None:
    points = every_crash_point(workload, make_file_system=begin().snapshot, seeds=1, share=1 / 3)
    for point in sample(points, crash_seconds):
        try:
            check(point)
        except Exception as error:
            error.add_note(f"at {point}")
            raise
