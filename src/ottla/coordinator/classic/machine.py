"""The classic group coordinator: a machine without clock, disk or network.

Operations take values and a moment, and return a `Decision`. Whoever runs the machine appends the
decision's records to `__consumer_offsets`, hands them to `replay`, and only then answers; at start
it replays the log and calls `loaded`. Nothing but `replay` changes what a restart would bring back.
The group protocol of KIP-848 is another machine over the same `CommittedOffsets`
(`consumer/machine.py`), and `shard.py` joins the two.

Kafka's counterparts: `GroupCoordinatorShard`, `GroupMetadataManager`.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.moment import Moment
from ottla.codec.schema import Message
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.describing import describe, listing
from ottla.coordinator.classic.group import Group
from ottla.coordinator.classic.joining import Joining
from ottla.coordinator.classic.membership import Membership
from ottla.coordinator.classic.rebalance import Due, GroupTimers, Rebalances, TimerKey
from ottla.coordinator.classic.requests import (
    UNKNOWN_MEMBER,
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
from ottla.coordinator.classic.syncing import Syncing
from ottla.coordinator.decision import Answer, AnswerT, Decision, Draft
from ottla.coordinator.offsets.commits import CommitRequest, Commits, PartitionErrors
from ottla.coordinator.offsets.committed_offsets import (
    CommittedOffsets,
    FetchedOffset,
    TopicPartition,
)
from ottla.coordinator.offsets.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.coordinator.timers import Timers


class GroupMachine:
    """All classic groups. `groups` is for looking at; tickets are the caller's, and hashable.

    `is_elsewhere` tells of a group id that it belongs to the machine of the new protocol, which
    then looks after the group's offsets too.
    """

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        offsets: CommittedOffsets,
        new_id: Callable[[], Uuid],
        is_elsewhere: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets = offsets
        self._config = config
        self._is_elsewhere = is_elsewhere
        self._timers: GroupTimers = Timers()
        self._rebalances = Rebalances(config, self._timers)
        self._joining = Joining(config, self._rebalances, new_id)
        self._syncing = Syncing(self._rebalances)
        self._membership = Membership(self._rebalances)
        self._commits = Commits(config, offsets, self._rebalances)
        self._to_look_through: deque[str] = deque()

    # Replay

    def replay(
        self,
        key: Message,
        value: Message | None,
        record_offset: int,
        *,
        producer_id: int | None = None,
    ) -> None:
        """Takes in a record of `__consumer_offsets`; kinds of other machines are left alone.

        `producer_id` is for records of a transaction that is still open.
        """
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.replay(key, value, record_offset, producer_id=producer_id)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self._replay_group(key.group, value)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self.groups.get(group_id)
        if value is not None:
            if group is None:
                group = self.groups[group_id] = Group(group_id)
            group.take(value)
        elif group is not None:
            self._remove(group)

    def loaded(self, at: Moment) -> None:
        """Everything is replayed: the members have a session from now on to show up."""
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalances.extend_session(group, member, at.monotonic_ms)
            if len(group.members) > self._config.group_max_size:
                self._rebalances.prepare(group, Draft(group.group_id, at), "group.max.size is less")
        self._set_expiry_timer(at)

    # Members

    def join(self, request: JoinRequest, ticket: Hashable, at: Moment) -> Decision[JoinAnswer]:
        """Enters a group, or joins it again; the answer comes when all others have."""
        draft = Draft(request.group_id, at)
        try:
            self._joining.check_session(request)
            group = self._group_to_join(request)
            self._joining.join(group, request, ticket, draft)
        except ApiError as error:
            is_full = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
            member_id = UNKNOWN_MEMBER if is_full else request.member_id
            draft.reply(ticket, JoinAnswer(error=error.code, member_id=member_id))
        self._remove_if_vacant(request.group_id)
        answer = draft.replies.pop(ticket, None)
        assert answer is None or isinstance(answer, JoinAnswer)
        return draft.decide(answer)

    def _group_to_join(self, request: JoinRequest) -> Group:
        group = self.groups.get(request.group_id)
        if group is not None:
            return group
        if request.member_id != UNKNOWN_MEMBER:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        group = self.groups[request.group_id] = Group(request.group_id)
        return group

    def sync(self, request: SyncRequest, ticket: Hashable, at: Moment) -> Decision[SyncAnswer]:
        """Fetches an assignment; the answer comes when the leader has made it."""
        draft = Draft(request.claim.group_id, at)
        try:
            self._syncing.sync(self._group_of(request.claim), request, ticket, draft)
        except ApiError as error:
            draft.reply(ticket, SyncAnswer(error=error.code))
        answer = draft.replies.pop(ticket, None)
        assert answer is None or isinstance(answer, SyncAnswer)
        return draft.decide(answer)

    def heartbeat(self, claim: MemberClaim, at: Moment) -> Decision[Acknowledgement]:
        draft = Draft(claim.group_id, at)
        try:
            self._membership.heartbeat(self._group_of(claim), claim, draft)
        except ApiError as error:
            return draft.decide(Acknowledgement(error=error.code))
        return draft.decide(Acknowledgement())

    def leave(
        self, group_id: str, leaving: tuple[Leaving, ...], at: Moment
    ) -> Decision[LeaveAnswer]:
        draft = Draft(group_id, at)
        try:
            group = self._group_of(MemberClaim(group_id=group_id))
        except ApiError as error:
            return draft.decide(LeaveAnswer(error=error.code))
        errors = self._membership.leave(group, leaving, draft)
        self._remove_if_vacant(group_id)
        return draft.decide(LeaveAnswer(errors=tuple(errors)))

    def _group_of(self, claim: MemberClaim) -> Group:
        if not claim.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(claim.group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # Offsets

    def commit(self, request: CommitRequest, at: Moment) -> Decision[PartitionErrors]:
        group_id = request.claim.group_id
        draft = Draft(group_id, at)
        try:
            errors = self._commits.commit(self.groups.get(group_id), request, draft)
        except ApiError as error:
            errors = dict.fromkeys(request.offsets, error.code)
        return draft.decide(PartitionErrors(partitions=errors))

    def fetch_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, FetchedOffset]:
        """What was committed for some partitions, or with `None` for all that the group has."""
        return self.offsets.fetch(group_id, wanted)

    def delete_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition], at: Moment
    ) -> Decision[PartitionErrors]:
        draft = Draft(group_id, at)
        try:
            errors = self._commits.delete(self.groups.get(group_id), group_id, wanted, draft)
        except ApiError as error:
            return draft.decide(PartitionErrors(error=error.code))
        return draft.decide(PartitionErrors(partitions=errors))

    def forget_topics(self, topics: Iterable[str], at: Moment) -> list[Decision[Answer]]:
        """Topics were deleted, and with them the offsets that any group has committed there."""
        gone = frozenset(topics)
        decisions: list[Decision[Answer]] = []
        for group_id in self.offsets.group_ids():
            draft = Draft(group_id, at)
            self._commits.forget_topics(group_id, gone, draft)
            if draft.records:
                decisions.append(draft.decide())
        return decisions

    # Groups

    def describe(self, group_id: str) -> GroupDescription | None:
        """A group as administrators see it; `None` when there is none of that id."""
        group = self.groups.get(group_id)
        if group is None:
            return describe(Group(group_id)) if group_id in self.offsets else None
        return describe(group)

    def list_groups(self) -> list[GroupListing]:
        """All groups, those included that have only committed offsets."""
        return [
            listing(self.groups.get(group_id) or Group(group_id)) for group_id in self._group_ids()
        ]

    def _group_ids(self) -> list[str]:
        known = dict.fromkeys((*self.groups, *self.offsets.group_ids()))
        return [group_id for group_id in known if not self._is_elsewhere(group_id)]

    def delete_group(self, group_id: str, at: Moment) -> Decision[Acknowledgement]:
        draft = Draft(group_id, at)
        group = self.groups.get(group_id)
        try:
            self._commits.delete_all(group, group_id, draft)
        except ApiError as error:
            return draft.decide(Acknowledgement(error=error.code))
        if group is not None and group.stored is None:
            self._remove(group)
        return draft.decide(Acknowledgement())

    # Time

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` will next have something to do, on the monotonic clock."""
        return self._timers.next_deadline_ms

    def advance(self, at: Moment) -> Decision[Answer] | None:
        """What time has brought about in one group; to be called until it returns `None`.

        One at a time, since each must be replayed before the next can be decided.
        """
        if self._to_look_through:
            return self._expire(self._to_look_through.popleft(), at)
        key = self._timers.take_due(at.monotonic_ms)
        if key is None:
            return None
        if key.due is Due.EXPIRY:
            self._to_look_through.extend(self._group_ids())
            self._set_expiry_timer(at)
        return self._come_due(key, at)

    def _come_due(self, key: TimerKey, at: Moment) -> Decision[Answer]:
        draft = Draft(key.group_id, at)
        group = self.groups.get(key.group_id)
        if group is not None:
            match key.due:
                case Due.SESSION:
                    self._rebalances.end_session(group, key.member_id, draft)
                case Due.JOIN:
                    self._rebalances.end_joining(group, draft)
                case Due.SYNC:
                    self._rebalances.end_syncing(group, draft)
            self._remove_if_vacant(key.group_id)
        return draft.decide()

    def _expire(self, group_id: str, at: Moment) -> Decision[Answer]:
        draft = Draft(group_id, at)
        if self._is_elsewhere(group_id):
            return draft.decide()
        self._commits.expire(self.groups.get(group_id), group_id, draft)
        return draft.decide()

    def _set_expiry_timer(self, at: Moment) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._timers.set(TimerKey(Due.EXPIRY), at.monotonic_ms + interval_ms)

    # When the log takes no records

    def refused(
        self, decision: Decision[AnswerT], code: ErrorCode, at: Moment
    ) -> Decision[AnswerT]:
        """What to answer in place of a decision whose records could not be appended.

        A generation that cannot be written down is given up, and its members join again.
        """
        draft = Draft(decision.key, at)
        for reply in decision.replies:
            draft.reply(reply.ticket, reply.answer.refused(code))
        group = self.groups.get(decision.key)
        if group is not None:
            self._give_up(group, draft)
        assert not draft.records
        answer = decision.answer
        return draft.decide(None if answer is None else answer.refused(code))

    def _give_up(self, group: Group, draft: Draft) -> None:
        group.arriving = None
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._rebalances.prepare(group, draft, "the assignment could not be written")
        elif group.state is GroupState.PREPARING_REBALANCE and not group.members:
            group.transition_to(GroupState.EMPTY)

    # Groups that are no more

    def _remove_if_vacant(self, group_id: str) -> None:
        """A group that nobody has come to, and that left nothing behind, never was."""
        group = self.groups.get(group_id)
        if (
            group is not None
            and group.state is GroupState.EMPTY
            and group.stored is None
            and not group.pending_joins
        ):
            self._remove(group)

    def _remove(self, group: Group) -> None:
        self._rebalances.forget(group)
        group.transition_to(GroupState.DEAD)
        del self.groups[group.group_id]
