"""The checker is itself checked: it passes what is right and catches the classic mistakes."""

import errno
from collections.abc import Iterator

import pytest

from ottla.base.files import (
    FileSystem,
    parent_directory,
    read_file,
    replace_file,
)
from ottla.testing import (
    CrashMode,
    CrashPoint,
    Effect,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    SimulatedCrash,
    every_crash_point,
)
from ottla.testing.crash_points import Workload

VERSIONS = [b"1" * 600, b"2" * 1200, b"3" * 300]


def replace_often(system: FileSystem, acknowledged: list[bytes]) -> None:
    for version in VERSIONS:
        replace_file(system, "a", version)
        acknowledged.append(version)


def replace_carelessly(system: FileSystem, content: bytes, *, sync: bool, sync_name: bool) -> None:
    file = system.open("a.tmp", create=True)
    file.truncate(0)
    file.pwrite(content, 0)
    if sync:
        file.sync()
    file.close()
    system.rename("a.tmp", "a")
    if sync_name:
        system.sync_directory(parent_directory("a"))


def replace_without_sync(system: FileSystem, acknowledged: list[bytes]) -> None:
    for version in VERSIONS:
        replace_carelessly(system, version, sync=False, sync_name=True)
        acknowledged.append(version)


def replace_without_sync_of_the_name(system: FileSystem, acknowledged: list[bytes]) -> None:
    for version in VERSIONS:
        replace_carelessly(system, version, sync=True, sync_name=False)
        acknowledged.append(version)


def replace_in_place(system: FileSystem, acknowledged: list[bytes]) -> None:
    file = system.open("a", create=True)
    system.sync_directory(".")
    for version in VERSIONS:
        file.truncate(0)
        file.pwrite(version, 0)
        file.sync()
        acknowledged.append(version)


def replace_and_promise_too_early(system: FileSystem, acknowledged: list[bytes]) -> None:
    for version in VERSIONS:
        acknowledged.append(version)
        replace_file(system, "a", version)


def violations(points: Iterator[CrashPoint]) -> list[CrashPoint]:
    """Where the file is neither the last version that was promised nor the one after it."""
    found = []
    for point in points:
        count = len(point.acknowledged)
        allowed: list[bytes | None] = [*[None, *VERSIONS][count : count + 2]]
        present = point.file_system.status("a") is not None
        content = read_file(point.file_system, "a") if present else None
        if content not in allowed:
            found.append(point)
    return found


def test_a_proper_replacement_survives_every_crash() -> None:
    assert violations(every_crash_point(replace_often, seeds=8)) == []


@pytest.mark.parametrize(
    ("workload", "modes"),
    [
        (replace_without_sync, {CrashMode.STRICT, CrashMode.RANDOM}),
        (replace_without_sync_of_the_name, {CrashMode.STRICT, CrashMode.RANDOM}),
        (replace_in_place, {CrashMode.STRICT, CrashMode.KEEP, CrashMode.RANDOM}),
        (replace_and_promise_too_early, set(CrashMode)),
    ],
)
def test_a_careless_replacement_is_caught(workload: Workload, modes: set[CrashMode]) -> None:
    assert {point.mode for point in violations(every_crash_point(workload, seeds=8))} == modes


def sync_until_it_works(system: FileSystem, acknowledged: list[bytes]) -> None:
    """The mistake that PostgreSQL made until 2018: to ask again, and to believe the answer."""
    file = system.open("a", create=True)
    system.sync_directory(".")
    file.pwrite(VERSIONS[0], 0)
    for _ in range(2):
        try:
            file.sync()
        except OSError:
            continue
        acknowledged.append(VERSIONS[0])
        return


def test_a_retried_sync_is_caught_by_its_name_and_by_its_loss() -> None:
    disk = FakeFileSystem()
    fault = FaultPlan(at_call=3, error=OSError(errno.EIO, "input/output error"))
    system = FaultyFileSystem(disk, fault)
    acknowledged: list[bytes] = []
    sync_until_it_works(system, acknowledged)
    assert acknowledged == [VERSIONS[0]]
    assert system.retried_failed_syncs == ["a"]
    assert read_file(disk.crash(CrashMode.STRICT), "a") == b""


def test_every_call_has_its_points_and_a_write_has_its_middle() -> None:
    points = list(every_crash_point(lambda system, _: replace_file(system, "a", b"1234"), seeds=2))
    assert [(point.at_call, point.effect) for point in points if point.mode is CrashMode.KEEP] == [
        (0, Effect.BEFORE),
        (1, Effect.BEFORE),
        (2, Effect.BEFORE),
        (2, Effect.PARTIAL),
        (3, Effect.BEFORE),
        (4, Effect.BEFORE),
        (5, Effect.BEFORE),
        (6, Effect.BEFORE),
    ]
    assert len(points) == 8 * 4
    assert points[-1].call is None
    torn = next(
        point for point in points if (point.effect, point.mode) == (Effect.PARTIAL, CrashMode.KEEP)
    )
    assert read_file(torn.file_system, "a.tmp") == b"12"


def test_a_point_says_how_to_have_it_again() -> None:
    point = next(every_crash_point(replace_often))
    assert repr(point).startswith("CrashPoint(at_call=0, effect=<Effect.BEFORE: 'nothing'>, mode=")
    assert "FileSystem" not in repr(point)


def test_every_run_starts_from_the_disk_that_was_asked_for() -> None:
    def old_disk() -> FakeFileSystem:
        disk = FakeFileSystem()
        replace_file(disk, "a", b"old")
        return disk

    points = every_crash_point(
        lambda system, _: replace_file(system, "a", b"new"), make_file_system=old_disk
    )
    assert {read_file(point.file_system, "a") for point in points} == {b"old", b"new"}


def test_a_workload_that_is_different_every_time_is_refused() -> None:
    names = iter(range(100))
    with pytest.raises(AssertionError, match="other calls than before"):
        list(every_crash_point(lambda system, _: system.make_directory(f"d{next(names)}")))


def test_an_error_of_the_workload_is_not_taken_for_a_crash() -> None:
    def broken(system: FileSystem, acknowledged: list[bytes]) -> None:
        system.list("none")

    with pytest.raises(FileNotFoundError):
        list(every_crash_point(broken))


def test_a_simulated_crash_is_not_an_error() -> None:
    assert not issubclass(SimulatedCrash, Exception)


def test_no_seed_is_used_at_two_calls() -> None:
    points = every_crash_point(lambda system, _: replace_file(system, "a", b"1"), seeds=3)
    seen = {(point.at_call, point.seed) for point in points if point.mode is CrashMode.RANDOM}
    assert len(seen) == 7 * 3
    assert len({seed for _, seed in seen}) == len(seen)


def test_another_first_seed_gives_other_mixtures() -> None:
    def seeds(first_seed: int) -> set[int]:
        points = every_crash_point(replace_often, seeds=2, first_seed=first_seed)
        return {point.seed for point in points if point.mode is CrashMode.RANDOM}

    assert seeds(1000) == {1000 + seed for seed in seeds(0)}
