"""How leaders of partitions and group coordinators reach the share coordinator of a key.

Kafka's counterpart: `Persister`, with its parameters and results.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.state_requests import StateRequest
from ottla.broker.waiting.rooms import Waiting
from ottla.coordinator.share.coordinator import ShareStateAnswer

TakeAnswers = Callable[[list[ShareStateAnswer]], None]


class SharePersister(Protocol):
    """The way to the share coordinators of keys, here or on other brokers.

    What may pass is tried again for some seconds. Errors that are left: COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS when there is no coordinator to be reached,
    FENCED_STATE_EPOCH and FENCED_LEADER_EPOCH for those who lead no more, INVALID_REQUEST (among
    them: the state was not initialized), UNKNOWN_TOPIC_OR_PARTITION. After an error a write may yet
    have happened.
    """

    def ask(self, requests: Sequence[StateRequest], take: TakeAnswers, at: Timestamps) -> None:
        """Calls `take` once, with an answer for each request in their order.

        It is called in the broker's thread: before this returns if all coordinators are here and
        need nothing first, else later. What was written is as durable as a commit of a group then:
        a response in the same round reaches its client once the round is written.
        """

    def wait(
        self, requests: Sequence[StateRequest], at: Timestamps
    ) -> Waiting[list[ShareStateAnswer]]:
        """As `ask`, for a handler, which returns a `PendingAnswer` for it."""


NO_ANSWER: Final = ShareStateAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Gathering:
    """Answers that come one by one, until all are there."""

    __slots__ = ("_answers", "_missing_count", "_take")

    def __init__(self, count: int, take: TakeAnswers) -> None:
        self._answers = [NO_ANSWER] * count
        self._missing_count = count
        self._take = take
        if not count:
            take([])

    def answer(self, number: int, answer: ShareStateAnswer) -> None:
        """Takes the answer of one request, the first time that it is answered."""
        assert self._answers[number] is NO_ANSWER
        self._answers[number] = answer
        self._missing_count -= 1
        if not self._missing_count:
            self._take(self._answers)
