"""The coordinator of groups of the new protocol: a machine without clock, disk or network.

Its shape is that of the classic machine (`group/machine.py`): operations take values and a moment
and return a `Decision`, whose records whoever runs it appends, hands to `replay`, and then answers.
Members need not wait for each other here, so every answer comes at once.

Kafka's counterparts: `GroupMetadataManager`, `GroupCoordinatorShard`.
"""

from collections import deque
from collections.abc import Callable, Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.moment import Moment
from ottla.codec.schema import Message
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.requests import Acknowledgement, GroupListing, MemberClaim
from ottla.coordinator.consumer.commits import ConsumerCommits
from ottla.coordinator.consumer.describing import describe, listing
from ottla.coordinator.consumer.group import RECORD_KEYS, ConsumerGroup
from ottla.coordinator.consumer.heartbeats import Heartbeats
from ottla.coordinator.consumer.member import JOIN_EPOCH
from ottla.coordinator.consumer.membership import Due, Membership, Sessions, TimerKey
from ottla.coordinator.consumer.plan import Plan
from ottla.coordinator.consumer.requests import (
    ConsumerGroupDescription,
    GroupConfigLookup,
    HeartbeatAnswer,
    HeartbeatRequest,
    TopicCatalog,
)
from ottla.coordinator.consumer.validation import check_heartbeat, is_leaving
from ottla.coordinator.decision import Answer, AnswerT, Decision, Draft
from ottla.coordinator.offsets.commits import CommitRequest, PartitionErrors
from ottla.coordinator.offsets.committed_offsets import CommittedOffsets, TopicPartition
from ottla.coordinator.offsets.records import ConsumerGroupMetadataKey
from ottla.coordinator.timers import Timers


