"""A classic group: its members and where they stand in a rebalance.

`stored` is the group as its last record has it, and changes by `take` alone. Everything else runs
ahead of it while a rebalance is on, and is caught up with by the next record; after a crash the
group is what the record says. Kafka's counterpart: `ClassicGroup`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.coordinator.classic.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from ottla.coordinator.classic.member import Member
from ottla.coordinator.classic.requests import JoinedMember, MemberClaim
from ottla.coordinator.classic.state import GroupState, may_follow
from ottla.coordinator.offsets.records import GroupMetadataValue


class Group:
    """`initial_wait_ms`: what is left of the time that the first rebalance may be put off."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.stored: GroupMetadataValue | None = None
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        self.arriving: Member | None = None
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.initial_wait_ms: int | None = None
        self.has_newcomer = False

    def transition_to(self, state: GroupState) -> None:
        assert may_follow(state, self.state), f"{state} does not follow {self.state}"
        self.state = state

    # What is written down

    def take(self, value: GroupMetadataValue) -> None:
        """The group is what its record says; members that stay keep what only they have said."""
        known = dict(self.members)
        if self.arriving is not None:
            known[self.arriving.member_id] = self.arriving
        self.stored = value
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.members = {}
        for record in value.members:
            member = known.get(record.member_id)
            if member is None or member.protocols.get(value.protocol or "") != record.subscription:
                member = Member.from_record(record, value)
            member.assignment = bytes(record.assignment)
            self.members[record.member_id] = member
        self.static_ids = {
            member.instance_id: member.member_id
            for member in self.members.values()
            if member.instance_id is not None
        }
        self.arriving = None
        self.pending_syncs &= self.members.keys()
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    def to_record(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadataValue:
        """The generation at hand with what the leader has assigned."""
        return self._record(self.members.values(), self.leader, assignments, now_ms)

    def to_record_with(self, member: Member, replaced: Member, now_ms: int) -> GroupMetadataValue:
        """The group with one member in the place of another, whose assignment it gets."""
        members = self.members_with(member, replaced)
        assignments = {one.member_id: one.assignment for one in self.members.values()}
        assignments[member.member_id] = replaced.assignment
        leader = member.member_id if self.leader == replaced.member_id else self.leader
        return self._record(members, leader, assignments, now_ms)

    def to_empty_record(self, now_ms: int) -> GroupMetadataValue:
        """The next generation, without members."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation + 1,
            protocol=None,
            leader=None,
            current_state_timestamp_ms=now_ms,
        )

    def _record(
        self,
        members: Iterable[Member],
        leader: str | None,
        assignments: Mapping[str, bytes],
        now_ms: int,
    ) -> GroupMetadataValue:
        protocol = self.protocol
        assert protocol is not None
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=protocol,
            leader=leader,
            current_state_timestamp_ms=now_ms,
            members=[
                one.to_record(protocol, assignments.get(one.member_id, b"")) for one in members
            ],
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether its consumers read a topic; yes as long as that cannot be told."""
        if self.protocol_type != PROTOCOL_TYPE or self.state is GroupState.EMPTY:
            return False
        topics = self.subscribed_topics()
        return topics is None or topic in topics

    def subscribed_topics(self) -> frozenset[str] | None:
        """What its consumers read, as far as it is written down; `None` when nobody can tell."""
        if self.stored is None or self.protocol_type != PROTOCOL_TYPE:
            return None
        try:
            found = [decode_subscription(one.subscription) for one in self.stored.members]
        except ProtocolError:
            return None  # a client's own format under the consumers' name
        return frozenset(topic for one in found for topic in one.topics)

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.leader = member.member_id
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.pending_joins.discard(member.member_id)

    def remove(self, member: Member) -> None:
        """Takes a member out; the one who has been there longest leads after a leader."""
        del self.members[member.member_id]
        self.pending_syncs.discard(member.member_id)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def members_with(self, new: Member, old: Member) -> list[Member]:
        """All members, one in the place of another."""
        return [new if one is old else one for one in self.members.values()]

    def replace(self, old: Member, new: Member) -> None:
        """Puts a member that has come back under a new id in its own place."""
        self.members = {one.member_id: one for one in self.members_with(new, old)}
        self.pending_syncs.discard(old.member_id)
        if self.leader == old.member_id:
            self.leader = new.member_id
        assert new.instance_id is not None
        self.static_ids[new.instance_id] = new.member_id

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member of that id; raises `ApiError` when it is none, or another has its name."""
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
        """The member who claims to be in this generation; raises `ApiError`."""
        member = self.check_member(claim.member_id, claim.instance_id)
        if claim.generation != self.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the most patient member may take to join."""
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    @property
    def joined_count(self) -> int:
        return sum(one.has_joined for one in self.members.values())

    @property
    def is_complete(self) -> bool:
        """Whether all who are to join have."""
        return not self.pending_joins and all(one.has_joined for one in self.members.values())

    def elect_joined_leader(self) -> bool:
        """Has somebody lead who has joined; `False` when nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].has_joined:
            return True
        joined = (one.member_id for one in self.members.values() if one.has_joined)
        elected = next(joined, None)
        if elected is None:
            return False
        self.leader = elected
        return True

    def joined_members(self, members: Iterable[Member] | None = None) -> tuple[JoinedMember, ...]:
        """What the leader needs to assign."""
        assert self.protocol is not None
        return tuple(
            JoinedMember(
                member_id=one.member_id,
                instance_id=one.instance_id,
                metadata=one.protocols[self.protocol],
            )
            for one in (self.members.values() if members is None else members)
        )

    # Protocols

    def supports(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether somebody with these protocols can be a member."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        members = self.members.values()
        return any(all(name in one.protocols for one in members) for name in protocols)


def candidate_protocols(members: Iterable[Member]) -> set[str]:
    """The protocols that all members can use."""
    offers = [set(one.protocols) for one in members]
    return set.intersection(*offers) if offers else set()


def select_protocol(members: Iterable[Member]) -> str:
    """Each votes for what it prefers of what all can use; the first wins among equals."""
    voters = list(members)
    candidates = candidate_protocols(voters)
    votes = Counter(one.vote(candidates) for one in voters)
    return votes.most_common(1)[0][0]
