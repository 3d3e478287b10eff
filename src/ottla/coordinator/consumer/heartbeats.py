"""ConsumerGroupHeartbeat: updates the member and the target assignment, then reconciles the member.

Kafka's counterpart: `GroupMetadataManager.consumerGroupHeartbeat`.
"""

from collections.abc import Callable
from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid, uuid_text
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.catalog import TopicCatalog
from ottla.coordinator.consumer.assignors import ASSIGNORS, Subscriber
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import JOIN_EPOCH, LEAVE_STATIC_EPOCH, Member
from ottla.coordinator.consumer.membership import Sessions
from ottla.coordinator.consumer.plan import ConsumerPlan
from ottla.coordinator.consumer.reconciliation import reconcile
from ottla.coordinator.consumer.requests import (
    HeartbeatAnswer,
    HeartbeatRequest,
    VisibleTopics,
)
from ottla.coordinator.consumer.subscriptions import compile_regex, refresh, resolve
from ottla.coordinator.consumer.validation import (
    check_epoch,
    check_instance,
    check_released,
)
from ottla.coordinator.events import MemberJoined, RebalanceBegan


class Heartbeats:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        catalog: TopicCatalog,
        sessions: Sessions,
        new_id: Callable[[], Uuid],
    ) -> None:
        self._config = config
        self._catalog = catalog
        self._sessions = sessions
        self._new_id = new_id

    def heartbeat(self, plan: ConsumerPlan, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Handles a heartbeat; if it raises `ApiError`, the caller must discard the plan."""
        self._check_room(plan.group, request.member_id)
        if not request.member_id:
            request = replace(request, member_id=uuid_text(self._new_id()))
        before = self._find(plan, request)
        member = self._describe(plan, before, request)
        self._follow_topics(plan, before, member, request.visible)
        if plan.group.epoch > plan.group.assignment_epoch:
            make_target(plan, self._config.group_consumer_assignors)
        after = self._move(plan, plan.group.members[request.member_id], request)
        self._sessions.extend(plan, after)
        has_moved = after.assigned != before.assigned
        return HeartbeatAnswer(
            member_id=after.member_id,
            epoch=after.epoch,
            heartbeat_interval_ms=self._sessions.heartbeat_interval_ms(plan.group),
            assigned=after.assigned if request.is_full or has_moved else None,
        )

    def _check_room(self, group: ConsumerGroup, member_id: str) -> None:
        most = self._config.group_consumer_max_size
        if len(group.members) >= most and member_id not in group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    # The member

    def _find(self, plan: ConsumerPlan, request: HeartbeatRequest) -> Member:
        """The member before this heartbeat; a new `Member` if it joins."""
        if request.instance_id is not None:
            return self._find_static(plan, request, request.instance_id)
        member = plan.group.members.get(request.member_id)
        if member is None and request.epoch == JOIN_EPOCH:
            _report_join(plan, request.member_id)
            return Member(member_id=request.member_id)
        member = plan.group.member(request.member_id)
        check_epoch(member, request)
        return member

    def _find_static(
        self, plan: ConsumerPlan, request: HeartbeatRequest, instance_id: str
    ) -> Member:
        """Finds a static member by its instance id.

        Different from Kafka: a member that was fenced or missed its first response may join again.
        Kafka rejects it until its own session has expired.
        """
        member = plan.group.static_member(instance_id)
        if request.epoch != JOIN_EPOCH:
            member = check_instance(member, request)
            check_epoch(member, request)
            return member
        if member is None:
            return plan.group.members.get(request.member_id) or Member(member_id=request.member_id)
        if member.member_id == request.member_id and member.epoch != LEAVE_STATIC_EPOCH:
            return member
        check_released(member, request)
        return self._replace(plan, member, request.member_id)

    def _replace(self, plan: ConsumerPlan, old: Member, member_id: str) -> Member:
        """A static member returned under a new id and keeps its current and target assignments."""
        target = plan.group.target_of(old.member_id)
        new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        plan.remove_member(old.member_id)
        plan.describe_member(new)
        plan.set_target(member_id, target)
        plan.move_member(new)
        self._sessions.drop(plan, old.member_id)
        return new

    # Its subscription

    def _describe(self, plan: ConsumerPlan, before: Member, request: HeartbeatRequest) -> Member:
        """Records changes of a member's metadata."""
        member = _with_news(before, request)
        if member.topic_regex and member.topic_regex != before.topic_regex:
            compile_regex(member.topic_regex)
        if member != before or member.member_id not in plan.group.members:
            plan.describe_member(member)
        return member

    def _follow_topics(
        self, plan: ConsumerPlan, before: Member, member: Member, visible: VisibleTopics
    ) -> None:
        """Raises the group epoch if the subscribed topics or the members changed."""
        group = plan.group
        reads_other = (member.topic_names, member.topic_regex or "") != (
            before.topic_names,
            before.topic_regex or "",
        )
        has_changed = group.epoch == 0 or reads_other
        has_changed |= resolve(plan, member.topic_regex, self._catalog, visible)
        group = plan.group
        if has_changed or group.revision != self._catalog.revision:
            has_changed |= refresh(plan, self._catalog)
            plan.look(self._catalog.revision)
        if has_changed:
            plan.raise_epoch()
            plan.draft.events.append(
                RebalanceBegan(
                    group=group.group_id,
                    generation=plan.group.epoch,
                    member_count=len(plan.group.members),
                    reason="its members or the topics that they read have changed",
                )
            )

    # Its assignment

    def _move(self, plan: ConsumerPlan, member: Member, request: HeartbeatRequest) -> Member:
        group = plan.group
        after = reconcile(
            member,
            group.target_of(member.member_id),
            group.assignment_epoch,
            owned=request.owned,
            is_free=lambda one: group.is_free_for(member.member_id, one),
        )
        if after != member:
            plan.move_member(after)
            self._sessions.watch_revocation(plan, after)
        return after


def _with_news(member: Member, request: HeartbeatRequest) -> Member:
    timeout_ms = request.rebalance_timeout_ms
    names, regex = request.topic_names, request.topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        topic_names=member.topic_names if names is None else names,
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=request.client_id,
        client_host=request.client_host,
    )


def make_target(plan: ConsumerPlan, assignors: tuple[str, ...]) -> None:
    """Computes the target assignment of the group epoch; writes only targets that changed."""
    group = plan.group
    subscribers = {
        member.member_id: Subscriber(
            instance_id=member.instance_id,
            topics=frozenset(
                group.topics[name].topic_id
                for name in group.topics_of(member)
                if name in group.topics
            ),
            target=group.target_of(member.member_id),
        )
        for member in group.members.values()
    }
    counts = {one.topic_id: one.num_partitions for one in group.topics.values()}
    targets = ASSIGNORS[group.assignor(assignors)](subscribers, counts)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            plan.set_target(member_id, target)
    plan.set_assignment_epoch(group.epoch)


def _report_join(plan: ConsumerPlan, member_id: str) -> None:
    plan.draft.events.append(MemberJoined(group=plan.group.group_id, member=member_id))
