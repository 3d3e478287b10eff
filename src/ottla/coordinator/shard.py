"""The group coordinator: a state machine of classic, consumer and share groups and committed
offsets.

Operations take values and a time, and return a `Decision` without changing state. The caller
appends its records to `__consumer_offsets`, passes the decision to `adopt`, even if it has no
records, and only then responds. If the records cannot be appended, the caller passes the decision
to `refused` and uses the returned decision instead. At start the caller replays the log and calls
`loaded`.

A group id belongs to one protocol at a time. A group without members changes protocol with the
first member that uses the other one, and keeps its offsets; a group with members does not change,
and neither does a share group.
Kafka's counterparts: `GroupCoordinatorShard`, `GroupMetadataManager`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import PART_SIZE, freed_in_turns, in_turns, large_in_turns, parts_of
from ottla.codec.schema import Message
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.catalog import GroupConfigLookup, TopicCatalog
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.rebalance import Rebalance, waiting
from ottla.coordinator.classic.requests import (
    GroupDescription,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    SyncAnswer,
    SyncRequest,
)
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.consumer.group import RECORD_KEYS, ConsumerGroup
from ottla.coordinator.consumer.heartbeats import Heartbeats
from ottla.coordinator.consumer.member import JOIN_EPOCH
from ottla.coordinator.consumer.membership import Membership, Sessions
from ottla.coordinator.consumer.plan import ConsumerPlan
from ottla.coordinator.consumer.requests import (
    ConsumerGroupDescription,
    HeartbeatAnswer,
    HeartbeatRequest,
)
from ottla.coordinator.consumer.validation import check_heartbeat, is_leaving
from ottla.coordinator.deadlines import Due, TimerKey
from ottla.coordinator.decision import Answer, AnswerT, Decision, Draft, Reply
from ottla.coordinator.offsets.commits import (
    CommitRequest,
    Commits,
    PartitionErrors,
    write_tombstones,
)
from ottla.coordinator.offsets.committed_offsets import NO_OFFSET, CommittedOffsets, FetchedOffset
from ottla.coordinator.offsets.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from ottla.coordinator.requests import (
    UNKNOWN_MEMBER,
    Acknowledgement,
    GroupListing,
    MemberClaim,
)
from ottla.coordinator.share.group import SHARE_RECORD_KEYS, ShareGroup
from ottla.coordinator.share.operations import ShareGroupOperations
from ottla.coordinator.share.plan import SharePlan

AnyGroup = ClassicGroup | ConsumerGroup | ShareGroup

MayTakeLong = Callable[[], None]
"""Raises `TurnsNeededError` if an operation, which has changed nothing yet, may begin again in
turns.
"""

RETRY_MS = 500
"""The delay before a deadline is retried if its records could not be appended, as in Kafka."""


def _at_once() -> None:
    """However long it takes."""


class GroupCoordinatorShard:
    """`groups` is read-only for callers. Pending ids are chosen by the caller and hashable."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        catalog: TopicCatalog,
        new_id: Callable[[], Uuid],
        group_configs: GroupConfigLookup,
        timers: Timers[Hashable],
        refusal: Callable[[str], ErrorCode] = lambda _: ErrorCode.NONE,
    ) -> None:
        """`refusal` returns the error for a group id that is not available here, or NONE: its
        partition is unreadable, still loading, or led by another broker.
        """
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = CommittedOffsets()
        self._config = config
        self._new_id = new_id
        self.refusal = refusal
        self._timers = timers
        self._commits = Commits(config, self.offsets)
        self._sessions = Sessions(group_configs)
        self._heartbeats = Heartbeats(config, catalog, self._sessions, new_id)
        self._membership = Membership(catalog, self._sessions)
        self.shares = ShareGroupOperations(
            config, catalog, group_configs, self._find, self.offsets.__contains__
        )
        self.being_deleted: set[str] = set()
        self.being_changed: set[str] = set()
        """The groups of which a decision is made in turns."""
        self._expiring: Iterator[Decision[Answer]] | None = None
        self._now = Timestamps(now_ms=0, monotonic_ms=0.0)

    # Records

    def replay(
        self,
        key: Message,
        value: Message | None,
        record_offset: int,
        *,
        producer_id: int | None = None,
    ) -> None:
        """Applies a record of `__consumer_offsets`.

        `producer_id` is set for records of an open transaction.
        """
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.replay(key, value, record_offset, producer_id=producer_id)
        elif isinstance(key, GroupMetadataKey):
            self._replay_classic(key, value)
        elif isinstance(key, RECORD_KEYS):
            self._replay_into(ConsumerGroup, key.group_id, key, value)
        elif isinstance(key, SHARE_RECORD_KEYS):
            self._replay_into(ShareGroup, key.group_id, key, value)

    def _replay_classic(self, key: GroupMetadataKey, value: Message | None) -> None:
        group = self.groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                self._remove(group)
            return
        if not isinstance(group, ClassicGroup):
            group = self.groups[key.group] = ClassicGroup(key.group)
        group.replay(key, value)

    def _replay_into(
        self,
        kind: type[ConsumerGroup] | type[ShareGroup],
        group_id: str,
        key: Message,
        value: Message | None,
    ) -> None:
        group = self.groups.get(group_id)
        if not isinstance(group, kind):
            if value is None:
                return
            group = self.groups[group_id] = kind(group_id)
        group.replay(key, value)
        if group.is_removed_by(key, value):
            self._remove(group)

    def loaded(self, at: Timestamps) -> None:
        """Call after the replay: every member gets a full session timeout."""
        for _ in self.loaded_in_steps(lambda: at):
            pass

    def loaded_in_steps(self, at: Callable[[], Timestamps]) -> Iterator[None]:
        """Like `loaded`, in short steps."""
        for number, group in enumerate(list(self.groups.values()), 1):
            if isinstance(group, ClassicGroup):
                yield from self._begin_sessions(group, at)
            self._watch(group, at())
            if not number % PART_SIZE:
                yield
        self._set_expiry_timer(at())

    def _begin_sessions(self, group: ClassicGroup, at: Callable[[], Timestamps]) -> Iterator[None]:
        for number, member in enumerate(group.members.values(), 1):
            key = TimerKey(Due.SESSION, group.group_id, member.member_id)
            self._timers.set(key, at().monotonic_ms + member.session_timeout_ms)
            if not number % PART_SIZE:
                yield

    def _watch(self, group: AnyGroup, at: Timestamps) -> None:
        plan = self._plan(group, Draft(group.group_id, at))
        if isinstance(plan, Rebalance):
            plan.watch()
        elif isinstance(plan, SharePlan):
            self.shares.heartbeats.watch(plan)
        else:
            self._sessions.watch(plan)
        self.adopt(plan.decide())

    def give_up(self, code: ErrorCode) -> Iterator[list[Reply]]:
        """Another coordinator has taken over: yields error replies to waiting members and drops all
        state, in short steps.
        """
        while self.groups or self.offsets.forget_some(PART_SIZE):
            replies: list[Reply] = []
            for _ in range(min(PART_SIZE, len(self.groups))):
                _, group = self.groups.popitem()
                if isinstance(group, ClassicGroup):
                    for part in parts_of(waiting(group).items()):
                        replies += [Reply(its_id, blank.refused(code)) for its_id, blank in part]
                        if len(replies) >= PART_SIZE:
                            yield replies
                            replies = []
            yield replies

    def _plan(
        self, group: AnyGroup, draft: Draft, may_take_long: MayTakeLong = _at_once
    ) -> Rebalance | ConsumerPlan | SharePlan:
        if isinstance(group, ClassicGroup):
            return self._rebalance(group, draft, may_take_long)
        if isinstance(group, ShareGroup):
            return SharePlan(group, draft)
        return ConsumerPlan(group, draft)

    def _rebalance(
        self, group: ClassicGroup, draft: Draft, may_take_long: MayTakeLong = _at_once
    ) -> Rebalance:
        return Rebalance(group, draft, self._config, self._timers.deadline, may_take_long)

    def adopt(
        self,
        decision: Decision[AnswerT],
        first_offset: int = NO_OFFSET,
        *,
        producer_id: int | None = None,
    ) -> None:
        """Applies a decision; its records begin at `first_offset`.

        If the decision contains a group, the plan has already replayed the group's records into it.
        """
        group = decision.group
        assert group is None or isinstance(group, AnyGroup)
        for offset, record in enumerate(decision.records, first_offset):
            if group is None or isinstance(record.key, OffsetCommitKey):
                self.replay(record.key, record.value, offset, producer_id=producer_id)
        if group is not None:
            self._replace(group)
        for key, deadline_ms in large_in_turns(decision.deadlines.items()):
            if deadline_ms is None:
                self._timers.cancel(key)
            else:
                self._timers.set(key, deadline_ms)

    def _replace(self, group: AnyGroup) -> None:
        known = self.groups.get(group.group_id)
        if known is not None and (group.is_vacant or type(group) is not type(known)):
            self._remove(known)
        if not group.is_vacant:
            self.groups[group.group_id] = group
        stored = known.stored if isinstance(known, ClassicGroup) else None
        if stored is not None and stored is not getattr(group, "stored", None):
            freed_in_turns(stored.members)

    def _remove(self, group: AnyGroup) -> None:
        for key in group.timer_keys():
            self._timers.cancel(key)
        if isinstance(group, ClassicGroup):
            group.transition_to(GroupState.DEAD)
        del self.groups[group.group_id]

    def refused(
        self, decision: Decision[AnswerT], code: ErrorCode, at: Timestamps
    ) -> Decision[AnswerT]:
        """Returns the decision to use if the records of `decision` could not be appended.

        A classic generation whose record cannot be written is given up, and its members rejoin.
        """
        draft = Draft(decision.key, at)
        for reply in large_in_turns(decision.replies):
            draft.reply(reply.pending_id, reply.answer.refused(code))
        for key in large_in_turns(decision.deadlines):
            deadline_ms = self._timers.deadline(key)
            if deadline_ms is not None and deadline_ms <= at.monotonic_ms:
                draft.deadlines[key] = at.monotonic_ms + RETRY_MS
        group = self.groups.get(decision.key)
        known = waiting(group) if isinstance(group, ClassicGroup) else {}
        if isinstance(decision.group, ClassicGroup):
            for pending_id, blank in large_in_turns(waiting(decision.group).items()):
                if pending_id not in known:
                    draft.reply(pending_id, blank.refused(code))
        answer = None if decision.answer is None else decision.answer.refused(code)
        if not isinstance(group, ClassicGroup):
            return draft.decide(answer)
        plan = self._rebalance(group, draft)
        plan.give_up(draft.replies.keys())
        assert not draft.records
        return plan.decide(answer)

    def _find(self, group_id: str, *, its_deletion: bool = False) -> AnyGroup | None:
        """Returns the group, `None` if there is none; raises `ApiError` if its state is not
        available.

        Creating such a group would lose its committed offsets. Clients look up the coordinator
        again until there is one. Kafka's counterpart: a `CoordinatorContext` that failed to load.
        """
        if code := self.refusal(group_id):
            raise ApiError(code)
        if group_id in self.being_deleted and not its_deletion:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.groups.get(group_id)

    # Members of classic groups

    def join(
        self,
        request: JoinRequest,
        pending_id: Hashable,
        at: Timestamps,
        may_take_long: MayTakeLong = _at_once,
    ) -> Decision[JoinAnswer]:
        """Handles JoinGroup; the response may wait until all members have joined."""
        draft = Draft(request.group_id, at)
        try:
            self._check_session(request)
            plan = self._rebalance(self._group_to_join(request, draft), draft, may_take_long)
            return plan.decide(plan.join(request, pending_id, self._new_id))
        except ApiError as error:
            answer = JoinAnswer(error=error.code, member_id=request.member_id)
            return Draft(request.group_id, at).decide(answer)

    def _check_session(self, request: JoinRequest) -> None:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        low = self._config.group_min_session_timeout_ms
        high = self._config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def _group_to_join(self, request: JoinRequest, draft: Draft) -> ClassicGroup:
        group = self._find(request.group_id)
        if isinstance(group, ClassicGroup):
            return group
        if isinstance(group, ShareGroup) or (group is not None and not group.is_empty):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id != UNKNOWN_MEMBER:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if group is not None:
            write_tombstones(group, draft)
        return ClassicGroup(request.group_id)

    def sync(
        self,
        request: SyncRequest,
        pending_id: Hashable,
        at: Timestamps,
        may_take_long: MayTakeLong = _at_once,
    ) -> Decision[SyncAnswer]:
        """Handles SyncGroup; the response may wait for the leader's assignment."""
        draft = Draft(request.claim.group_id, at)
        try:
            group = self._classic_group(request.claim.group_id)
            plan = self._rebalance(group, draft, may_take_long)
            return plan.decide(plan.sync(request, pending_id))
        except ApiError as error:
            return draft.decide(SyncAnswer(error=error.code))

    def heartbeat(self, claim: MemberClaim, at: Timestamps) -> Decision[Acknowledgement]:
        draft = Draft(claim.group_id, at)
        try:
            plan = self._rebalance(self._classic_group(claim.group_id), draft)
            return plan.decide(plan.heartbeat(claim))
        except ApiError as error:
            return draft.decide(Acknowledgement(error=error.code))

    def leave(
        self,
        group_id: str,
        leaving: Sequence[Leaving],
        at: Timestamps,
        may_take_long: MayTakeLong = _at_once,
    ) -> Decision[LeaveAnswer]:
        """Handles LeaveGroup; only in a classic group a member is known to this request."""
        draft = Draft(group_id, at)
        if isinstance(self.groups.get(group_id), ConsumerGroup | ShareGroup):
            errors = (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leaving)
            return draft.decide(LeaveAnswer(errors=errors))
        try:
            plan = self._rebalance(self._classic_group(group_id), draft, may_take_long)
            return plan.decide(LeaveAnswer(errors=tuple(plan.leave(leaving))))
        except ApiError as error:
            return draft.decide(LeaveAnswer(error=error.code))

    def _classic_group(self, group_id: str) -> ClassicGroup:
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = self._find(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # Members of consumer groups

    def consumer_heartbeat(
        self, request: HeartbeatRequest, at: Timestamps
    ) -> Decision[HeartbeatAnswer]:
        """Handles ConsumerGroupHeartbeat: a member joins, stays or leaves."""
        draft = Draft(request.group_id, at)
        try:
            check_heartbeat(request, self._config.group_consumer_assignors)
            plan = ConsumerPlan(self._consumer_group(request, draft), draft)
            if is_leaving(request):
                return plan.decide(self._membership.leave(plan, request))
            return plan.decide(self._heartbeats.heartbeat(plan, request))
        except ApiError as error:
            answer = HeartbeatAnswer(error=error.code, message=error.message)
            return Draft(request.group_id, at).decide(answer)

    def _consumer_group(self, request: HeartbeatRequest, draft: Draft) -> ConsumerGroup:
        group = self._find(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.epoch != JOIN_EPOCH or isinstance(group, ShareGroup):
            text = (
                f"Consumer group {request.group_id} not found."
                if group is None
                else f"Group {request.group_id} is not a consumer group."
            )
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        if group is not None and not group.is_empty:
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade classic group {group.group_id} to consumer group because online "
                "upgrade is disabled.",
            )
        if group is not None:
            draft.record(GroupMetadataKey(group=group.group_id), None)
        return ConsumerGroup(request.group_id)

    # Offsets

    def commit(self, request: CommitRequest, at: Timestamps) -> Decision[PartitionErrors]:
        group_id = request.claim.group_id
        draft = Draft(group_id, at)
        try:
            errors = self._commits.commit(self._find(group_id), request, draft)
        except ApiError as error:
            errors = dict.fromkeys(request.offsets, error.code)
        return draft.decide(
            PartitionErrors(partitions=errors),
            producer=request.producer,
            too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        )

    def fetch_offsets(
        self, claim: MemberClaim, wanted: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, FetchedOffset]:
        """The committed offsets of the wanted partitions, or of all partitions if `None`.

        Raises `ApiError` for a client that is not a current member of a consumer group, and for a
        group that is not available here.
        """
        group = self._find(claim.group_id)
        if group is not None:
            group.check_fetch(claim)
        return self.offsets.fetch(claim.group_id, wanted)

    def delete_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition], at: Timestamps
    ) -> Decision[PartitionErrors]:
        draft = Draft(group_id, at)
        try:
            errors = self._commits.delete(self._find(group_id), group_id, wanted, draft)
        except ApiError as error:
            return draft.decide(PartitionErrors(error=error.code))
        return draft.decide(PartitionErrors(partitions=errors))

    def forget_topics(
        self, topics: Iterable[str], now: Callable[[], Timestamps]
    ) -> Iterator[Decision[Answer] | None]:
        """Deletes all committed offsets of deleted topics, in short steps; share groups forget the
        topics.

        Each decision must be adopted before the next step; `None` is a step without one.
        """
        gone = frozenset(topics)
        for number, group_id in enumerate(list(self.offsets.group_ids()), 1):
            for part in parts_of(self.offsets.places(group_id)):
                places = [one for one in part if one.topic in gone]
                if places:
                    draft = Draft(group_id, now())
                    self._commits.forget(group_id, places, draft)
                    yield draft.decide()
                elif len(part) == PART_SIZE:
                    yield None
            if not number % PART_SIZE:
                yield None
        yield from self.shares.forget_topics(list(self.groups.values()), now)

    # Groups

    def describe(self, group_id: str) -> GroupDescription | None:
        """Describes a classic group; `None` if there is none with this id."""
        group = self.groups.get(group_id)
        if group is None and group_id in self.offsets:
            group = ClassicGroup(group_id)
        return group.describe() if isinstance(group, ClassicGroup) else None

    def describe_consumer(self, group_id: str) -> ConsumerGroupDescription | None:
        """Describes a consumer group; `None` if there is none with this id."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return None
        return group.describe(self._config.group_consumer_assignors)

    def list_groups(self) -> list[GroupListing]:
        """Lists all groups, including those that only have committed offsets."""
        return [
            (self.groups.get(group_id) or ClassicGroup(group_id)).listing()
            for group_id in in_turns(self._group_ids())
        ]

    def _group_ids(self) -> list[str]:
        others = (one for one in self.offsets.group_ids() if one not in self.groups)
        return [*self.groups, *others]

    def delete_group(self, group_id: str, at: Timestamps) -> Decision[Acknowledgement]:
        """Deletes a group without members; if it has many offsets, only a part of them.

        The caller repeats the call until the group is not in `offsets`. Until then it has the group
        in `being_deleted`, so that nobody joins or commits meanwhile.
        """
        draft = Draft(group_id, at)
        try:
            group = self._find(group_id, its_deletion=True)
            is_deleted = self._commits.delete_group(group, group_id, draft)
        except ApiError as error:
            return draft.decide(Acknowledgement(error=error.code))
        vacant = None if group is None or not is_deleted else type(group)(group_id)
        return draft.decide(Acknowledgement(), vacant)

    # Time

    def first_due(self, at: Timestamps) -> TimerKey | None:
        """The deadline that has expired first; call until there is none, at once or later."""
        key = self._timers.first_due(at.monotonic_ms)
        assert key is None or isinstance(key, TimerKey)
        return key

    def advance(self, at: Timestamps) -> Decision[Answer] | None:
        """Handles one expired deadline; call until it returns `None`."""
        while (key := self.first_due(at)) is not None:
            decision = self.come_due(key, at)
            if decision is not None:
                return decision
        return None

    def come_due(
        self, key: TimerKey, at: Timestamps, may_take_long: MayTakeLong = _at_once
    ) -> Decision[Answer] | None:
        """Handles an expired deadline.

        The decision, if there is any, must be adopted before the next one can be made.
        """
        deadline_ms = self._timers.deadline(key)
        if deadline_ms is None or deadline_ms > at.monotonic_ms:
            return None
        if key.due is Due.EXPIRY:
            return self._expire_some(key, at)
        draft = Draft(key.group_id, at)
        draft.deadlines[key] = None
        group = self.groups.get(key.group_id)
        if group is None:
            return draft.decide()
        plan = self._plan(group, draft, may_take_long)
        if isinstance(plan, Rebalance):
            plan.come_due(key)
        elif isinstance(plan, SharePlan):
            self.shares.heartbeats.come_due(plan, key.member_id)
        else:
            self._membership.come_due(plan, key)
        return plan.decide()

    def _expire_some(self, key: TimerKey, at: Timestamps) -> Decision[Answer] | None:
        self._now = at
        if self._expiring is None:
            self._expiring = self._expire_in_steps()
        for decision in self._expiring:
            self._timers.set(key, at.monotonic_ms)  # stays due, but after all others
            return decision
        self._expiring = None
        self._set_expiry_timer(at)
        return None

    def _expire_in_steps(self) -> Iterator[Decision[Answer]]:
        for group_id in self._group_ids():
            if group_id in self.being_changed:
                continue
            places = list(self.offsets.of(group_id))
            # A group may have neither offsets nor members, and expires too.
            for part in parts_of(places) if places else ([],):
                draft = Draft(group_id, self._now)
                self._commits.expire(self.groups.get(group_id), group_id, part, draft)
                yield draft.decide()

    def _set_expiry_timer(self, at: Timestamps) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._timers.set(TimerKey(Due.EXPIRY), at.monotonic_ms + interval_ms)
