"""The crash points that `make test-all` tries: some of each kind. `make crash` tries all of them.

A kind is a call to the disk, the sort of file that it was for, and what the crash made of it.
Workloads make the same calls for the same sort of file again and again.
"""

from collections import Counter
from collections.abc import Iterator

from ottla.testing import CrashPoint, IoCall

ONE_OF = 3
"""Points of a kind are tried by turns: the first, and every third after it."""


def sample(points: Iterator[CrashPoint], crash_seconds: float) -> Iterator[CrashPoint]:
    """All points where there is time to try them, as `--crash-seconds` says."""
    counts: Counter[object] = Counter()
    for point in points:
        kind = _kind(point)
        if crash_seconds or counts[kind] % ONE_OF == 0:
            yield point
        counts[kind] += 1


def _kind(point: CrashPoint) -> object:
    """The end of a workload, where there is no call, is a kind of its own."""
    sorts = () if point.call is None else kind_of(point.call)
    return (sorts, point.mode, point.effect)


def kind_of(call: IoCall) -> tuple[object, ...]:
    return (call.kind, _sort(call.path), _sort(call.target or ""))


def _sort(path: str) -> str:
    """The name without the numbers of the file and, for a temporary one, of the process."""
    return path.rpartition("/")[2].strip("0123456789.")
