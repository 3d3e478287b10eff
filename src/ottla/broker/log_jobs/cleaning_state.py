"""What the cleaner is doing with each log, so that it and others keep out of each other's way.

A log without a state is free. A job that cuts, moves or deletes a log pauses it first; a pass that
was under way is aborted: what it has made is thrown away when it comes back. Pauses count, and a
log is free again when all have been taken back. Kafka's counterparts: `LogCleaningState`,
`LogCleanerManager`.
"""

from collections.abc import Callable

from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass

Stop = Callable[[], None]


@dataclass(slots=True)
class InProgress:
    """A pass is at work; `stop` makes it end soon."""

    stop: Stop


@dataclass(slots=True)
class Aborted:
    """A pass was asked to stop and has not yet come back; `pauses` wait for it."""

    pauses: int


@dataclass(slots=True)
class Paused:
    pauses: int


CleaningState = InProgress | Aborted | Paused


class CleaningStates:
    """The states of all logs; a log that is not here is free."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, CleaningState] = {}

    def get(self, key: TopicPartition) -> CleaningState | None:
        return self._states.get(key)

    def is_free(self, key: TopicPartition) -> bool:
        return key not in self._states

    def begin(self, key: TopicPartition, stop: Stop) -> None:
        """A pass begins on a free log."""
        assert self.is_free(key)
        self._states[key] = InProgress(stop)

    def end(self, key: TopicPartition) -> bool:
        """A pass comes back; returns whether its work is still wanted."""
        state = self._states.pop(key)
        if isinstance(state, InProgress):
            return True
        assert isinstance(state, Aborted)
        if state.pauses:
            self._states[key] = Paused(state.pauses)
        return False

    def pause(self, key: TopicPartition) -> None:
        """Keeps the cleaner away until `resume`, and stops a pass that is under way."""
        state = self._states.get(key)
        match state:
            case None:
                self._states[key] = Paused(1)
            case InProgress(stop):
                self._states[key] = Aborted(1)
                stop()
            case _:
                state.pauses += 1

    def resume(self, key: TopicPartition) -> None:
        """Takes one pause back."""
        state = self._states[key]
        assert isinstance(state, Aborted | Paused)
        assert state.pauses > 0
        state.pauses -= 1
        if isinstance(state, Paused) and not state.pauses:
            del self._states[key]
