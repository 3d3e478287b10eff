"""A part of the metadata that is kept in memory, and whose changes go through the metadata log.

A change is decided on the present state, appended, and in effect when it is durable. Changes by
requests are made in turns: a state of 100,000 entries takes a while to compare, and other requests
are served meanwhile.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ottla.base.turns import OneAtATime, in_a_turn, kept

if TYPE_CHECKING:
    from ottla.broker.metadata.log import Change
    from ottla.metadata.image_changes import VersionedRecord

State = TypeVar("State")


class Log(Protocol):
    """The part of `MetadataLog` through which states change."""

    def prepare(self, records: "Iterable[VersionedRecord]") -> "Change": ...

    def append(self, change: "Change") -> None: ...

    def sync(self) -> None: ...


class StoredState(Generic[State]):
    """`state` is what the log holds, but for entries that `leave_out` has removed.

    `changes` returns the records that make one state of another.
    """

    def __init__(
        self,
        state: State,
        log: Log,
        changes: "Callable[[State, State], Iterable[VersionedRecord]]",
    ) -> None:
        self.state = state
        self._log = log
        self._changes = changes
        self._left_out: list[VersionedRecord] = []
        self._changing = OneAtATime()

    def replace(self, state: State) -> None:
        """Writes a new state immediately; raises `StorageError` and then keeps the old one."""
        self._write(self.state, state, self._prepare(self.state, state))

    def leave_out(self, state: State) -> None:
        """Removes entries that are no longer needed, from the log with the next change."""
        self._left_out += self._changes(self.state, state)
        self.state = state

    def follow(self, state: State) -> None:
        """Applies a cluster's state, which is stored elsewhere; nothing is written."""
        self.state = state

    def change(
        self, decide: Callable[[State], State], then: Callable[[], None] = lambda: None
    ) -> None:
        """Replaces the state by the result of `decide`, in turns; raises `StorageError`.

        If another change came in between, `decide` is called again. If it returns the same object,
        nothing is written. `then` is called before the next change in turns.
        """
        if not in_a_turn():
            self._change(decide)
            then()
            return
        with self._changing, kept():
            self._change(decide)
            then()

    def _change(self, decide: Callable[[State], State]) -> None:
        while True:
            known = self.state
            decided = decide(known)
            change = None if decided is known else self._prepare(known, decided)
            if self.state is not known:
                continue  # replaced meanwhile
            if change is not None:
                self._write(known, decided, change)
            return

    def _prepare(self, known: State, decided: State) -> "Change":
        return self._log.prepare(chain(self._left_out, self._changes(known, decided)))

    def _write(self, known: State, new: State, change: "Change") -> None:
        self._log.append(change)
        self._left_out.clear()
        # In effect from here on, as other changes may be decided while this one becomes durable.
        self.state = new
        try:
            self._log.sync()
        except BaseException:
            if self.state is new:
                self.state = known
            raise
