"""Every place at which a workload can be cut off, and what each kind of crash leaves there.

A workload writes to a file system and appends to a list what it has promised to its caller. For
every point the check is the test's own: open what is left, and compare it with the promises::

    for point in every_crash_point(workload):
        assert recover(point.file_system) >= point.acknowledged, point
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.base.files import FileSystem
from ottla.testing.crash import CrashMode
from ottla.testing.faults import Effect, FaultPlan, FaultyFileSystem, SimulatedCrash
from ottla.testing.file_system import FakeFileSystem
from ottla.testing.recording import IoCall, IoKind

Workload = Callable[[FileSystem, list[Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """One crash; the fields before `file_system` are all that it takes to have it again."""

    at_call: int
    effect: Effect
    mode: CrashMode
    seed: int
    call: IoCall | None
    """The call that was cut off; `None` when the workload had come to its end."""
    acknowledged: list[Any]
    file_system: FakeFileSystem = field(repr=False)


def every_crash_point(
    workload: Workload,
    *,
    make_file_system: Callable[[], FakeFileSystem] = FakeFileSystem,
    seeds: int = 4,
    first_seed: int = 0,
) -> Iterator[CrashPoint]:
    """Crashes before each call, in the middle of each write, and when all is done.

    Each time the power fails with everything unsynced lost, with `seeds` mixtures, and the process
    alone is killed. `make_file_system` hands out the disk to start from, alike every time, and the
    workload must make the same calls every time. Another `first_seed` gives other mixtures.
    """
    whole = FaultyFileSystem(make_file_system())
    workload(whole, [])
    for at_call, call in enumerate([*whole.calls, None]):
        is_write = call is not None and call.kind in (IoKind.PWRITE, IoKind.PWRITEV)
        for effect in (Effect.BEFORE, Effect.PARTIAL) if is_write else (Effect.BEFORE,):
            disk = make_file_system()
            plan = FaultPlan(at_call=at_call, error=SimulatedCrash(), effect=effect)
            faulty = FaultyFileSystem(disk, plan)
            acknowledged = _run(workload, faulty)
            made = whole.calls[: at_call + 1]
            assert faulty.calls == made, f"the workload made other calls than before: {made[-1:]}"
            for mode, seed in _crashes(first_seed + at_call * seeds, seeds):
                yield CrashPoint(
                    at_call=at_call,
                    effect=effect,
                    mode=mode,
                    seed=seed,
                    call=call,
                    acknowledged=list(acknowledged),
                    file_system=disk.crash(mode, seed),
                )


def _run(workload: Workload, file_system: FaultyFileSystem) -> list[Any]:
    acknowledged: list[Any] = []
    try:
        workload(file_system, acknowledged)
    except SimulatedCrash:
        assert file_system.is_crashed
    return acknowledged


def _crashes(first_seed: int, seeds: int) -> Iterator[tuple[CrashMode, int]]:
    yield CrashMode.STRICT, 0
    yield CrashMode.KEEP, 0
    for number in range(seeds):
        yield CrashMode.RANDOM, first_seed + number
