"""All groups of both protocols, over the same committed offsets and the same group ids.

An id belongs to one protocol at a time. A group without members goes over to the other protocol
with the first member that speaks it, and keeps its offsets; one with members does not, and whoever
speaks the other protocol is refused. Kafka's counterpart: `GroupCoordinatorShard`.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.moment import Moment
from ottla.codec.schema import Message
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.group import Group
from ottla.coordinator.classic.machine import GroupMachine
from ottla.coordinator.classic.requests import (
    Acknowledgement,
    GroupDescription,
    GroupListing,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    MemberClaim,
    SyncAnswer,
    SyncRequest,
)
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.consumer.machine import ConsumerGroupMachine
from ottla.coordinator.consumer.member import JOIN_EPOCH
from ottla.coordinator.consumer.requests import (
    ConsumerGroupDescription,
    GroupConfigLookup,
    HeartbeatAnswer,
    HeartbeatRequest,
    TopicCatalog,
)
from ottla.coordinator.decision import Answer, AnswerT, CoordinatorRecord, Decision
from ottla.coordinator.offsets.commits import CommitRequest, PartitionErrors
from ottla.coordinator.offsets.committed_offsets import (
    CommittedOffsets,
    FetchedOffset,
    TopicPartition,
)
from ottla.coordinator.offsets.records import GroupMetadataKey


class GroupCoordinatorShard:
    """A machine made of two: `classic`, and `consumer` for the new protocol (KIP-848)."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        catalog: TopicCatalog,
        new_id: Callable[[], Uuid],
        group_configs: GroupConfigLookup,
    ) -> None:
        self.offsets = CommittedOffsets()
        self.consumer = ConsumerGroupMachine(config, self.offsets, catalog, new_id, group_configs)
        self.classic = GroupMachine(
            config, self.offsets, new_id, is_elsewhere=self.consumer.groups.__contains__
        )

    # Replay

    def replay(
        self,
        key: Message,
        value: Message | None,
        record_offset: int,
        *,
        producer_id: int | None = None,
    ) -> None:
        """Takes in a record of `__consumer_offsets`."""
        self.classic.replay(key, value, record_offset, producer_id=producer_id)
        self.consumer.replay(key, value)

    def loaded(self, at: Moment) -> None:
        self.classic.loaded(at)
        self.consumer.loaded(at)

    # Members of classic groups

    def make_room(self, group_id: str, at: Moment) -> Decision[Acknowledgement] | None:
        """What must be done before somebody may join a classic group of that id, if anything."""
        group = self.consumer.groups.get(group_id)
        if group is None or group.members:
            return None
        return self.consumer.give_up_group(group_id, at)

    def join(self, request: JoinRequest, ticket: Hashable, at: Moment) -> Decision[JoinAnswer]:
        """`make_room` is to come before."""
        if request.group_id in self.consumer.groups:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            answer = JoinAnswer(error=code, member_id=request.member_id)
            return Decision(key=request.group_id, answer=answer)
        return self.classic.join(request, ticket, at)

    def sync(self, request: SyncRequest, ticket: Hashable, at: Moment) -> Decision[SyncAnswer]:
        return self.classic.sync(request, ticket, at)

    def heartbeat(self, claim: MemberClaim, at: Moment) -> Decision[Acknowledgement]:
        return self.classic.heartbeat(claim, at)

    def leave(
        self, group_id: str, leaving: tuple[Leaving, ...], at: Moment
    ) -> Decision[LeaveAnswer]:
        """Members of the other protocol do not leave so: each is unknown."""
        if group_id in self.consumer.groups:
            errors = (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leaving)
            return Decision(key=group_id, answer=LeaveAnswer(errors=errors))
        return self.classic.leave(group_id, leaving, at)

    # Members of the new protocol

    def consumer_heartbeat(
        self, request: HeartbeatRequest, at: Moment
    ) -> Decision[HeartbeatAnswer]:
        classic = self.classic.groups.get(request.group_id)
        if classic is None:
            return self.consumer.heartbeat(request, at)
        if request.epoch != JOIN_EPOCH or classic.state is not GroupState.EMPTY:
            return self.consumer.heartbeat(request, at, _refusal(classic, request))
        decision = self.consumer.heartbeat(request, at)
        if not decision.records:
            return decision
        tombstone = CoordinatorRecord(GroupMetadataKey(group=request.group_id), None)
        return replace(decision, records=(tombstone, *decision.records))

    # Offsets

    def commit(self, request: CommitRequest, at: Moment) -> Decision[PartitionErrors]:
        if request.claim.group_id in self.consumer.groups:
            return self.consumer.commit(request, at)
        return self.classic.commit(request, at)

    def fetch_offsets(
        self, claim: MemberClaim, wanted: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, FetchedOffset]:
        """What was committed for some partitions, or with `None` for all that the group has.

        Raises `ApiError` for somebody who is no member any more of a group of the new protocol.
        """
        if claim.group_id in self.consumer.groups:
            self.consumer.check_fetch(claim)
        return self.offsets.fetch(claim.group_id, wanted)

    def delete_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition], at: Moment
    ) -> Decision[PartitionErrors]:
        if group_id in self.consumer.groups:
            return self.consumer.delete_offsets(group_id, wanted, at)
        return self.classic.delete_offsets(group_id, wanted, at)

    def forget_topics(self, topics: Iterable[str], at: Moment) -> list[Decision[Answer]]:
        """Topics were deleted, and with them the offsets that any group has committed there."""
        return self.classic.forget_topics(topics, at)

    # Groups

    def describe(self, group_id: str) -> GroupDescription | None:
        """A classic group as administrators see it; `None` when there is none of that id."""
        return None if group_id in self.consumer.groups else self.classic.describe(group_id)

    def describe_consumer(self, group_id: str) -> ConsumerGroupDescription | None:
        """A group of the new protocol; `None` when there is none of that id."""
        return self.consumer.describe(group_id)

    def list_groups(self) -> list[GroupListing]:
        return [*self.classic.list_groups(), *self.consumer.list_groups()]

    def delete_group(self, group_id: str, at: Moment) -> Decision[Acknowledgement]:
        if group_id in self.consumer.groups:
            return self.consumer.delete_group(group_id, at)
        return self.classic.delete_group(group_id, at)

    # Time

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` will next have something to do, on the monotonic clock."""
        deadlines = (self.classic.next_deadline_ms, self.consumer.next_deadline_ms)
        return min((one for one in deadlines if one is not None), default=None)

    def advance(self, at: Moment) -> Decision[Answer] | None:
        """What time has brought about in one group; to be called until it returns `None`."""
        return self.classic.advance(at) or self.consumer.advance(at)

    # When the log takes no records

    def refused(
        self, decision: Decision[AnswerT], code: ErrorCode, at: Moment
    ) -> Decision[AnswerT]:
        """What to answer in place of a decision whose records could not be appended."""
        if decision.key in self.consumer.groups:
            return self.consumer.refused(decision, code, at)
        return self.classic.refused(decision, code, at)


def _refusal(group: Group, request: HeartbeatRequest) -> str:
    """Why a group that is not empty stays what it is, in Kafka's words."""
    if request.epoch != JOIN_EPOCH:
        return f"Group {group.group_id} is not a consumer group."
    return (
        f"Cannot upgrade classic group {group.group_id} to consumer group because online upgrade "
        "is disabled."
    )
