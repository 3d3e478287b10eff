"""The checker is itself checked: it passes what is right and catches the classic mistakes."""

import errno
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import suppress
from itertools import product

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
    IoKind,
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
    ("workload", "after_a_kill"),
    [
        (replace_without_sync, {False}),
        (replace_without_sync_of_the_name, {False}),
        (replace_in_place, {False, True}),
        (replace_and_promise_too_early, {False, True}),
    ],
)
def test_a_careless_replacement_is_caught(workload: Workload, after_a_kill: set[bool]) -> None:
    found = violations(every_crash_point(workload, seeds=8))
    assert {point.mode is CrashMode.KEEP for point in found} == after_a_kill


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


def test_every_call_that_changes_files_has_its_points_and_a_write_has_its_middle() -> None:
    points = list(every_crash_point(lambda system, _: replace_file(system, "a", b"1234"), seeds=2))
    kills = [point for point in points if point.mode is CrashMode.KEEP]
    assert [(point.effect, point.call.kind) for point in kills if point.call] == [
        (Effect.BEFORE, IoKind.CREATE),
        (Effect.BEFORE, IoKind.TRUNCATE),
        (Effect.PARTIAL, IoKind.PWRITE),
        (Effect.BEFORE, IoKind.SYNC),
        (Effect.BEFORE, IoKind.SYNC_DIRECTORY),
    ]
    assert list(every_crash_point(replace_often))[-1].call is None
    torn = next(
        point for point in points if (point.effect, point.mode) == (Effect.PARTIAL, CrashMode.KEEP)
    )
    assert read_file(torn.file_system, "a.tmp") == b"12"


State = tuple[bool, int, Hashable]


def state_of(mode: CrashMode, acknowledged: list[bytes], disk: FakeFileSystem) -> State:
    is_kill = mode is CrashMode.KEEP
    return is_kill, len(acknowledged), disk.contents() if is_kill else disk.state()


def states_of_runs_that_are_cut_off(workload: Workload, seeds: int) -> Iterator[State]:
    """Crash by crash: the workload runs again for each, until a call raises."""
    whole = FaultyFileSystem(FakeFileSystem())
    workload(whole, [])
    for at_call, effect in product(range(len(whole.calls) + 1), (Effect.BEFORE, Effect.PARTIAL)):
        disk, acknowledged = FakeFileSystem(), list[bytes]()
        plan = FaultPlan(at_call=at_call, error=SimulatedCrash(), effect=effect)
        with suppress(SimulatedCrash):
            workload(FaultyFileSystem(disk, plan), acknowledged)
        for number in range(seeds):
            seed = at_call * seeds + number
            for mode in CrashMode:
                yield state_of(mode, acknowledged, disk.crash(mode, seed))


@pytest.mark.parametrize(
    "workload",
    [replace_often, replace_in_place, replace_without_sync],
    ids=lambda one: one.__name__,
)
def test_the_points_leave_what_runs_leave_that_are_cut_off_and_each_of_it_once(
    workload: Workload,
) -> None:
    points = every_crash_point(workload, seeds=3)
    found = [state_of(one.mode, one.acknowledged, one.file_system) for one in points]
    assert len(found) == len(set(found))
    assert set(found) == set(states_of_runs_that_are_cut_off(workload, seeds=3))


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


def test_the_workload_runs_once() -> None:
    runs: list[FileSystem] = []

    def workload(system: FileSystem, acknowledged: list[bytes]) -> None:
        runs.append(system)
        replace_often(system, acknowledged)

    assert len(list(every_crash_point(workload))) > 30
    assert len(runs) == 1


def test_an_error_of_the_workload_is_not_taken_for_a_crash() -> None:
    def broken(system: FileSystem, acknowledged: list[bytes]) -> None:
        system.list("none")

    with pytest.raises(FileNotFoundError):
        list(every_crash_point(broken))


def test_a_simulated_crash_is_not_an_error() -> None:
    assert not issubclass(SimulatedCrash, Exception)


def test_no_seed_is_used_at_two_calls() -> None:
    points = every_crash_point(replace_often, seeds=9)
    seen = {(point.at_call, point.seed) for point in points if point.mode is CrashMode.RANDOM}
    assert len(seen) > 10
    assert len({seed for _, seed in seen}) == len(seen)


def test_another_first_seed_gives_other_mixtures() -> None:
    def states(first_seed: int) -> set[Hashable]:
        points = every_crash_point(replace_often, seeds=2, first_seed=first_seed)
        return {one.file_system.state() for one in points if one.mode is CrashMode.RANDOM}

    assert states(0) == states(0) != states(1000)


def test_of_kills_that_leave_the_same_files_the_one_that_had_synced_least_is_tried() -> None:
    def workload(system: FileSystem, _: list[object]) -> None:
        file = system.open("a", create=True)
        file.pwrite(b"1234", 0)
        file.sync()
        file.close()
        system.sync_directory(".")

    points = list(every_crash_point(workload, seeds=0))
    kills = [one.file_system for one in points if one.mode is CrashMode.KEEP]
    names = [one.list(".") for one in kills]
    assert names == [[], ["a"], ["a"], ["a"]]
    assert [read_file(one, "a") for one in kills[1:]] == [b"", b"12", b"1234"]
    assert kills[-1].crash(CrashMode.STRICT).list(".") == []


def test_a_share_of_the_calls_has_mixtures_and_all_have_the_rest() -> None:
    def modes(share: float) -> Counter[CrashMode]:
        points = every_crash_point(replace_often, seeds=3, share=share)
        return Counter(one.mode for one in points)

    all_modes, some, none = modes(1.0), modes(0.5), modes(0.0)
    assert none[CrashMode.RANDOM] == 0
    assert all_modes[CrashMode.RANDOM] / 4 < some[CrashMode.RANDOM] < all_modes[CrashMode.RANDOM]
    for mode in (CrashMode.STRICT, CrashMode.KEEP):
        assert all_modes[mode] == some[mode] == none[mode]


def test_the_same_disk_with_another_promise_is_another_point() -> None:
    def workload(system: FileSystem, acknowledged: list[int]) -> None:
        replace_file(system, "a", b"1")
        system.sync_directory(".")
        acknowledged.append(1)
        system.sync_directory(".")

    strict = [one for one in every_crash_point(workload, seeds=0) if one.mode is CrashMode.STRICT]
    assert [one.acknowledged for one in strict] == [[], [], [1]]
