"""What belongs to the process that opened it, and so not to a child that `os.fork` makes of it.

A child has copies of everything: of offsets that the parent moves on, of locks whose holders are
not there, and the parent's own sockets and files. Two processes that both wrote to a log would
give the same offsets to different records. A hook runs in each child: no call needs to check.
"""

import os
from typing import Protocol
from weakref import WeakSet

from ottla.runtime.interrupts import give_back_interrupts


class ProcessBound(Protocol):
    """Something that only the process that made it may use."""

    def abandon(self) -> None:
        """Called in a child: from now on nothing may touch what the parent uses."""


_bound: "WeakSet[ProcessBound]" = WeakSet()


def bind_to_process(one: ProcessBound) -> None:
    """Has it abandoned in every child, for as long as it lives."""
    _bound.add(one)


def _abandon_all() -> None:
    give_back_interrupts()
    for one in list(_bound):
        one.abandon()
    _bound.clear()


os.register_at_fork(after_in_child=_abandon_all)
