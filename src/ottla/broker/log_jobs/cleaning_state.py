"""The state of cleaning of each log, so that the cleaner and other jobs exclude each other.

A log without a state is free. A job that truncates, moves or deletes a log pauses it first. That
aborts a running pass, whose result is then discarded. Pauses are counted, and a log is free again
when all have been resumed. Kafka's counterparts: `LogCleaningState`, `LogCleanerManager`.
"""

from collections.abc import Callable

from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass

Stop = Callable[[], None]


@dataclass(slots=True)
class InProgress:
    """A pass is running; `stop` makes it end soon."""

    stop: Stop


@dataclass(slots=True)
class Aborted:
    """A running pass was asked to stop; `pauses` take effect when it has ended."""

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
        """Records that a pass on a free log begins."""
        assert self.is_free(key)
        self._states[key] = InProgress(stop)

    def end(self, key: TopicPartition) -> bool:
        """Records that a pass has ended; returns whether its result is to be used."""
        state = self._states.pop(key)
        if isinstance(state, InProgress):
            return True
        assert isinstance(state, Aborted)
        if state.pauses:
            self._states[key] = Paused(state.pauses)
        return False

    def pause(self, key: TopicPartition) -> None:
        """Keeps the cleaner away until `resume`, and stops a running pass."""
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
        """Ends one pause."""
        state = self._states[key]
        assert isinstance(state, Aborted | Paused)
        assert state.pauses > 0
        state.pauses -= 1
        if isinstance(state, Paused) and not state.pauses:
            del self._states[key]
