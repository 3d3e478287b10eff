"""ShareGroupHeartbeat: members come, share partitions, and go.

Kafka's counterparts: `GroupMetadataManager.shareGroupHeartbeat`, `shareGroupLeave`,
`maybeCreateInitializeShareGroupStateRequest`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.config.group import GroupConfig
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.catalog import CatalogTopic, GroupConfigLookup, TopicCatalog
from ottla.coordinator.consumer.assignors import Subscriber
from ottla.coordinator.consumer.member import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.consumer.partitions import NOTHING
from ottla.coordinator.deadlines import Due
from ottla.coordinator.events import MemberJoined, MemberLeft, RebalanceBegan
from ottla.coordinator.share.assignor import assign_simple
from ottla.coordinator.share.group import ShareGroup, ShareMember
from ottla.coordinator.share.plan import SharePlan
from ottla.coordinator.share.requests import (
    PartitionToInitialize,
    ShareHeartbeatAnswer,
    ShareHeartbeatRequest,
)
from ottla.coordinator.share.states import begin_states

LONGEST_MEMBER_ID: Final = 36
SOON_MS: Final = 500
"""When a member comes again that is to have partitions shortly: Kafka lets it wait for a whole
interval, which is five seconds.
"""


class ShareHeartbeats:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        catalog: TopicCatalog,
        group_configs: GroupConfigLookup,
    ) -> None:
        self._config = config
        self._catalog = catalog
        self._settings = group_configs

    def heartbeat(self, plan: SharePlan, request: ShareHeartbeatRequest) -> ShareHeartbeatAnswer:
        """Handles a heartbeat; if it raises `ApiError`, the caller must discard the plan."""
        settings = self._settings(plan.group.group_id)
        before = self._find(plan, request)
        self._describe(plan, before, request)
        to_initialize = self._follow_topics(plan, before)
        self._make_target(plan, settings)
        after = self._move(plan, plan.group.members[request.member_id])
        plan.set_timer(Due.SESSION, settings.share_session_timeout_ms, after.member_id)
        has_moved = after.assigned != before.assigned
        return ShareHeartbeatAnswer(
            member_id=after.member_id,
            epoch=after.epoch,
            heartbeat_interval_ms=_interval_ms(plan.group, settings),
            assigned=after.assigned if request.is_full or has_moved else None,
            to_initialize=to_initialize,
            state_epoch=plan.group.epoch,
        )

    def leave(self, plan: SharePlan, request: ShareHeartbeatRequest) -> ShareHeartbeatAnswer:
        """Handles a leaving member; raises `ApiError`."""
        self._remove(plan, plan.group.member(request.member_id), "it leaves")
        return ShareHeartbeatAnswer(member_id=request.member_id, epoch=request.epoch)

    def come_due(self, plan: SharePlan, member_id: str) -> None:
        """Removes the member whose session has expired."""
        member = plan.group.members.get(member_id)
        if member is not None:
            self._remove(plan, member, Due.SESSION.value)

    def watch(self, plan: SharePlan) -> None:
        """Sets the deadlines of all members after a start."""
        timeout_ms = self._settings(plan.group.group_id).share_session_timeout_ms
        for member_id in plan.group.members:
            plan.set_timer(Due.SESSION, timeout_ms, member_id)

    def _remove(self, plan: SharePlan, member: ShareMember, reason: str) -> None:
        group_id = plan.group.group_id
        plan.draft.events.append(MemberLeft(group=group_id, member=member.member_id, reason=reason))
        plan.remove_member(member.member_id)
        plan.cancel_timer(Due.SESSION, member.member_id)
        plan.raise_epoch(_hash_of(self._subscribed(plan.group)))

    # The member

    def _find(self, plan: SharePlan, request: ShareHeartbeatRequest) -> ShareMember:
        """The member before this heartbeat; a new `ShareMember` if it joins."""
        group = plan.group
        member = group.members.get(request.member_id)
        if member is None and request.epoch == JOIN_EPOCH:
            most = self._config.group_share_max_size
            if len(group.members) >= most:
                raise ApiError(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"The share group has reached its maximum capacity of {most} members.",
                )
            plan.draft.events.append(MemberJoined(group=group.group_id, member=request.member_id))
            return ShareMember(member_id=request.member_id)
        member = group.member(request.member_id)
        if request.epoch not in (JOIN_EPOCH, member.epoch, member.previous_epoch):
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The share group member has the epoch {request.epoch}, and the group coordinator "
                f"knows {member.epoch}. The member must abandon all its partitions and rejoin.",
            )
        return member

    def _describe(
        self, plan: SharePlan, before: ShareMember, request: ShareHeartbeatRequest
    ) -> None:
        """Records changes of a member's metadata."""
        names = request.topic_names
        member = replace(
            before,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            topic_names=before.topic_names if names is None else names,
            client_id=request.client_id,
            client_host=request.client_host,
        )
        if member != before or member.member_id not in plan.group.members:
            plan.describe_member(member)

    # Its topics

    def _subscribed(self, group: ShareGroup) -> list[CatalogTopic]:
        found = map(self._catalog.find, sorted(group.subscribed_topics()))
        return [one for one in found if one is not None]

    def _follow_topics(
        self, plan: SharePlan, before: ShareMember
    ) -> Sequence[PartitionToInitialize]:
        """Raises the group epoch if the subscribed topics or the members changed; returns the
        partitions whose state must begin before they can be assigned.
        """
        group = plan.group
        after = group.members[before.member_id]
        has_changed = group.epoch == 0 or after.topic_names != before.topic_names
        is_late = self._is_late(plan)
        if not has_changed and not is_late and group.revision == self._catalog.revision:
            return ()
        topics = self._subscribed(group)
        plan.look(self._catalog.revision)
        metadata_hash = _hash_of(topics)
        if has_changed or metadata_hash != group.metadata_hash:
            plan.raise_epoch(metadata_hash)
            plan.draft.events.append(
                RebalanceBegan(
                    group=group.group_id,
                    generation=plan.group.epoch,
                    member_count=len(plan.group.members),
                    reason="its members or the topics that they read have changed",
                )
            )
        return begin_states(plan, topics, self._catalog, asks_again=is_late)

    def _is_late(self, plan: SharePlan) -> bool:
        """Whether share coordinators have not begun what they were asked to."""
        asked_ms = plan.group.asked_ms
        if not plan.group.initializing:
            return False
        interval_ms = self._config.group_share_initialize_retry_interval_ms
        return asked_ms is None or plan.draft.at.monotonic_ms - asked_ms >= interval_ms

    # Assignments

    def _make_target(self, plan: SharePlan, settings: GroupConfig) -> None:
        """Computes the target assignment of the group epoch, not too often; writes only targets
        that changed.
        """
        group = plan.group
        since_ms = plan.draft.at.now_ms - group.assignment_ms
        is_soon = (
            0 <= since_ms < settings.share_assignment_interval_ms and group.assignment_epoch > 0
        )
        if group.epoch <= group.assignment_epoch or is_soon:
            return
        ids = {topic.name: topic_id for topic_id, topic in group.initialized.items()}
        subscribers = {
            member.member_id: Subscriber(
                topics=frozenset(ids[name] for name in member.topic_names if name in ids),
                target=group.target_of(member.member_id),
            )
            for member in group.members.values()
        }
        partitions = {topic_id: topic.partitions for topic_id, topic in group.initialized.items()}
        for member_id, target in assign_simple(subscribers, partitions).items():
            if group.targets.get(member_id, NOTHING) != target:
                plan.set_target(member_id, target)
        # The members' first partitions come as soon as they can be assigned.
        plan.set_assignment_epoch(group.epoch, plan.draft.at.now_ms if partitions else 0)

    def _move(self, plan: SharePlan, member: ShareMember) -> ShareMember:
        """The member takes its target at once."""
        epoch, target = plan.group.assignment_epoch, plan.group.target_of(member.member_id)
        if (member.epoch, member.assigned) == (epoch, target):
            return member
        after = replace(member, epoch=epoch, previous_epoch=member.epoch, assigned=target)
        plan.move_member(after)
        return after


