"""Snapshots cut off at every call: whole or not there, and the directory as it was either way."""

import itertools
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.snapshots.snapshots import Snapshots
from ottla.testing import CrashMode, CrashPoint, FakeFileSystem, every_crash_point
from tests.crash.sampling import sample
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.logs import values
from tests.support.moving import SMALL_SEGMENTS, numbered

NINE, TWELVE = numbered(9), numbered(12)


def opened(file_system: FileSystem, path: str = "/d") -> Broker:
    ids = itertools.count(5000)
    return open_broker(file_system, path, ids=ids, log_index_size_max_bytes="120", **SMALL_SEGMENTS)


def append(broker: Broker, contents: list[bytes]) -> None:
    for content in contents:
        broker.appends.append(broker.topics.partition("t", 0), batch(content), now_ms=NOW_MS)
    broker.appends.write_out()


def content_of(file_system: FileSystem, path: str = "/d") -> list[bytes]:
    """What a broker finds there, which then continues the log, and is stopped."""
    broker = opened(file_system, path)
    found = values(broker.topics.partition("t", 0).log)
    append(broker, [b"later"])
    broker.close()
    return found


def snapshots(file_system: FileSystem) -> Snapshots:
    return Snapshots(file_system, "/d")


def nothing(done: int, total: int) -> None:
    pass


@cache
def nine() -> FakeFileSystem:
    """A directory with nine records in several segments, stopped cleanly."""
    file_system = disk("/d")
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    append(broker, NINE)
    broker.close()
    return file_system.crash(CrashMode.STRICT)


@cache
def twelve() -> FakeFileSystem:
    """The same with a snapshot of the nine, `a`, and three records more."""
    file_system = nine().snapshot()
    snapshots(file_system).create("a", now_ms=NOW_MS, on_copied=nothing)
    broker = opened(file_system)
    append(broker, TWELVE[9:])
    broker.close()
    return file_system.snapshot().crash(CrashMode.STRICT)


def create(file_system: FileSystem, promises: list[str]) -> None:
    snapshots(file_system).create("a", now_ms=NOW_MS, on_copied=nothing)
    promises.append("a")


def check_create(point: CrashPoint) -> None:
    after = point.file_system
    names = [one.name for one in snapshots(after).find_all()]
    assert names in (["a"], [])
    assert names or not point.acknowledged
    assert content_of(after) == NINE
    snapshots(after).create("b", now_ms=NOW_MS + 1, on_copied=nothing)
    assert after.list("/d.snapshots") == [".lock", *names, "b"]
    for name in names:
        assert content_of(after, f"/d.snapshots/{name}") == NINE
    assert content_of(after, "/d.snapshots/b") == [*NINE, b"later"]


def create_beside(file_system: FileSystem, promises: list[str]) -> None:
    """Of a directory that a broker has open, and writes to before and after."""
    broker = opened(file_system)
    append(broker, TWELVE[9:11])
    snapshots(file_system).create_beside(
        "a",
        now_ms=NOW_MS,
        on_copied=nothing,
        recover=lambda paths: opened(file_system, *paths).close(),
    )
    promises.append("a")
    append(broker, TWELVE[11:])
    broker.close()


def check_create_beside(point: CrashPoint) -> None:
    after = point.file_system
    names = [one.name for one in snapshots(after).find_all()]
    assert names in (["a"], [])
    assert names or not point.acknowledged
    for name in names:
        assert content_of(after, f"/d.snapshots/{name}") == TWELVE[:11]
    found = content_of(after)
    assert found == TWELVE[: len(found)]
    assert len(found) >= 9
    snapshots(after).create("b", now_ms=NOW_MS + 1, on_copied=nothing)
    assert content_of(after, "/d.snapshots/b") == [*found, b"later"]


def cut_to_five(file_system: FileSystem) -> Callable[[Sequence[str]], None]:
    """What `--at` does to a directory before it has its name."""

    def cut(paths: Sequence[str]) -> None:
        broker = opened(file_system, *paths)
        broker.topics.partition("t", 0).log.maintenance.truncate_to(5, now_ms=NOW_MS)
        broker.close()

    return cut


def branch_at(file_system: FileSystem, promises: list[str]) -> None:
    snapshots(file_system).branch("a", "/b", on_copied=nothing, change=cut_to_five(file_system))
    promises.append("branched")


def check_branch_at(point: CrashPoint) -> None:
    after = point.file_system
    assert after.status("/b") is not None or not point.acknowledged
    if after.status("/b") is None:
        branch_at(after, [])
    assert content_of(after, "/b") == NINE[:5]
    assert content_of(after) == TWELVE
    assert content_of(after, "/d.snapshots/a") == NINE


def restore_at(file_system: FileSystem, promises: list[str]) -> None:
    snapshots(file_system).restore(
        "a", kept="k", now_ms=NOW_MS, on_copied=nothing, change=cut_to_five(file_system)
    )
    promises.append("restored")


def check_restore_at(point: CrashPoint) -> None:
    after = point.file_system
    found = content_of(after)
    assert found in ((NINE[:5],) if point.acknowledged else (NINE[:5], TWELVE))
    if found != TWELVE:
        assert content_of(after, "/d.snapshots/k") == TWELVE
    assert content_of(after, "/d.snapshots/a") == NINE


def delete(file_system: FileSystem, promises: list[str]) -> None:
    snapshots(file_system).delete("a")
    promises.append("deleted")


def check_delete(point: CrashPoint) -> None:
    after = point.file_system
    names = [one.name for one in snapshots(after).find_all()]
    assert names in (["a"], [])
    assert not (names and point.acknowledged)
    for name in names:
        assert content_of(after, f"/d.snapshots/{name}") == NINE
    assert content_of(after) == TWELVE


def branch(file_system: FileSystem, promises: list[str]) -> None:
    snapshots(file_system).branch("a", "/b", on_copied=nothing)
    promises.append("branched")


def check_branch(point: CrashPoint) -> None:
    after = point.file_system
    assert after.status("/b") is not None or not point.acknowledged
    if after.status("/b") is None:
        snapshots(after).branch("a", "/b", on_copied=nothing)
    assert content_of(after, "/b") == NINE
    assert content_of(after) == TWELVE
    assert content_of(after, "/d.snapshots/a") == NINE


def restore(file_system: FileSystem, promises: list[str]) -> None:
    snapshots(file_system).restore("a", kept="k", now_ms=NOW_MS, on_copied=nothing)
    promises.append("restored")


def check_restore(point: CrashPoint) -> None:
    after = point.file_system
    found = content_of(after)
    assert found in ((NINE,) if point.acknowledged else (NINE, TWELVE))
    snapshots(after).create("next", now_ms=NOW_MS, on_copied=nothing)
    kept = [one.name for one in snapshots(after).find_all() if one.name == "k"]
    if found == NINE:
        assert content_of(after, "/d.snapshots/k") == TWELVE
    elif kept:
        assert content_of(after, "/d.snapshots/k") == NINE
    assert content_of(after, "/d.snapshots/a") == NINE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "begin", "check"),
    [
        pytest.param(create, nine, check_create, id="create"),
        pytest.param(create_beside, nine, check_create_beside, id="create beside"),
        pytest.param(branch_at, twelve, check_branch_at, id="branch at"),
        pytest.param(restore_at, twelve, check_restore_at, id="restore at"),
        pytest.param(delete, twelve, check_delete, id="delete"),
        pytest.param(branch, twelve, check_branch, id="branch"),
        pytest.param(restore, twelve, check_restore, id="restore"),
    ],
)
def test_a_crash_leaves_a_snapshot_or_none_and_hurts_no_log(
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
