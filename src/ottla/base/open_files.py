"""How many files a process may have open, and which holders close some at the limit.

Systems mostly give a process 1,024 descriptors, or 256, and everything takes of them: clients'
connections, the files of segments, and whatever the program around an embedded log does. So
connections get a third at the most, files that stay open between two requests a quarter, or twice
that while they wait for a sync, and the rest is for those that are opened for a moment:
checkpoints, syncs, a cleaner's pipes. Kafka leaves that to `ulimit -n`, and goes offline when it is
reached.
"""

from collections import OrderedDict
from typing import Final, Protocol

ASSUMED_LIMIT: Final = 1024
"""Descriptors where the system does not say how many there may be."""

LEAST_OPEN: Final = 32
"""Files that may stay open however low the limit is, or each request would open them again."""

MAX_VISITS: Final = 256
"""How many holders are asked at a time; those who wait for the answer must not wait for more."""


def descriptor_limit() -> int:
    """How many descriptors this process may have."""
    try:
        import resource
    except ImportError:
        return ASSUMED_LIMIT  # no such limit on this system
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return ASSUMED_LIMIT * ASSUMED_LIMIT if soft == resource.RLIM_INFINITY else soft


def max_connections() -> int:
    """How many of the descriptors may be connections."""
    return max(1, descriptor_limit() // 3)


def max_open_files() -> int:
    """How many may be files that stay open until they are needed again."""
    return max(LEAST_OPEN, descriptor_limit() // 4)


class Holder(Protocol):
    """An object that keeps files open, and opens them again when needed."""

    def let_go(self) -> bool:
        """Closes them; `False` when they were used since the last time, or are to be synced."""


class OpenFiles:
    """The holders of open files of one broker, roughly in order of last use.

    Nothing is closed by itself: `give_back` is called where none of the files is at work.
    """

    __slots__ = ("_holders", "count", "is_over", "is_short", "limit")

    def __init__(self, limit: int | None = None) -> None:
        self.limit = max_open_files() if limit is None else limit
        self.count = 0
        self.is_over = False
        """Whether `give_back` has something to do."""
        self.is_short = False
        """Whether too many files wait for a sync, without which they may not be closed."""
        self._holders: OrderedDict[Holder, int] = OrderedDict()

    @property
    def is_full(self) -> bool:
        """Whether further files may not be written to, since there are syncs to wait for."""
        return self.count >= 2 * self.limit

    def opened(self, holder: Holder, count: int = 1) -> None:
        """Records that a holder has this many descriptors open."""
        self.count += count - self._holders.get(holder, 0)
        self._holders[holder] = count
        if self.count > self.limit:
            self.is_over = True

    def closed(self, holder: Holder) -> None:
        self.count -= self._holders.pop(holder, 0)

    def ran_out(self) -> None:
        """There was no descriptor for one more: others have taken them. Half are to be closed."""
        self.limit = max(LEAST_OPEN, min(self.limit, self.count // 2))
        self.is_over = self.count > self.limit

    def give_back(self) -> None:
        """Has holders close files until there are fewer than the limit, with some room.

        Each is asked twice at the most, so that a holder used since the last time is spared once.
        """
        target = self.limit - self.limit // 8
        for _ in range(min(2 * len(self._holders), MAX_VISITS)):
            if self.count <= target:
                break
            holder = next(iter(self._holders))
            if holder.let_go():
                self.closed(holder)
            else:
                self._holders.move_to_end(holder)
        # With what is opened next they are asked again, and until then they may be synced.
        self.is_short = self.count > self.limit
        self.is_over = False
