"""A member of a consumer group (KIP-848): the broker assigns, and heartbeats carry everything.

An assignment is reconciled with what the member owns: it gives up removed partitions, takes added
ones, and acknowledges both with the next heartbeat. Kafka's counterparts:
`ConsumerMembershipManager`, `ConsumerHeartbeatRequestManager`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import GroupMemberId
from ottla.client.consumer.membership import (
    OTHER_COORDINATOR,
    Event,
    EventKind,
    FatalError,
    MemberOptions,
    Partitions,
)
from ottla.codec.schema import Message
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

JOIN = 0
LEAVE = -1
LEAVE_STATIC = -2
"""Epochs in a heartbeat with a special meaning; a static member that leaves temporarily may
return.
"""

NOTHING: Partitions = frozenset()
FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})

TopicIdPartitions = frozenset[tuple[bytes, int]]


@dataclass(slots=True)
class ConsumerMember:
    """`Membership` over ConsumerGroupHeartbeat."""

    options: MemberOptions
    member_id: str
    assignor: str | None = None
    events: deque[Event] = field(default_factory=deque)
    owned: Partitions = NOTHING
    is_coordinator_lost: bool = False
    epoch: int = JOIN
    has_left: bool = False
    _is_joining: bool = False
    """Whether the last request was one to join."""
    _topics: frozenset[str] = frozenset()
    _regex: str | None = None
    _has_new_topics: bool = True
    _owned_ids: TopicIdPartitions = frozenset()
    _target: TopicIdPartitions | None = None
    """The last assignment of the broker, until it is reconciled."""
    _reconciling: TopicIdPartitions | None = None
    _must_acknowledge: bool = False
    _must_send_all: bool = False
    _next_ms: float = 0.0
    _names: dict[bytes, str] = field(default_factory=dict)

    @property
    def identity(self) -> GroupMemberId | None:
        if self.epoch <= JOIN:
            return None
        return GroupMemberId(
            member_id=self.member_id, epoch=self.epoch, instance_id=self.options.instance_id
        )

    @property
    def is_entering(self) -> bool:
        return self._is_joining and self.epoch == JOIN and not self.has_left

    @property
    def wanted_topics(self) -> frozenset[str]:
        return frozenset()

    @property
    def needs_topics(self) -> bool:
        return bool(self.unknown_ids)

    @property
    def unknown_ids(self) -> frozenset[bytes]:
        return frozenset(one for one, _ in self._target or ()) - self._names.keys()

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        wanted = frozenset(topics)
        if (wanted, regex) != (self._topics, self._regex):
            self._topics, self._regex = wanted, regex
            self._has_new_topics = True

    def take_topics(self, counts: Mapping[str, int], ids: Mapping[bytes, str]) -> None:
        self._names.update(ids)
        self._reconcile()

    def due_ms(self, now_ms: float) -> float:
        if self.has_left:
            return float("inf")
        if self.is_coordinator_lost or (self.epoch == JOIN and self.events):
            return self._next_ms
        is_urgent = self._has_new_topics or self._must_acknowledge
        return min(self._next_ms, now_ms) if is_urgent else self._next_ms

    def next_request(self, now_ms: float) -> Message | None:
        # A fenced member rejoins once the application has given up everything.
        if now_ms < self.due_ms(now_ms) or (self.epoch == JOIN and self.events):
            return None
        options = self.options
        is_joining = self._is_joining = self.epoch == JOIN
        sends_all = is_joining or self._must_send_all
        request = ConsumerGroupHeartbeatRequest(
            group_id=options.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=options.instance_id,
        )
        if sends_all:
            request.rack_id = options.rack
            request.rebalance_timeout_ms = options.rebalance_timeout_ms
            request.server_assignor = self.assignor
        if sends_all or self._has_new_topics:
            request.subscribed_topic_names = sorted(self._topics)
            request.subscribed_topic_regex = self._regex
        if sends_all or self._must_acknowledge:
            request.topic_partitions = [] if is_joining else _listed(self._owned_ids)
        self._has_new_topics = self._must_acknowledge = self._must_send_all = False
        return request

    def answered(self, request: Message, answer: Any, now_ms: float) -> None:
        code = ErrorCode(answer.error_code)
        if code in OTHER_COORDINATOR:
            self.unreachable(now_ms)
            return
        if code in FENCED:
            self._start_again()
            self._next_ms = now_ms
            return
        if code is ErrorCode.UNRELEASED_INSTANCE_ID:
            self._must_send_all, self._next_ms = True, now_ms + self.options.retry_backoff_ms
            return
        if code is not ErrorCode.NONE:
            self.has_left = True
            raise FatalError(code, answer.error_message)
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        self._next_ms = now_ms + answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self._target = frozenset(
                (bytes(one.topic_id), number)
                for one in answer.assignment.topic_partitions
                for number in one.partitions
            )
            self._reconcile()

    def unreachable(self, now_ms: float) -> None:
        self.is_coordinator_lost = True
        # It is unknown whether the coordinator got the last heartbeat, so everything is sent again.
        self._must_send_all = True
        self._next_ms = now_ms + self.options.retry_backoff_ms

    def handled(self) -> None:
        event = self.events.popleft()
        if event.kind is EventKind.ASSIGNED:
            self.owned |= event.partitions
        else:
            self.owned -= event.partitions
        if not self.events and self._reconciling is not None:
            self._owned_ids, self._reconciling = self._reconciling, None
            self._must_acknowledge = True
            self._reconcile()

    def leave(self) -> Message | None:
        was_member = self.epoch > JOIN and not self.has_left
        self._start_again()
        self.has_left = True
        return self._farewell() if was_member else None

    def leave_after(self, answer: Any) -> Message | None:
        return self._farewell() if answer.member_epoch > JOIN else None

    def _farewell(self) -> ConsumerGroupHeartbeatRequest:
        is_static = self.options.instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.options.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC if is_static else LEAVE,
            instance_id=self.options.instance_id,
        )

    def rejoin(self) -> None:
        self.has_left = False
        self._next_ms = 0.0

    def _start_again(self) -> None:
        self.epoch = JOIN
        self._target = self._reconciling = None
        self._owned_ids = frozenset()
        self._must_acknowledge = False
        self.events.clear()
        if self.owned:
            self.events.append(Event(EventKind.LOST, self.owned))

    def _reconcile(self) -> None:
        """Reconciles one assignment at a time: a later one waits until this one is acknowledged."""
        if self._target is None or self._reconciling is not None or self.unknown_ids:
            return
        target, self._target = self._target, None
        self._reconciling = target
        assigned = frozenset(TopicPartition(self._names[one], number) for one, number in target)
        if revoked := self.owned - assigned:
            self.events.append(Event(EventKind.REVOKED, revoked))
        if (added := assigned - self.owned) or not self.events:
            self.events.append(Event(EventKind.ASSIGNED, added))


def _listed(partitions: TopicIdPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=Uuid(topic_id), partitions=found)
        for topic_id, found in by_topic(partitions).items()
    ]
