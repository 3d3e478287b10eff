"""What waiting clients are answered, once something else has happened or their time is up."""

from collections.abc import Sequence
from typing import Any, Protocol

from ottla.base.timers import AllTimers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import Budget
from ottla.broker.quotas.throttled_clients import ThrottledClients
from ottla.broker.records.fetches import Fetches
from ottla.broker.waiting.rooms import Waiting


class AnswerSource(Protocol):
    """A part of the broker that clients wait for."""

    @property
    def has_answers(self) -> bool: ...

    def take_answered(self) -> Sequence[Waiting[Any]]:
        """Returns the waiting requests that now have a `result`."""


class Timed(Protocol):
    """A part of the broker in which time passes."""

    def advance(self, at: Timestamps) -> None: ...


class Answers:
    """The waiting clients of all `sources`, with their deadlines, which are in `timers`."""

    def __init__(
        self, timers: AllTimers, fetches: Fetches, throttled: ThrottledClients, budget: Budget
    ) -> None:
        self.timers = timers
        self.sources: list[AnswerSource] = []
        self.timed: list[Timed] = []
        self._fetches = fetches
        self._throttled = throttled
        self._budget = budget

    @property
    def has_answers(self) -> bool:
        """Whether a waiting request may have a result since the last `take_answered`."""
        if self._fetches.has_answers:
            return True
        return any(one.has_answers for one in self.sources)

    def take_answered(self, monotonic_ms: float) -> list[Waiting[Any]]:
        """Returns the waiting requests that now have a `result`: fetches that found enough or have
        waited long enough, members of groups, prepared records, and finished throttles. Fetches
        for which the budget does not suffice are returned by the next call.
        """
        answered: list[Waiting[Any]] = []
        for source in self.sources:
            if source.has_answers:
                answered += source.take_answered()
        if self._throttled:
            answered += self._throttled.take_over(monotonic_ms)
        answered += self._fetches.take_answered(monotonic_ms, self._budget.is_spent)
        return answered

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` or `take_answered` has work, on the monotonic clock."""
        return self.timers.next_deadline_ms

    def advance(self, at: Timestamps) -> None:
        """Ends expired sessions of members, and transactions and produces that have timed out."""
        for one in self.timed:
            one.advance(at)