class ConsumerGroupMachine:
    """All groups of the new protocol. `groups` is for looking at."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        offsets: CommittedOffsets,
        catalog: TopicCatalog,
        new_id: Callable[[], Uuid],
        group_configs: GroupConfigLookup,
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._config = config
        self._timers: Timers[TimerKey] = Timers()
        self._sessions = Sessions(group_configs, self._timers)
        self._heartbeats = Heartbeats(config, catalog, self._sessions, new_id)
        self._membership = Membership(catalog, self._sessions)
        self._commits = ConsumerCommits(config, offsets)
        self._to_look_through: deque[str] = deque()

    # Replay

    def replay(self, key: Message, value: Message | None) -> None:
        """Takes in a record of `__consumer_offsets`; kinds of other machines are left alone."""
        if not isinstance(key, RECORD_KEYS):
            return
        group = self.groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self.groups[key.group_id] = ConsumerGroup(key.group_id)
        if isinstance(key, ConsumerGroupMetadataKey) and value is None:
            for member_id in group.members:
                self._sessions.drop(group, member_id)
            del self.groups[key.group_id]
            return
        group.replay(key, value)

    def loaded(self, at: Moment) -> None:
        """Everything is replayed: the members have a session from now on to show up."""
        for group in self.groups.values():
            self._sessions.watch(group, at.monotonic_ms)
        self._set_expiry_timer(at)

    # Members

    def heartbeat(
        self, request: HeartbeatRequest, at: Moment, refusal: str | None = None
    ) -> Decision[HeartbeatAnswer]:
        """Enters, stays in or leaves a group; `refusal` is why there can be none of that id."""
        draft = Draft(request.group_id, at)
        group = self.groups.get(request.group_id)
        try:
            check_heartbeat(request, self._config.group_consumer_assignors)
            if refusal is not None:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, refusal)
            if group is None:
                group = self._new_group(request)
            plan = Plan(group, draft)
            if is_leaving(request):
                return draft.decide(self._membership.leave(plan, request))
            return draft.decide(self._heartbeats.heartbeat(plan, request))
        except ApiError as error:
            if group is not None and draft.records:
                self._undo(group, at)
            answer = HeartbeatAnswer(error=error.code, message=error.message)
            return Draft(request.group_id, at).decide(answer)

    def _new_group(self, request: HeartbeatRequest) -> ConsumerGroup:
        if request.epoch != JOIN_EPOCH:
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found."
            )
        return ConsumerGroup(request.group_id)

    def _undo(self, group: ConsumerGroup, at: Moment) -> None:
        """What was planned for a group does not come: nothing but deadlines has been touched."""
        group.look.revision = None
        if group.group_id in self.groups:
            self._sessions.watch(group, at.monotonic_ms)

    # Offsets

    def commit(self, request: CommitRequest, at: Moment) -> Decision[PartitionErrors]:
        """For a group that is here."""
        group = self.groups[request.claim.group_id]
        draft = Draft(group.group_id, at)
        try:
            errors = self._commits.commit(group, request, draft)
        except ApiError as error:
            errors = dict.fromkeys(request.offsets, error.code)
        return draft.decide(PartitionErrors(partitions=errors))

    def check_fetch(self, claim: MemberClaim) -> None:
        """Raises `ApiError` when a member of a group that is here may not see its offsets."""
        self.groups[claim.group_id].check_fetch(claim)

    def delete_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition], at: Moment
    ) -> Decision[PartitionErrors]:
        """For a group that is here."""
        draft = Draft(group_id, at)
        errors = self._commits.delete(self.groups[group_id], wanted, draft)
        return draft.decide(PartitionErrors(partitions=errors))

    # Groups

    def describe(self, group_id: str) -> ConsumerGroupDescription | None:
        group = self.groups.get(group_id)
        return None if group is None else describe(group, self._config.group_consumer_assignors)

    def list_groups(self) -> list[GroupListing]:
        return [listing(group) for group in self.groups.values()]

    def delete_group(self, group_id: str, at: Moment) -> Decision[Acknowledgement]:
        """For a group that is here."""
        draft = Draft(group_id, at)
        try:
            self._commits.delete_all(self.groups[group_id], draft)
        except ApiError as error:
            return draft.decide(Acknowledgement(error=error.code))
        return draft.decide(Acknowledgement())

    def give_up_group(self, group_id: str, at: Moment) -> Decision[Acknowledgement]:
        """Removes a group that has no members, but not its offsets: the classic one takes over."""
        draft = Draft(group_id, at)
        Plan(self.groups[group_id], draft).remove_group()
        return draft.decide(Acknowledgement())

    # Time

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` will next have something to do, on the monotonic clock."""
        return self._timers.next_deadline_ms

    def advance(self, at: Moment) -> Decision[Answer] | None:
        """What time has brought about in one group; to be called until it returns `None`."""
        if self._to_look_through:
            return self._expire(self._to_look_through.popleft(), at)
        key = self._timers.take_due(at.monotonic_ms)
        if key is None:
            return None
        draft = Draft(key.group_id, at)
        if key.due is Due.EXPIRY:
            self._to_look_through.extend(self.groups)
            self._set_expiry_timer(at)
        elif (group := self.groups.get(key.group_id)) is not None:
            self._membership.end(Plan(group, draft), key.member_id, key.due)
        return draft.decide()

    def _expire(self, group_id: str, at: Moment) -> Decision[Answer]:
        draft = Draft(group_id, at)
        group = self.groups.get(group_id)
        if group is not None:
            self._commits.expire(group, draft)
        return draft.decide()

    def _set_expiry_timer(self, at: Moment) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._timers.set(TimerKey(Due.EXPIRY), at.monotonic_ms + interval_ms)

    # When the log takes no records

    def refused(
        self, decision: Decision[AnswerT], code: ErrorCode, at: Moment
    ) -> Decision[AnswerT]:
        """What to answer in place of a decision whose records could not be appended."""
        group = self.groups.get(decision.key)
        if group is not None:
            self._undo(group, at)
        answer = decision.answer
        return Draft(decision.key, at).decide(None if answer is None else answer.refused(code))