def _interval_ms(group: ShareGroup, settings: GroupConfig) -> int:
    interval_ms = settings.share_heartbeat_interval_ms
    is_soon = bool(group.initializing) or group.epoch > group.assignment_epoch
    return min(interval_ms, SOON_MS) if is_soon else interval_ms


def check_share_heartbeat(request: ShareHeartbeatRequest) -> None:
    """Raises `ApiError(INVALID_REQUEST)`."""
    problem = _problem_of(request)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def _problem_of(request: ShareHeartbeatRequest) -> str | None:
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if not request.member_id.strip():
        return "MemberId can't be empty."
    if len(request.member_id) > LONGEST_MEMBER_ID:
        return f"MemberId has {len(request.member_id)} characters; {LONGEST_MEMBER_ID} may be."
    if request.rack_id == "":
        return "RackId can't be empty."
    if request.epoch < LEAVE_EPOCH:
        return f"MemberEpoch {request.epoch} is invalid."
    if request.epoch == JOIN_EPOCH and not request.topic_names:
        return "SubscribedTopicNames must be set in first request."
    return None


def _hash_of(topics: Iterable[CatalogTopic]) -> int:
    """A hash that differs when the topics or their numbers of partitions do."""
    digest = blake2b(digest_size=8)
    for topic in topics:
        digest.update(topic.topic_id)
        digest.update(f"{topic.partition_count}:{len(topic.name)}:{topic.name}".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
