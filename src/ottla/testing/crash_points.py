"""All points at which a workload can crash, and the disk after each kind of crash there.

A workload writes to a file system and appends each promise to its caller to a list. At every point
the test's own check opens the file system and compares it with the promises::

    for point in every_crash_point(workload):
        assert recover(point.file_system) >= point.acknowledged, point
"""

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from hashlib import blake2b
from random import Random
from typing import Any, TypeVar

from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.testing.crash import CrashMode
from ottla.testing.faults import Effect
from ottla.testing.file_system import FakeFileSystem
from ottla.testing.recording import IoCall, IoKind, RecordingFileSystem

T = TypeVar("T")

Workload = Callable[[FileSystem, list[Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """One crash. The fields before `file_system` are sufficient to repeat it.

    >>> def workload(disk, acknowledged):
    ...     disk.make_directory("data")
    >>> point, *others = every_crash_point(workload)
    >>> point.at_call, point.mode, point.file_system.list(".")
    (0, <CrashMode.STRICT: 'strict'>, [])
    """

    at_call: int
    effect: Effect
    mode: CrashMode
    seed: int
    call: IoCall | None
    """The call that was interrupted; `None` if the workload had ended."""
    acknowledged: list[Any]
    file_system: FakeFileSystem = field(repr=False)


def every_crash_point(
    workload: Workload,
    *,
    make_file_system: Callable[[], FakeFileSystem] = FakeFileSystem,
    seeds: int = 4,
    first_seed: int = 0,
    share: float = 1.0,
) -> Iterator[CrashPoint]:
    """Yields crashes before each call, in the middle of each write, and at the end.

    At each point there is a power failure that loses everything unsynced, `seeds` power failures
    with random losses, and a kill of the process. The workload runs once, on the result of
    `make_file_system`; it must not change what it has appended to its list. Another `first_seed`
    gives other random losses; with a smaller `share` only that share of the calls gets random
    losses, which are most of all crashes.

    A crash that leaves the same disk as an earlier one, with the same promises, is omitted, because
    a deterministic check would find the same. So is a kill that leaves the files of an earlier one
    in which less of them had been synced.

    >>> def workload(disk, acknowledged):
    ...     disk.make_directory("data")
    ...     disk.sync_directory(".")
    ...     acknowledged.append("data")
    >>> for point in every_crash_point(workload):
    ...     assert set(point.acknowledged) <= set(point.file_system.list("."))
    """
    recording = _Snapshots(make_file_system())
    workload(recording, recording.acknowledged)
    recording.keep(None)
    seen: set[bytes] = set()
    chosen = Random(first_seed)
    for moment in recording.moments:
        mixtures = seeds if chosen.random() < share else 0
        for mode, seed in _crashes(first_seed + moment.at_call * seeds, mixtures):
            left = moment.disk.crash(mode, seed)
            is_kill = mode is CrashMode.KEEP
            state = left.contents() if is_kill else left.state()
            look = repr((is_kill, moment.promise_number, state)).encode()
            digest = blake2b(look, digest_size=16).digest()
            if digest in seen:
                continue
            seen.add(digest)
            yield CrashPoint(
                at_call=moment.at_call,
                effect=moment.effect,
                mode=mode,
                seed=seed,
                call=moment.call,
                acknowledged=list(moment.acknowledged),
                file_system=left,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A disk at the beginning of a call, or after half of its write."""

    at_call: int
    effect: Effect
    call: IoCall | None
    acknowledged: list[Any]
    promise_number: int
    """Equal for equal promises."""
    disk: FakeFileSystem


class _Snapshots(RecordingFileSystem):
    """Records the disk at the beginning of each call, and after half of each write."""

    def __init__(self, disk: FakeFileSystem) -> None:
        super().__init__(disk)
        self._disk = disk
        self._promise_number = 0
        self._promised: list[Any] = []
        self.acknowledged: list[Any] = []
        self.moments: list[_Moment] = []

    def perform(
        self, call: IoCall, deed: Callable[[], T], fall_short: Callable[[], None] | None = None
    ) -> T:
        self.keep(call)
        result = super().perform(call, deed, fall_short)
        if call.kind in (IoKind.PWRITE, IoKind.PWRITEV) and call.size:
            half = self._disk.snapshot()
            half.halve_last_write()
            self.moments.append(replace(self.moments[-1], effect=Effect.PARTIAL, disk=half))
        return result

    def keep(self, call: IoCall | None) -> None:
        if self.acknowledged != self._promised:
            self._promise_number += 1
            self._promised = list(self.acknowledged)
        self.moments.append(
            _Moment(
                at_call=len(self.calls),
                effect=Effect.BEFORE,
                call=call,
                acknowledged=self._promised,
                promise_number=self._promise_number,
                disk=self._disk.snapshot(),
            )
        )


def _crashes(first_seed: int, seeds: int) -> Iterator[tuple[CrashMode, int]]:
    yield CrashMode.STRICT, 0
    yield CrashMode.KEEP, 0
    for number in range(seeds):
        yield CrashMode.RANDOM, first_seed + number
