"""Limits how many files a process has open, and closes idle ones at the limit.

Systems usually allow a process 1,024 descriptors, or 256, shared by client connections, segment
files, and the application around an embedded log. Connections may use a third, files that stay open
between requests a quarter, or half while they wait for a sync; the rest is for files that are
opened briefly: checkpoints, syncs, a cleaner's pipes. Kafka leaves this to `ulimit -n`, and goes
offline at the limit.
"""

from collections import OrderedDict
from typing import Final, Protocol

ASSUMED_LIMIT: Final = 1024
"""The assumed limit of descriptors if the system does not report one."""

LEAST_OPEN: Final = 32
"""Files that may always stay open; without them each request would reopen files."""

MAX_VISITS: Final = 256
"""The maximum number of holders visited at a time, because requests wait meanwhile."""


def descriptor_limit() -> int:
    """The maximum number of descriptors of this process."""
    try:
        import resource
    except ImportError:
        return ASSUMED_LIMIT  # no such limit on this system
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return ASSUMED_LIMIT * ASSUMED_LIMIT if soft == resource.RLIM_INFINITY else soft


def max_connections() -> int:
    """The maximum number of connections."""
    return max(1, descriptor_limit() // 3)


def max_open_files() -> int:
    """The maximum number of files that stay open between uses."""
    return max(LEAST_OPEN, descriptor_limit() // 4)


class Holder(Protocol):
    """An object that keeps files open, and reopens them when needed."""

    def let_go(self) -> bool:
        """Closes its files; returns `False` if they were used recently or await a sync."""


class OpenFiles:
    """The holders of a broker's open files, roughly in order of last use.

    Files are only closed by `give_back`, which is called while none of them is in use.
    """

    __slots__ = ("_holders", "count", "is_over", "is_short", "limit")

    def __init__(self, limit: int | None = None) -> None:
        self.limit = max_open_files() if limit is None else limit
        self.count = 0
        self.is_over = False
        """Whether `give_back` must be called."""
        self.is_short = False
        """Whether too many files await a sync, before which they may not be closed."""
        self._holders: OrderedDict[Holder, int] = OrderedDict()

    @property
    def is_full(self) -> bool:
        """Whether no further files may be written to until some are synced."""
        return self.count >= 2 * self.limit

    def opened(self, holder: Holder, count: int = 1) -> None:
        """Records how many descriptors a holder has open."""
        self.count += count - self._holders.get(holder, 0)
        self._holders[holder] = count
        if self.count > self.limit:
            self.is_over = True

    def closed(self, holder: Holder) -> None:
        self.count -= self._holders.pop(holder, 0)

    def ran_out(self) -> None:
        """Lowers the limit to half of the open files: others have used up the process's
        descriptors.
        """
        self.limit = max(LEAST_OPEN, min(self.limit, self.count // 2))
        self.is_over = self.count > self.limit

    def give_back(self) -> None:
        """Makes holders close files until the count is an eighth below the limit.

        Each holder is asked twice at most, so one that was used since the last call is spared once.
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
        # The next call asks again; until then the files may be synced.
        self.is_short = self.count > self.limit
        self.is_over = False
