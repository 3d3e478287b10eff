"""A file system that fails, or crashes, at a call chosen by a test."""

from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.testing.recording import IoCall, IoKind, RecordingFileSystem

T = TypeVar("T")


class SimulatedCrash(BaseException):
    """The process has crashed. Not an `Exception`, because no error handler survives a crash.

    >>> disk = FaultyFileSystem(FakeFileSystem(), FaultPlan(at_call=0, error=SimulatedCrash()))
    >>> disk.make_directory("data")
    Traceback (most recent call last):
    ottla.testing.faults.SimulatedCrash: at ...
    """


class Effect(Enum):
    """How much of the failing call is done.

    >>> full = OSError(errno.ENOSPC, "No space left on device")
    >>> plan = FaultPlan(at_call=0, error=full, effect=Effect.PARTIAL)
    """

    BEFORE = "nothing"
    PARTIAL = "the first half of what a write writes; nothing of any other call"
    AFTER = "all of it, but the call fails"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """A fault and its call, counted from 0 as in `RecordingFileSystem.calls`.

    An `OSError` fails that call, and with `is_lasting` every later one too, as on a full or dying
    disk. A `SimulatedCrash` ends the process: all later calls crash as well.

    >>> plan = FaultPlan(at_call=3, error=OSError(errno.EIO, "I/O error"), is_lasting=True)
    >>> plan.covers(2), plan.covers(3), plan.covers(4)
    (False, True, True)
    """

    at_call: int
    error: OSError | SimulatedCrash
    effect: Effect = Effect.BEFORE
    is_lasting: bool = False

    def covers(self, number: int) -> bool:
        return number == self.at_call or (self.is_lasting and number > self.at_call)


class FaultyFileSystem(RecordingFileSystem):
    """A recording file system that also fails as planned.

    A sync that fails leaves the unsynced bytes of a `FakeFile` in doubt. On Linux a later
    successful sync of such a file does not make them durable, unless the file was cut to nothing
    before: `retried_failed_syncs` lists the paths of such syncs, so that tests can assert that it
    is empty.

    >>> full = OSError(errno.ENOSPC, "No space left on device")
    >>> disk = FaultyFileSystem(FakeFileSystem(), FaultPlan(at_call=1, error=full))
    >>> disk.make_directory("data")
    >>> disk.make_directory("more")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'more'
    """

    def __init__(self, inner: FileSystem, *plans: FaultPlan) -> None:
        super().__init__(inner)
        self._plans = plans
        self._doubtful: set[str] = set()
        self.is_crashed = False
        self.retried_failed_syncs: list[str] = []

    def perform(
        self, call: IoCall, deed: Callable[[], T], fall_short: Callable[[], None] | None = None
    ) -> T:
        """Carries out a change, unless a plan makes it fail or the process has crashed.

        >>> disk = FaultyFileSystem(FakeFileSystem())
        >>> disk.perform(IoCall(kind=IoKind.SYNC, path="notes"), lambda: "done")
        'done'
        """
        self.check_alive()
        number = len(self.calls)
        self.calls.append(call)
        plan = next((plan for plan in self._plans if plan.covers(number)), None)
        self._watch(call)
        if plan is None:
            result = deed()
            self._follow(call)
            return result
        if plan.effect is Effect.AFTER:
            deed()
            self._follow(call)
        elif fall_short is not None and _falls_short(call, plan):
            fall_short()
        raise self._failure(call, plan.error)

    def check_alive(self) -> None:
        """Raises `SimulatedCrash` after a crash; called before each call that changes nothing.

        >>> FaultyFileSystem(FakeFileSystem()).check_alive()
        """
        if self.is_crashed:
            raise SimulatedCrash("the process has crashed before")

    def _failure(self, call: IoCall, error: OSError | SimulatedCrash) -> BaseException:
        """The error to raise, with the call's path; records the crash or the failed sync."""
        if isinstance(error, SimulatedCrash):
            self.is_crashed = True
            return SimulatedCrash(f"at {call}")
        if call.kind is IoKind.SYNC:
            self._doubtful.add(call.path)
        return OSError(error.errno, error.strerror, call.path)

    def _watch(self, call: IoCall) -> None:
        if call.kind is IoKind.SYNC and call.path in self._doubtful:
            self.retried_failed_syncs.append(call.path)

    def _follow(self, call: IoCall) -> None:
        """Updates the paths of files in doubt."""
        if call.kind is IoKind.REMOVE or (call.kind is IoKind.TRUNCATE and call.size == 0):
            self._doubtful.discard(call.path)
        elif call.kind is IoKind.RENAME and call.target is not None:
            self._doubtful.discard(call.target)
            self._doubtful = {_moved(path, call.path, call.target) for path in self._doubtful}


def _falls_short(call: IoCall, plan: FaultPlan) -> bool:
    if call.kind is IoKind.SYNC:
        return isinstance(plan.error, OSError)
    return plan.effect is Effect.PARTIAL


def _moved(path: str, source: str, target: str) -> str:
    """The path after a rename of itself or of a parent directory."""
    if path == source or path.startswith(source + "/"):
        return target + path[len(source) :]
    return path
