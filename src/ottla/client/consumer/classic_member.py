"""A member of a classic group: joins, syncs, sends heartbeats, and rejoins when it must.

With an eager assignor everything is given up before the member rejoins; with cooperative ones
(KIP-429) only what another member gets, after which all rejoin. Kafka's counterparts:
`AbstractCoordinator`, `ConsumerCoordinator`.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ProtocolError
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import GroupMemberId
from ottla.client.consumer.assignors import MemberSubscription, PartitionAssignor, listed, unlisted
from ottla.client.consumer.membership import (
    OTHER_COORDINATOR,
    Event,
    EventKind,
    FatalError,
    MemberOptions,
    Partitions,
)
from ottla.codec.schema import Message
from ottla.coordinator.classic.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NO_GENERATION = -1
NOTHING: Partitions = frozenset()

REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})
FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class State(Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    STABLE = "stable"
    LEFT = "left"


@dataclass(slots=True)
class ClassicMember:
    """`Membership` over JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

    options: MemberOptions
    assignors: Sequence[PartitionAssignor]
    events: deque[Event] = field(default_factory=deque)
    owned: Partitions = NOTHING
    is_coordinator_lost: bool = False
    state: State = State.UNJOINED
    member_id: str = ""
    generation: int = NO_GENERATION
    _topics: frozenset[str] = frozenset()
    _must_rejoin: bool = False
    _next_ms: float = 0.0
    """When the next heartbeat, or the next attempt to join, is due."""
    _protocol: str = ""
    _members: dict[str, MemberSubscription] = field(default_factory=dict)
    """For the leader: all members with their subscriptions."""
    _counts: Mapping[str, int] | None = None
    """For the leader: the topics for which the assignment was made."""
    _assignments: dict[str, bytes] = field(default_factory=dict)

    @property
    def identity(self) -> GroupMemberId | None:
        if self.generation == NO_GENERATION:
            return None
        return GroupMemberId(
            member_id=self.member_id,
            epoch=self.generation,
            instance_id=self.options.instance_id,
        )

    @property
    def is_cooperative(self) -> bool:
        """If an eager assignor is among the offered ones, the group may choose it (KIP-429)."""
        return all(one.is_cooperative for one in self.assignors)

    @property
    def needs_topics(self) -> bool:
        return self.state is State.ASSIGNING

    @property
    def unknown_ids(self) -> frozenset[bytes]:
        return frozenset()

    @property
    def wanted_topics(self) -> frozenset[str]:
        if not self._members:
            return frozenset()
        return frozenset(topic for one in self._members.values() for topic in one.topics)

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        wanted = frozenset(topics)
        if wanted != self._topics:
            self._topics = wanted
            self._must_rejoin = self.state is not State.UNJOINED

    def take_topics(self, counts: Mapping[str, int], ids: Mapping[bytes, str]) -> None:
        wanted = {name: counts[name] for name in self.wanted_topics & counts.keys()}
        if self.state is State.ASSIGNING:
            self._assign(wanted)
        elif self._counts is not None and wanted != self._counts:
            self._must_rejoin = True

    def due_ms(self, now_ms: float) -> float:
        if self.state in (State.LEFT, State.ASSIGNING):
            return float("inf")
        is_joining = self.state is State.STABLE and self._must_rejoin and not self.events
        return now_ms if is_joining or self.state is State.SYNCING else self._next_ms

    def next_request(self, now_ms: float) -> Message | None:
        if now_ms < self.due_ms(now_ms):
            return None
        match self.state:
            case State.SYNCING:
                return self._sync()
            case State.UNJOINED | State.JOINING:
                return None if self.events else self._join()
            case State.STABLE if self._must_rejoin and not self.events:
                if self.owned and not self.is_cooperative:
                    self.events.append(Event(EventKind.REVOKED, self.owned))
                    return None
                return self._join()
            case State.STABLE:
                return HeartbeatRequest(
                    group_id=self.options.group_id,
                    generation_id=self.generation,
                    member_id=self.member_id,
                    group_instance_id=self.options.instance_id,
                )
        return None

    def answered(self, request: Message, answer: Any, now_ms: float) -> None:
        code = ErrorCode(answer.error_code)
        if code in OTHER_COORDINATOR:
            self.unreachable(now_ms)
        elif isinstance(request, JoinGroupRequest):
            self._joined(answer, code, now_ms)
        elif isinstance(request, SyncGroupRequest):
            self._synced(answer, code, now_ms)
        elif code in REJOIN:
            self._must_rejoin = True
            self._next_ms = now_ms + self.options.heartbeat_interval_ms
        elif code in FORGOTTEN:
            self._forget(code)
            self._next_ms = now_ms
        else:
            self._check(code)
            self._next_ms = now_ms + self.options.heartbeat_interval_ms

    def unreachable(self, now_ms: float) -> None:
        self.is_coordinator_lost = True
        self._next_ms = now_ms + self.options.retry_backoff_ms
        if self.state in (State.JOINING, State.SYNCING):
            self._must_rejoin = False
            self.state = State.UNJOINED

    def handled(self) -> None:
        event = self.events.popleft()
        if event.kind is EventKind.ASSIGNED:
            self.owned |= event.partitions
        else:
            self.owned -= event.partitions
            # All rejoin, so that the others get what this member gave up.
            self._must_rejoin |= event.kind is EventKind.REVOKED and self.state is State.STABLE

    def leave(self) -> Message | None:
        was_member = self.member_id and self.state is not State.LEFT
        self.state = State.LEFT
        leaving, instance_id = self.member_id, self.options.instance_id
        self.generation, self.member_id = NO_GENERATION, ""
        self._forget_leadership()
        self._lose()
        # A static member does not leave: it may return within its session timeout (KIP-345).
        if not was_member or instance_id is not None:
            return None
        return self._leave_as(leaving)

    @property
    def is_entering(self) -> bool:
        is_static = self.options.instance_id is not None
        return self.state is State.JOINING and not self.member_id and not is_static

    def leave_after(self, answer: Any) -> Message | None:
        return self._leave_as(answer.member_id) if answer.member_id else None

    def _leave_as(self, member_id: str) -> LeaveGroupRequest:
        return LeaveGroupRequest(
            group_id=self.options.group_id,
            members=[MemberIdentity(member_id=member_id, reason="the consumer is being closed")],
        )

    def rejoin(self) -> None:
        self.state = State.UNJOINED
        self._must_rejoin = False
        self._next_ms = 0.0

    def _join(self) -> JoinGroupRequest:
        self.state = State.JOINING
        self._must_rejoin = False
        self._forget_leadership()
        options = self.options
        return JoinGroupRequest(
            group_id=options.group_id,
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=options.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=one.name, metadata=self._subscription(one))
                for one in self.assignors
            ],
        )

    def _subscription(self, assignor: PartitionAssignor) -> bytes:
        return encode_subscription(
            ConsumerProtocolSubscription(
                topics=sorted(self._topics),
                user_data=assignor.user_data(self.owned, self.generation) or None,
                owned_partitions=listed(self.owned),
                generation_id=self.generation,
                rack_id=self.options.rack,
            )
        )

    def _joined(self, answer: Any, code: ErrorCode, now_ms: float) -> None:
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.state, self._next_ms = State.UNJOINED, now_ms
            return
        if code in REJOIN or code in FORGOTTEN:
            self.state, self._next_ms = State.UNJOINED, now_ms + self.options.retry_backoff_ms
            if code in FORGOTTEN:
                self._forget(code)
            return
        self._check(code)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._protocol = answer.protocol_name or ""
        self._assignments = {}
        self.state = State.SYNCING
        if answer.leader == self.member_id:
            self._members = {one.member_id: _member(one) for one in answer.members}
            if not answer.skip_assignment:
                self.state = State.ASSIGNING

    def _assign(self, counts: Mapping[str, int]) -> None:
        (assignor,) = [one for one in self.assignors if one.name == self._protocol]
        found = assignor.assign(self._members, counts)
        self._counts = dict(counts)
        self._assignments = {
            member_id: encode_assignment(
                ConsumerProtocolAssignment(assigned_partitions=listed(partitions))
            )
            for member_id, partitions in found.items()
        }
        self.state = State.SYNCING

    def _sync(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.options.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.options.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in self._assignments.items()
            ],
        )

    def _synced(self, answer: Any, code: ErrorCode, now_ms: float) -> None:
        if code in REJOIN or code in FORGOTTEN:
            self.state, self._next_ms = State.UNJOINED, now_ms
            if code in FORGOTTEN:
                self._forget(code)
            return
        self._check(code)
        self.state, self._next_ms = State.STABLE, now_ms + self.options.heartbeat_interval_ms
        assigned = NOTHING
        if answer.assignment:
            try:
                assigned = unlisted(decode_assignment(answer.assignment).assigned_partitions)
            except ProtocolError as error:
                raise FatalError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
        if revoked := self.owned - assigned:
            self.events.append(Event(EventKind.REVOKED, revoked))
        self.events.append(Event(EventKind.ASSIGNED, assigned - self.owned))

    def _check(self, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            self.state = State.LEFT
            raise FatalError(code)

    def _forget(self, code: ErrorCode) -> None:
        """The coordinator no longer knows this member, or its generation."""
        self.generation = NO_GENERATION
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.state = State.UNJOINED
        self._must_rejoin = False
        self._forget_leadership()
        self._lose()

    def _lose(self) -> None:
        """The partitions that the application has may already belong to another member."""
        self.events.clear()
        if self.owned:
            self.events.append(Event(EventKind.LOST, self.owned))

    def _forget_leadership(self) -> None:
        self._members, self._counts = {}, None


def _member(one: Any) -> MemberSubscription:
    try:
        found = decode_subscription(one.metadata)
    except ProtocolError as error:
        raise FatalError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
    return MemberSubscription(
        topics=frozenset(found.topics),
        instance_id=one.group_instance_id,
        owned=unlisted(found.owned_partitions),
        generation=found.generation_id,
        user_data=bytes(found.user_data or b""),
        rack=found.rack_id,
    )
