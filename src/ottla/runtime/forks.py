"""Abandons objects in a child of `os.fork` that only the parent may use.

A child has copies of everything: of offsets that the parent advances, of locks whose holders do not
exist there, and of the parent's sockets and files. Two processes that write to one log would assign
the same offsets to different records. A hook runs in each child: no call needs to check.
"""

import os
from typing import Protocol
from weakref import WeakSet

from ottla.runtime.interrupts import give_back_interrupts


class ProcessBound(Protocol):
    """An object that only the process that created it may use."""

    def abandon(self) -> None:
        """Called in a child: from now on the object must not use the parent's resources."""


_bound: "WeakSet[ProcessBound]" = WeakSet()


def bind_to_process(one: ProcessBound) -> None:
    """Calls `abandon` in every child, for as long as the object exists."""
    _bound.add(one)


def _abandon_all() -> None:
    give_back_interrupts()
    for one in list(_bound):
        one.abandon()
    _bound.clear()


os.register_at_fork(after_in_child=_abandon_all)
