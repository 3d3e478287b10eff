"""A member of a share group (KIP-932): the broker assigns, and heartbeats carry everything.

Unlike in a consumer group nothing is given up before another member gets it: an assignment holds at
once. Kafka's counterparts: `ShareMembershipManager`, `ShareHeartbeatRequestManager`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import GroupMemberId
from ottla.client.consumer.consumer_member import FENCED, JOIN, LEAVE
from ottla.client.consumer.membership import (
    NEVER,
    OTHER_COORDINATOR,
    Event,
    FatalError,
    MemberOptions,
    Partitions,
)
from ottla.codec.schema import Message
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

NOTHING: Final[Partitions] = frozenset()

FIRST_PAUSE_MS: Final = 20.0
"""After this long, and then twice as long each time, a member without partitions asks again."""

TopicIdPartitions = frozenset[tuple[bytes, int]]


@dataclass(slots=True)
class ShareMember:
    """`Membership` over ShareGroupHeartbeat. It has no events: an application gives up nothing."""

    options: MemberOptions
    member_id: str
    """A random uuid, which the member keeps when it joins again."""
    events: deque[Event] = field(default_factory=deque)
    owned: Partitions = NOTHING
    is_coordinator_lost: bool = False
    epoch: int = JOIN
    has_left: bool = False
    topic_ids: dict[TopicPartition, bytes] = field(default_factory=dict)
    """Those of `owned`."""
    _is_joining: bool = False
    _topics: frozenset[str] = frozenset()
    _has_new_topics: bool = True
    _target: TopicIdPartitions = frozenset()
    _next_ms: float = 0.0
    _pause_ms: float = FIRST_PAUSE_MS
    _names: dict[bytes, str] = field(default_factory=dict)

    @property
    def identity(self) -> GroupMemberId | None:
        if self.epoch <= JOIN:
            return None
        return GroupMemberId(member_id=self.member_id, epoch=self.epoch)

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
        return frozenset(one for one, _ in self._target) - self._names.keys()

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        wanted = frozenset(topics)
        if wanted != self._topics:
            self._topics, self._has_new_topics = wanted, True

    def take_topics(self, counts: Mapping[str, int], ids: Mapping[bytes, str]) -> None:
        self._names.update(ids)
        self._follow_target()

    def due_ms(self, now_ms: float) -> float:
        if self.has_left:
            return NEVER
        is_urgent = self._has_new_topics and not self.is_coordinator_lost
        return min(self._next_ms, now_ms) if is_urgent else self._next_ms

    def next_request(self, now_ms: float) -> Message | None:
        if now_ms < self.due_ms(now_ms):
            return None
        self._is_joining = self.epoch == JOIN
        request = ShareGroupHeartbeatRequest(
            group_id=self.options.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        if self._is_joining:
            request.rack_id = self.options.rack
        if self._is_joining or self._has_new_topics:
            request.subscribed_topic_names = sorted(self._topics)
        self._has_new_topics = False
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
        if code is not ErrorCode.NONE:
            self.has_left = True
            raise FatalError(code, answer.error_message)
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        self._next_ms = now_ms + min(answer.heartbeat_interval_ms, self._pause_ms)
        self._pause_ms *= 2
        if answer.assignment is not None:
            self._target = frozenset(
                (bytes(one.topic_id), number)
                for one in answer.assignment.topic_partitions
                for number in one.partitions
            )
            self._follow_target()
        if self._target:
            self._next_ms = now_ms + answer.heartbeat_interval_ms

    def unreachable(self, now_ms: float) -> None:
        self.is_coordinator_lost = True
        # It is unknown whether the coordinator got the last heartbeat, so all is sent again.
        self._has_new_topics = True
        self._next_ms = now_ms + self.options.retry_backoff_ms

    def handled(self) -> None:
        """There are no events."""

    def leave(self) -> Message | None:
        was_member = self.epoch > JOIN and not self.has_left
        self._start_again()
        self.has_left = True
        return self._farewell() if was_member else None

    def leave_after(self, answer: Any) -> Message | None:
        return self._farewell() if answer.member_epoch > JOIN else None

    def rejoin(self) -> None:
        self.has_left = False
        self._next_ms = 0.0

    def _farewell(self) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self.options.group_id, member_id=self.member_id, member_epoch=LEAVE
        )

    def _start_again(self) -> None:
        self.epoch = JOIN
        self._target, self.owned = frozenset(), NOTHING
        self._pause_ms = FIRST_PAUSE_MS
        self.topic_ids = {}

    def _follow_target(self) -> None:
        if self.unknown_ids:
            return
        self.topic_ids = {
            TopicPartition(self._names[one], number): one for one, number in self._target
        }
        self.owned = frozenset(self.topic_ids)
