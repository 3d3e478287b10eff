"""Faults come where they were planned, with the effect that was planned."""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base.files import File, FileSystem, OsFileSystem, join, read_file
from ottla.testing import (
    CrashMode,
    Effect,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    IoKind,
    SimulatedCrash,
)

EIO = OSError(errno.EIO, os.strerror(errno.EIO))
ENOSPC = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def content_after(system: FaultyFileSystem) -> bytes:
    return read_file(system.inner, "a")


@pytest.mark.parametrize(
    ("effect", "content"),
    [(Effect.BEFORE, b""), (Effect.PARTIAL, b"01234"), (Effect.AFTER, b"0123456789")],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda file: file.pwrite(b"0123456789", 0),
        lambda file: file.pwritev([b"012", b"3456789"], 0),
    ],
)
def test_a_write_fails_before_in_the_middle_or_after(
    effect: Effect, content: bytes, write: Callable[[File], None]
) -> None:
    system = FaultyFileSystem(FakeFileSystem(), FaultPlan(at_call=1, error=ENOSPC, effect=effect))
    file = system.open("a", create=True)
    with pytest.raises(OSError) as raised:
        write(file)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "a")
    assert content_after(system) == content


def test_only_the_planned_call_fails() -> None:
    system = FaultyFileSystem(FakeFileSystem(), FaultPlan(at_call=2, error=EIO))
    file = system.open("a", create=True)
    file.pwrite(b"1", 0)
    with pytest.raises(OSError):
        file.pwrite(b"2", 1)
    file.pwrite(b"3", 2)
    assert content_after(system) == b"1\x003"
    assert [call.kind for call in system.calls] == [IoKind.CREATE, *3 * [IoKind.PWRITE]]


def test_a_lasting_fault_fails_every_later_call() -> None:
    plan = FaultPlan(at_call=1, error=ENOSPC, is_lasting=True)
    system = FaultyFileSystem(FakeFileSystem(), plan)
    file = system.open("a", create=True)
    for _ in range(3):
        with pytest.raises(OSError):
            file.pwrite(b"1", 0)
    assert file.size() == 0


def test_a_file_whose_creation_fails_is_not_there() -> None:
    system = FaultyFileSystem(FakeFileSystem(), FaultPlan(at_call=0, error=ENOSPC))
    with pytest.raises(OSError):
        system.open("a", create=True)
    assert system.status("a") is None


CALLS: dict[str, Callable[[FileSystem, str], object]] = {
    "open": lambda system, root: system.open(join(root, "a")),
    "list": lambda system, root: system.list(root),
    "names": lambda system, root: system.names(root),
    "status": lambda system, root: system.status(root),
    "make_directory": lambda system, root: system.make_directory(join(root, "d")),
    "rename": lambda system, root: system.rename(join(root, "a"), join(root, "b")),
    "remove": lambda system, root: system.remove(join(root, "a")),
    "remove_directory": lambda system, root: system.remove_directory(root),
    "sync_directory": lambda system, root: system.sync_directory(root),
    "lock": lambda system, root: system.lock(join(root, "a")),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_crashed_process_does_nothing_more(call: str, tmp_path: Path) -> None:
    root = str(tmp_path)
    system = FaultyFileSystem(OsFileSystem(), FaultPlan(at_call=1, error=SimulatedCrash()))
    file = system.open(join(root, "a"), create=True)
    with pytest.raises(SimulatedCrash, match="PWRITE"):
        file.pwrite(b"1", 0)
    with pytest.raises(SimulatedCrash, match="before"):
        CALLS[call](system, root)
    for use in (file.size, file.sync, lambda: file.pread(1, 0), lambda: file.map(0), file.fileno):
        with pytest.raises(SimulatedCrash, match="before"):
            use()
    file.close()
    assert os.listdir(root) == ["a"]
    assert system.is_crashed
    assert len(system.calls) == 2


def test_no_handler_of_errors_survives_a_crash() -> None:
    system = FaultyFileSystem(FakeFileSystem(), FaultPlan(at_call=0, error=SimulatedCrash()))
    with pytest.raises(SimulatedCrash), contextlib.suppress(Exception):
        system.make_directory("d")


def system_with_a_failed_sync(effect: Effect = Effect.BEFORE) -> FaultyFileSystem:
    plan = FaultPlan(at_call=2, error=EIO, effect=effect)
    system = FaultyFileSystem(FakeFileSystem(), plan)
    file = system.open("a", create=True)
    file.pwrite(b"1", 0)
    with pytest.raises(OSError):
        file.sync()
    system.inner.sync_directory(".")
    return system


def durable(system: FaultyFileSystem, path: str) -> bytes:
    assert isinstance(system.inner, FakeFileSystem)
    return read_file(system.inner.crash(CrashMode.STRICT), path)


def test_a_sync_that_is_retried_is_noticed_and_has_saved_nothing() -> None:
    system = system_with_a_failed_sync()
    assert system.retried_failed_syncs == []
    system.open("a", writable=True).sync()
    assert system.retried_failed_syncs == ["a"]
    assert durable(system, "a") == b""


def test_a_retry_is_noticed_under_the_new_name_of_the_file() -> None:
    system = system_with_a_failed_sync()
    system.make_directory("d")
    system.rename("a", "d/a")
    system.rename("d", "e")
    system.open("a", create=True).sync()
    assert system.retried_failed_syncs == []
    system.open("e/a", writable=True).sync()
    assert system.retried_failed_syncs == ["e/a"]


@pytest.mark.parametrize("cut", [True, False])
def test_a_file_that_is_written_again_after_a_failed_sync_may_be_synced(cut: bool) -> None:
    system = system_with_a_failed_sync()
    if cut:
        system.open("a", writable=True).truncate(0)
    else:
        system.remove("a")
    file = system.open("a", create=True)
    file.pwrite(b"2", 0)
    file.sync()
    system.sync_directory(".")
    assert system.retried_failed_syncs == []
    assert durable(system, "a") == b"2"


def test_a_sync_may_fail_after_its_effect() -> None:
    assert durable(system_with_a_failed_sync(Effect.AFTER), "a") == b"1"


def test_a_file_that_takes_the_place_of_one_in_doubt_may_be_synced() -> None:
    system = system_with_a_failed_sync()
    system.open("b", create=True)
    system.rename("b", "a")
    system.open("a", writable=True).sync()
    assert system.retried_failed_syncs == []


def test_a_crash_in_a_sync_leaves_nothing_in_doubt_for_the_next_process() -> None:
    disk = FakeFileSystem()
    plan = FaultPlan(at_call=2, error=SimulatedCrash(), effect=Effect.PARTIAL)
    file = FaultyFileSystem(disk, plan).open("a", create=True)
    file.pwrite(b"1", 0)
    with pytest.raises(SimulatedCrash):
        file.sync()
    after = disk.crash(CrashMode.KEEP)
    after.open("a").sync()
    after.sync_directory(".")
    assert read_file(after.crash(CrashMode.STRICT), "a") == b"1"
