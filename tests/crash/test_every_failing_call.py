"""A log directory whose disk fails at every single call: it goes offline, and loses no promise."""

import errno
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from ottla.base.errors import StorageError, UserError
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.testing import (
    CrashMode,
    Effect,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    IoKind,
)
from tests.crash.cases import CASES, Case
from tests.crash.checking import all_files, check_consistency, check_promise, reopened
from tests.crash.history import Event, promise_of
from tests.crash.sampling import ONE_OF, kind_of
from tests.crash.test_every_crash_point import CLEAN_MARK
from tests.crash.workload import Writer

ERRORS = [errno.EIO, errno.ENOSPC]


def every_fault(case: Case, *, in_all_ways: bool) -> Iterator[FaultPlan]:
    """Each call fails before it has done anything, half way, and after all is done.

    Or some of each kind of call do, each in one of these ways, which take turns.
    """
    recording = FaultyFileSystem(FakeFileSystem())
    case(recording, [])
    variants = count()
    turns: Counter[object] = Counter()
    for at_call, call in enumerate(recording.calls):
        is_write = call.kind in (IoKind.PWRITE, IoKind.PWRITEV)
        effects = tuple(Effect) if is_write else (Effect.BEFORE, Effect.AFTER)
        turn, left = divmod(turns[kind_of(call)], ONE_OF)
        turns[kind_of(call)] += 1
        if not in_all_ways:
            effects = (effects[turn % len(effects)],) if left == 0 else ()
        for effect in effects:
            variant = next(variants)
            error = OSError(ERRORS[variant % 2], "a fault of the test")
            is_lasting = variant // 2 % 2 == 1
            yield FaultPlan(at_call=at_call, error=error, effect=effect, is_lasting=is_lasting)


def check_fault(case: Case, plan: FaultPlan, mode: CrashMode, seed: int) -> None:
    disk = FakeFileSystem()
    faulty = FaultyFileSystem(disk, plan)
    events: list[Event] = []
    writer = Writer(faulty, events, config=case.config)
    error = failure_of(case, writer)
    if error is None:
        assert removes_what_is_not_there(faulty, plan)
        return
    if writer.is_open:
        assert isinstance(error, StorageError)
        check_offline(writer, faulty)
    elif isinstance(error, UserError):
        kinds = (IoKind.MAKE_DIRECTORY, IoKind.SYNC_DIRECTORY, IoKind.CREATE)
        assert faulty.calls[-1].kind in kinds, "only what a person can repair is told to one"
    assert faulty.retried_failed_syncs == []
    check_recovery(case, events, disk.crash(mode, seed), mode)


def failure_of(case: Case, writer: Writer) -> StorageError | UserError | None:
    try:
        case.steps(writer)
    except (StorageError, UserError) as error:
        return error
    return None


def removes_what_is_not_there(faulty: FaultyFileSystem, plan: FaultPlan) -> bool:
    """Calls that do not fail when they do all they should: there was nothing to do.

    Removals, and renames of the index that few segments have. And those that write the note of
    the boot, without which less is known after a kill.
    """
    call = faulty.calls[plan.at_call]
    if BOOT_NOTE in call.path:
        return True
    return plan.effect is Effect.AFTER and call.kind in (IoKind.REMOVE, IoKind.RENAME)


def check_offline(writer: Writer, faulty: FaultyFileSystem) -> None:
    """Everything is refused, and nobody goes near the disk any more."""
    made = len(faulty.calls)
    events = list(writer.events)
    deeds: list[Callable[[], object]] = [writer.checkpoint]
    if writer.has_log:
        deeds += [writer.append, writer.flush, lambda: writer.truncate(0)]
        deeds += [lambda: writer.delete_before(writer.log.high_watermark)]
    for deed in deeds:
        with pytest.raises(StorageError):
            deed()
    with pytest.raises(StorageError, match="while it was closed"):
        writer.close()
    writer.events[:] = events
    assert faulty.calls[made:] == []


def check_recovery(case: Case, events: list[Event], disk: FakeFileSystem, mode: CrashMode) -> None:
    promise = promise_of(events)
    may_be_new = not promise.is_created or promise.restart is not None
    log = reopened(disk, case.config, may_be_new=may_be_new)
    required = promise.written_end if mode is CrashMode.KEEP else promise.flushed_end
    check_consistency(log, check_promise(log, promise, required))


def check_all(case: Case, *, in_all_ways: bool, first_seed: int = 0) -> None:
    modes = list(CrashMode)
    for number, plan in enumerate(every_fault(case, in_all_ways=in_all_ways), first_seed):
        mode = modes[number % len(modes)]
        try:
            check_fault(case, plan, mode, number)
        except Exception as error:
            error.add_note(f"{plan}, then a crash: {mode}, seed {number}")
            raise


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_directory_goes_offline_at_every_failing_call(case: Case, crash_seconds: float) -> None:
    check_all(case, in_all_ways=bool(crash_seconds))
    until = time.monotonic() + crash_seconds
    while time.monotonic() < until:
        check_all(case, in_all_ways=True, first_seed=time.time_ns())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_stop_counts_as_clean_before_its_last_call(case: Case) -> None:
    """The mark of a clean stop appears with one rename, which comes after all other calls."""
    recording = FaultyFileSystem(FakeFileSystem())
    writer = Writer(recording, [], config=case.config)
    case.steps(writer)
    before = len(recording.calls)
    writer.close()
    for at_call in range(before, len(recording.calls)):
        disk = FakeFileSystem()
        plan = FaultPlan(at_call=at_call, error=OSError(errno.EIO, "a fault of the test"))
        writer = Writer(FaultyFileSystem(disk, plan), [], config=case.config)
        case.steps(writer)
        with pytest.raises(StorageError):
            writer.close()
        is_last = recording.calls[at_call].kind is IoKind.SYNC_DIRECTORY
        assert (CLEAN_MARK in all_files(disk)) == (is_last and at_call == len(recording.calls) - 1)
