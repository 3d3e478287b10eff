"""A classic group: its members and the state of a rebalance.

`stored` is the group as of its last record. During a rebalance all other fields are ahead of that
record until the next record is written. After a crash the group is restored from the record.
Kafka's counterpart: `ClassicGroup`.
"""

import copy
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.turns import large_in_turns, turn_list
from ottla.codec.schema import Message
from ottla.coordinator.classic.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from ottla.coordinator.classic.member import Member
from ottla.coordinator.classic.requests import GroupDescription, MemberDescription
from ottla.coordinator.classic.state import GroupState, may_follow
from ottla.coordinator.deadlines import Due, TimerKey
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.committed_offsets import Expiry
from ottla.coordinator.offsets.records import GroupMetadataKey, GroupMetadataValue
from ottla.coordinator.requests import UNKNOWN_MEMBER, GroupListing, MemberClaim


class ClassicGroup:
    """A classic group. `Member` is immutable: a changed member replaces the old one.

    `joining` and `syncing` are the pending JoinGroup and SyncGroup requests by member id: the
    members in `joining` have joined the current rebalance. Those in `new_ids` have not completed
    one; until then a client has no member id and sends no heartbeats. `assignments` are those of
    the last record.

    `initial_wait_ms` is the remaining time by which the first rebalance may be delayed.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.stored: GroupMetadataValue | None = None
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.assignments: dict[str, bytes] = {}
        self.joining: dict[str, Hashable] = {}
        self.syncing: dict[str, Hashable] = {}
        self.new_ids: set[str] = set()
        self.static_ids: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.initial_wait_ms: int | None = None
        self.has_newcomer = False

    def copy(self) -> "ClassicGroup":
        other = copy.copy(self)
        other.members = dict(self.members)
        other.assignments = dict(self.assignments)
        other.joining = dict(self.joining)
        other.syncing = dict(self.syncing)
        other.new_ids = set(self.new_ids)
        other.static_ids = dict(self.static_ids)
        other.pending_joins = set(self.pending_joins)
        other.pending_syncs = set(self.pending_syncs)
        return other

    def transition_to(self, state: GroupState) -> None:
        assert may_follow(state, self.state), f"{state} does not follow {self.state}"
        self.state = state

    # Records

    def replay(self, key: Message, value: Message | None) -> None:
        """Applies a group record. Members that stay keep state that is not in the record."""
        assert isinstance(key, GroupMetadataKey)
        assert isinstance(value, GroupMetadataValue)
        self.stored = value
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        known, protocol = self.members, value.protocol or ""
        self.members = members = {}
        for record in large_in_turns(value.members):
            member = known.get(record.member_id)
            if member is None or member.protocols.get(protocol) != record.subscription:
                member = Member.from_record(record, value)
            members[member.member_id] = member
        self.assignments = {
            one.member_id: bytes(one.assignment) for one in large_in_turns(value.members)
        }
        self.static_ids = {
            member.instance_id: member.member_id
            for member in members.values()
            if member.instance_id is not None
        }
        self.pending_syncs &= self.members.keys()
        self.new_ids &= self.members.keys()
        self.joining = {one: its for one, its in self.joining.items() if one in self.members}
        self.syncing = {one: its for one, its in self.syncing.items() if one in self.members}
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    def to_record(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadataValue:
        """The record of the current generation. `assignments` maps member ids to encoded
        assignments.
        """
        protocol = self.protocol
        assert protocol is not None
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=protocol,
            leader=self.leader,
            current_state_timestamp_ms=now_ms,
            members=[
                one.to_record(protocol, assignments.get(one.member_id, b""))
                for one in large_in_turns(self.members.values())
            ],
        )

    def to_empty_record(self, now_ms: int) -> GroupMetadataValue:
        """The record of the next generation, without members."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation + 1,
            protocol=None,
            leader=None,
            current_state_timestamp_ms=now_ms,
        )

    def tombstones(self) -> Iterator[Message]:
        assert self.is_empty
        if self.stored is not None:
            yield GroupMetadataKey(group=self.group_id)

    # Interface of `Group`

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_vacant(self) -> bool:
        return self.is_empty and self.stored is None and not self.pending_joins

    def timer_keys(self) -> Iterator[TimerKey]:
        for member_id in chain(self.members, self.pending_joins):
            yield TimerKey(Due.SESSION, self.group_id, member_id)
        yield TimerKey(Due.JOIN, self.group_id)
        yield TimerKey(Due.SYNC, self.group_id)

    def admit_commit(self, claim: MemberClaim, draft: Draft, *, is_transactional: bool) -> None:
        """Raises `ApiError` unless the client may commit; extends the member's session.

        A client without a member id may commit while the group has no members. In a transaction it
        may always commit, because old producers do not send a member id (KIP-447).
        """
        if self.is_empty and claim.generation < 0:
            return
        is_simple = (
            claim.generation < 0 and claim.member_id == UNKNOWN_MEMBER and claim.instance_id is None
        )
        if is_simple:
            if is_transactional:
                return
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_claim(claim)
        if is_transactional:
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The member has the new generation, but its partitions are about to change.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        key = TimerKey(Due.SESSION, self.group_id, member.member_id)
        draft.deadlines[key] = draft.at.monotonic_ms + member.session_timeout_ms

    def check_fetch(self, claim: MemberClaim) -> None:
        """Any client may see the offsets of a classic group."""

    def check_offset_deletion(self) -> None:
        """Raises `ApiError` for a group with members of another type than consumer: their topics
        are unknown.
        """
        if self.members and self.protocol_type != PROTOCOL_TYPE:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != PROTOCOL_TYPE or self.is_empty:
            return frozenset()
        if self.stored is None:
            return None
        try:
            found = [decode_subscription(one.subscription) for one in self.stored.members]
        except ProtocolError:
            return None  # not Kafka's format, although the protocol type is "consumer"
        return frozenset(topic for one in found for topic in one.topics)

    def expiry(self, now_ms: int, retention_ms: int) -> Expiry | None:
        """The retention time of an empty group starts when its last member left (KIP-211)."""
        if self.is_empty and self.protocol_type is not None and self.stored is not None:
            since_ms = self.stored.current_state_timestamp_ms
            base_ms = None if since_ms == -1 else since_ms
            return Expiry(now_ms=now_ms, retention_ms=retention_ms, base_ms=base_ms)
        is_settled = self.state is GroupState.STABLE and self.protocol_type == PROTOCOL_TYPE
        if self.is_empty or self.protocol_type is None or is_settled:
            return Expiry(now_ms=now_ms, retention_ms=retention_ms)
        return None

    def listing(self) -> GroupListing:
        return GroupListing(
            group_id=self.group_id,
            state=self.state.value,
            protocol_type=self.protocol_type or "",
        )

    def describe(self) -> GroupDescription:
        """Describes the group. Metadata and assignments are included only while it is stable."""
        protocol = self.protocol if self.state is GroupState.STABLE else None
        members = self.members.values()
        assignments = {} if protocol is None else self.assignments
        return GroupDescription(
            group_id=self.group_id,
            state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol=protocol or "",
            members=turn_list(
                [
                    MemberDescription(
                        member_id=one.member_id,
                        instance_id=one.instance_id,
                        client_id=one.client_id,
                        client_host=one.client_host,
                        metadata=b"" if protocol is None else one.protocols[protocol],
                        assignment=assignments.get(one.member_id, b""),
                    )
                    for one in large_in_turns(members)
                ]
            ),
        )

    # Members

    def put(self, member: Member) -> None:
        """Adds or replaces a member."""
        self.members[member.member_id] = member

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.leader = member.member_id
            self.protocol_type = protocol_type
        self.put(member)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.pending_joins.discard(member.member_id)

    def remove(self, member: Member) -> None:
        """Removes a member. The oldest remaining member succeeds a removed leader."""
        del self.members[member.member_id]
        self._forget(member)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _forget(self, member: Member) -> None:
        member_id = member.member_id
        self.assignments.pop(member_id, None)
        self.joining.pop(member_id, None)
        self.syncing.pop(member_id, None)
        self.new_ids.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace(self, old: Member, new: Member) -> None:
        """Replaces a static member that rejoined under a new member id; its position and its
        assignment are kept.
        """
        members = (new if one is old else one for one in self.members.values())
        self.members = {one.member_id: one for one in members}
        assignment = self.assignments.get(old.member_id, b"")
        self._forget(old)
        self.assignments[new.member_id] = assignment
        if self.leader == old.member_id:
            self.leader = new.member_id
        assert new.instance_id is not None
        self.static_ids[new.instance_id] = new.member_id

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """Returns the member; raises `ApiError` if it is unknown or fenced by its instance id."""
        if instance_id is not None:
            known_id = self.static_ids.get(instance_id)
            if known_id is not None and known_id != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
            if known_id is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_claim(self, claim: MemberClaim) -> Member:
        """Returns the claimed member; raises `ApiError` unless member, instance and generation
        match.
        """
        member = self.check_member(claim.member_id, claim.instance_id)
        if claim.generation != self.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of all members."""
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    def is_excused(self, member_id: str) -> bool:
        """Whether the session may expire without removing the member, which awaits a response.

        A new member is not excused: it sends no heartbeats, so the expiry of its join is the only
        sign that its client has gone.
        """
        is_waiting = member_id in self.joining or member_id in self.syncing
        return is_waiting and member_id not in self.new_ids

    def not_excused(self) -> list[Member]:
        """The members whose session may not expire (see `is_excused`), in their order."""
        waiting = (self.joining.keys() | self.syncing.keys()) - self.new_ids
        return [one for one in self.members.values() if one.member_id not in waiting]

    def missing_from_join(self) -> list[Member]:
        """The members that have not joined; static ones may come back."""
        joining = self.joining
        return [
            one
            for one in self.members.values()
            if one.member_id not in joining and one.instance_id is None
        ]

    @property
    def is_complete(self) -> bool:
        """Whether all members have joined and no assigned member id is still unused."""
        return not self.pending_joins and len(self.joining) == len(self.members)

    def elect_joined_leader(self) -> bool:
        """Ensures that the leader has joined; returns `False` if no member has."""
        if self.leader is None:
            return False
        if self.leader in self.joining:
            return True
        elected = next((one for one in self.members if one in self.joining), None)
        if elected is None:
            return False
        self.leader = elected
        return True

    # Protocols

    def supports(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether a client with these protocols can join."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        members = self.members.values()
        return any(all(name in one.protocols for one in members) for name in protocols)


def select_protocol(members: Iterable[Member]) -> str:
    """Selects a protocol by vote among those that all members support; the first wins a tie."""
    offers = Counter(tuple(one.protocols) for one in members)  # thousands of members, a few lists
    candidates = set.intersection(*map(set, offers))
    votes: Counter[str] = Counter()
    for offered, count in offers.items():
        votes[next(name for name in offered if name in candidates)] += count
    return votes.most_common(1)[0][0]
