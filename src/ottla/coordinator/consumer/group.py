"""A consumer group (KIP-848): the state that its records describe, in any order.

A compacted log holds the records in the order of their last writes, so the assignment of a member
may precede the member. Kafka's counterpart: `ConsumerGroup`.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.coordinator.classic.consumer_protocol import PROTOCOL_TYPE
from ottla.coordinator.consumer.assigned_group import AssignedGroup
from ottla.coordinator.consumer.member import Member
from ottla.coordinator.consumer.partitions import (
    TopicIdPartition,
)
from ottla.coordinator.consumer.requests import ConsumerGroupDescription, ConsumerMemberDescription
from ottla.coordinator.deadlines import Due, TimerKey
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.committed_offsets import Expiry
from ottla.coordinator.offsets.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicMetadata,
)
from ottla.coordinator.requests import CONSUMER, GroupListing, MemberClaim


class ConsumerGroupState(Enum):
    """The values are the names in responses to clients."""

    EMPTY = "Empty"
    """No members."""

    ASSIGNING = "Assigning"
    """The group changed; a new target assignment must be computed."""

    RECONCILING = "Reconciling"
    """The target assignment is computed, but not all members have theirs."""

    STABLE = "Stable"
    """All members have their target assignment."""

    DEAD = "Dead"
    """Removed."""


RECORD_KEYS = (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupRegularExpressionKey,
)
"""The keys of the records of a consumer group."""


class ConsumerGroup(AssignedGroup[Member]):
    """`topics` are the subscribed topics as last seen, by name; `targets` are by member id.

    Only `replay` changes a group, except for two fields that a restart clears: `revision`, the
    catalog's revision when the topics were last looked up, and `regex_revisions`, the revisions of
    the catalog and of the visible topics when each expression was last resolved.
    """

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topics: dict[str, TopicMetadata] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        self.static_ids: dict[str, str] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self.revision: int | None = None
        self.regex_revisions: dict[str, tuple[int, int]] = {}
        self._early: dict[str, ConsumerGroupCurrentMemberAssignmentValue] = {}

    def copy(self) -> "ConsumerGroup":
        other = copy.copy(self)  # `topics` is replaced as a whole
        other.members = dict(self.members)
        other.targets = dict(self.targets)
        other.regexes = dict(self.regexes)
        other.regex_revisions = dict(self.regex_revisions)
        other.static_ids = dict(self.static_ids)
        other.owners = dict(self.owners)
        other._early = dict(self._early)
        return other

    # Replay

    def replay(self, key: Message, value: Message | None) -> None:
        """Applies one of the group's records; a tombstone removes what the record described."""
        match key:
            case ConsumerGroupMetadataKey():
                assert isinstance(value, ConsumerGroupMetadataValue | None)
                self.epoch = 0 if value is None else value.epoch
            case ConsumerGroupPartitionMetadataKey():
                assert isinstance(value, ConsumerGroupPartitionMetadataValue | None)
                self.topics = {} if value is None else {one.topic_name: one for one in value.topics}
            case ConsumerGroupMemberMetadataKey():
                assert isinstance(value, ConsumerGroupMemberMetadataValue | None)
                self._replay_member(key.member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue | None)
                self.assignment_epoch = 0 if value is None else value.assignment_epoch
            case ConsumerGroupTargetAssignmentMemberKey():
                assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue | None)
                target = None if value is None else value.topic_partitions
                self._replay_target(key.member_id, target)
            case ConsumerGroupCurrentMemberAssignmentKey():
                assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue | None)
                self._replay_current(key.member_id, value)
            case ConsumerGroupRegularExpressionKey():
                assert isinstance(value, ConsumerGroupRegularExpressionValue | None)
                self._replay_regex(key.regular_expression, value)

    def _replay_member(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        old = self.members.get(member_id)
        name = None if old is None else old.instance_id
        if name is not None and self.static_ids.get(name) == member_id:
            del self.static_ids[name]
        if value is None:
            self._release(member_id)
            self.members.pop(member_id, None)
            return
        member = (old or Member(member_id=member_id)).take_metadata(value)
        early = self._early.pop(member_id, None)
        self.members[member_id] = member if early is None else member.take_current(early)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member_id

    def _replay_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        self._release(member_id)
        member = self.members.get(member_id)
        if member is not None:
            self.members[member_id] = member = member.take_current(value)
            held = member.holds
        elif value is not None:
            self._early[member_id] = value
            held = Member(member_id=member_id).take_current(value).holds
        else:
            self._early.pop(member_id, None)
            return
        self.owners.update(dict.fromkeys(held, member_id))

    def _release(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is None and member_id in self._early:
            member = Member(member_id=member_id).take_current(self._early[member_id])
        for one in member.holds if member is not None else ():
            if self.owners.get(one) == member_id:
                del self.owners[one]

    def _replay_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        if value is None:
            self.regexes.pop(regex, None)
            self.regex_revisions.pop(regex, None)
        else:
            self.regexes[regex] = frozenset(value.topics)

    def is_removed_by(self, key: Message, value: Message | None) -> bool:
        """Whether a record is the tombstone of the group itself."""
        return value is None and isinstance(key, ConsumerGroupMetadataKey)

    def tombstones(self) -> Iterator[Message]:
        assert self.is_empty
        for regex in self.regexes:
            yield ConsumerGroupRegularExpressionKey(
                group_id=self.group_id, regular_expression=regex
            )
        yield ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        yield ConsumerGroupPartitionMetadataKey(group_id=self.group_id)
        yield ConsumerGroupMetadataKey(group_id=self.group_id)

    # Interface of `Group`

    def timer_keys(self) -> Iterator[TimerKey]:
        for member_id in self.members:
            yield TimerKey(Due.SESSION, self.group_id, member_id)
            yield TimerKey(Due.REVOCATION, self.group_id, member_id)

    def admit_commit(self, claim: MemberClaim, draft: Draft, *, is_transactional: bool) -> None:
        """Without members any client may commit; in a transaction also a client without a member
        id.

        Old producers do not send a member id (KIP-447). Raises `ApiError`.
        """
        if claim.generation < 0 and not self.members:
            return
        is_simple = claim.generation < 0 and not claim.member_id and claim.instance_id is None
        if not (is_transactional and is_simple):
            self._check_epoch(claim)

    def check_fetch(self, claim: MemberClaim) -> None:
        """A client without a member id may fetch all offsets; a member needs its current epoch."""
        if claim.generation >= 0 or claim.member_id:
            self._check_epoch(claim)

    def _check_epoch(self, claim: MemberClaim) -> None:
        if claim.generation != self.member(claim.member_id).epoch:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_offset_deletion(self) -> None:
        """Always allowed: the subscribed topics are known."""

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(name for one in self.members.values() for name in self.topics_of(one))

    def expiry(self, now_ms: int, retention_ms: int) -> Expiry:
        return Expiry(now_ms=now_ms, retention_ms=retention_ms)

    def listing(self) -> GroupListing:
        return GroupListing(
            group_id=self.group_id,
            state=self.state.value,
            protocol_type=PROTOCOL_TYPE,
            group_type=CONSUMER,
        )

    def describe(self, assignors: tuple[str, ...]) -> ConsumerGroupDescription:
        """Describes the group; `assignors` are the broker's assignors, the default first."""
        return ConsumerGroupDescription(
            group_id=self.group_id,
            state=self.state.value,
            epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor=self.assignor(assignors),
            members=tuple(
                ConsumerMemberDescription(
                    member_id=one.member_id,
                    instance_id=one.instance_id,
                    rack_id=one.rack_id,
                    epoch=one.epoch,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    topic_names=sorted(one.topic_names),
                    topic_regex=one.topic_regex or None,
                    assigned=one.assigned,
                    target=self.target_of(one.member_id),
                )
                for one in self.members.values()
            ),
        )

    # Questions

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(one.is_reconciled_to(self.assignment_epoch) for one in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_free_for(self, member_id: str, partition: TopicIdPartition) -> bool:
        """Whether no other member holds the partition."""
        return self.owners.get(partition, member_id) == member_id

    def topics_of(self, member: Member) -> frozenset[str]:
        """The subscribed topic names, including those that the member's expression matched."""
        if not member.topic_regex:
            return member.topic_names
        return member.topic_names | self.regexes.get(member.topic_regex, frozenset())

    def used_regexes(self) -> frozenset[str]:
        return frozenset(one.topic_regex for one in self.members.values() if one.topic_regex)

    def assignor(self, known: Iterable[str]) -> str:
        """The known assignor that most members request, or else the first known one."""
        names = list(known)
        votes = Counter(one.server_assignor for one in self.members.values())
        wanted = [name for name in names if votes[name]]
        return max(wanted, key=lambda name: votes[name], default=names[0])
