"""Brings requests about states of share groups to the coordinators of their keys.

A coordinator on this broker is called; others are asked over connections, in one request at a time
for each broker, so that what is asked meanwhile goes into the next one together. What may pass is
tried again: a coordinator is being loaded or has moved, or the topic is being created. Kafka's
counterparts: `DefaultStatePersister`, `PersisterStateManager`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import SHARE_GROUP_STATE, TopicPartition
from ottla.base.timers import AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.state_requests import ShareStateRequest, StateRequest
from ottla.broker.shares.coordinator import ShareBroker, ShareCoordinator, TopicMembership
from ottla.broker.shares.states import Gathering, TakeAnswers
from ottla.broker.waiting.rooms import Waiting
from ottla.coordinator.share.coordinator import ShareStateAnswer

FIRST_PAUSE_MS: Final = 50.0
LONGEST_PAUSE_MS: Final = 1000.0
GIVE_UP_MS: Final = 15_000.0
"""How long a coordinator is looked for: an election takes less, and the requests of clients that
wait for the answer are not over yet.
"""

MAY_PASS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
UNREACHABLE: Final = ShareStateAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)


class StateChannel(TopicMembership, Protocol):
    def ask_share_coordinator(self, request: ShareStateRequest) -> None:
        """Sends a request to another broker; `Persister.answered` gets the answers."""


class PersisterBroker(ShareBroker, Protocol):
    """The parts of the broker that the persister needs."""

    node_id: int

    @property
    def membership(self) -> StateChannel: ...


class _Asked:
    """One request until it is answered."""

    __slots__ = ("deadline_ms", "deliver", "pause_ms", "request")

    def __init__(
        self,
        request: StateRequest,
        deliver: Callable[[ShareStateAnswer], None],
        deadline_ms: float,
    ) -> None:
        self.request = request
        self.deliver = deliver
        self.deadline_ms = deadline_ms
        self.pause_ms = FIRST_PAUSE_MS


class Persister:
    """The broker's `SharePersister`. `queue_answer` queues responses of handlers."""

    def __init__(
        self,
        broker: PersisterBroker,
        coordinator: ShareCoordinator,
        timers: AllTimers,
        queue_answer: Callable[[Waiting[Any]], None],
    ) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._queue_answer = queue_answer
        self._leader_of = broker.replicas.topics.leader_of
        self._now_ms = 0.0
        self._paused: Timers[_Asked] = timers.new_room()
        self._awaiting: dict[_Asked, None] = {}
        """Those among them that wait until a coordinator here is loaded, or the topic created."""
        self._unsent: dict[int, dict[tuple[type, str], list[_Asked]]] = {}
        """By broker, then by kind and group."""
        self._on_way: dict[int, tuple[int, list[_Asked]]] = {}
        """By number of the request: the broker, and what it is asked."""
        self._busy: set[int] = set()
        self._numbers = count()
        coordinator.on_ready = self._coordinator_ready

    def ask(self, requests: Sequence[StateRequest], take: TakeAnswers, at: Timestamps) -> None:
        self._now_ms = at.monotonic_ms
        gathering = Gathering(len(requests), take)
        deadline_ms = at.monotonic_ms + GIVE_UP_MS
        for number, request in enumerate(requests):
            self._try(_Asked(request, partial(gathering.answer, number), deadline_ms), at)
        self._send()

    def wait(
        self, requests: Sequence[StateRequest], at: Timestamps
    ) -> Waiting[list[ShareStateAnswer]]:
        waiting: Waiting[list[ShareStateAnswer]] = Waiting()

        def take(answers: list[ShareStateAnswer]) -> None:
            waiting.result = answers
            self._queue_answer(waiting)

        self.ask(requests, take, at)
        return waiting

    def _try(self, asked: _Asked, at: Timestamps) -> None:
        key = asked.request.key
        index = self._coordinator.partition_of(key.coordinator_key)
        leader = self._leader_of(TopicPartition(SHARE_GROUP_STATE, index))
        if leader == self._broker.node_id:
            self._coordinator.carry_out(asked.request, partial(self._take, asked), at)
        elif leader is None or leader < 0:
            self._take(asked, UNREACHABLE)
            if leader is None:
                self._awaiting[asked] = None
                self._coordinator.make_topic()
        else:
            of_broker = self._unsent.setdefault(leader, {})
            of_broker.setdefault((type(asked.request), key.group_id), []).append(asked)

    def _take(self, asked: _Asked, answer: ShareStateAnswer) -> None:
        if answer.error not in MAY_PASS or self._now_ms >= asked.deadline_ms:
            asked.deliver(answer)
            return
        self._paused.set(asked, min(self._now_ms + asked.pause_ms, asked.deadline_ms))
        asked.pause_ms = min(2 * asked.pause_ms, LONGEST_PAUSE_MS)
        if answer.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._awaiting[asked] = None

    def _coordinator_ready(self) -> None:
        for asked in self._awaiting:
            self._paused.set(asked, 0.0)
        self._awaiting.clear()

    def advance(self, at: Timestamps) -> None:
        """Tries again what is due."""
        self._now_ms = at.monotonic_ms
        is_spent = self._broker.budget.is_spent
        while (asked := self._paused.take_due(at.monotonic_ms)) is not None:
            self._awaiting.pop(asked, None)
            self._try(asked, at)
            if is_spent():
                break
        self._send()

    # Other brokers

    def _send(self) -> None:
        for broker in [one for one in self._unsent if one not in self._busy]:
            of_broker = self._unsent[broker]
            asked = of_broker.pop(next(iter(of_broker)))
            if not of_broker:
                del self._unsent[broker]
            number = next(self._numbers)
            self._busy.add(broker)
            self._on_way[number] = broker, asked
            requests = tuple(one.request for one in asked)
            self._broker.membership.ask_share_coordinator(
                ShareStateRequest(number, broker, requests)
            )

    def answered(
        self, number: int, answers: Sequence[ShareStateAnswer] | None, at: Timestamps
    ) -> None:
        """Takes the answers of another broker, or `None` if there are none."""
        self._now_ms = at.monotonic_ms
        broker, asked = self._on_way.pop(number)
        self._busy.discard(broker)
        for one, answer in zip(asked, answers or [UNREACHABLE] * len(asked), strict=True):
            self._take(one, answer)
        self._send()
