"""Members that leave, on request or because a deadline expired.

Kafka's counterparts: `GroupMetadataManager.consumerGroupLeave`, `consumerGroupFenceMember` and the
timers there.
"""

from dataclasses import replace

from ottla.coordinator.catalog import GroupConfigLookup, TopicCatalog
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import LEAVE_STATIC_EPOCH, Member, MemberState
from ottla.coordinator.consumer.partitions import NOTHING
from ottla.coordinator.consumer.plan import ConsumerPlan
from ottla.coordinator.consumer.requests import (
    HeartbeatAnswer,
    HeartbeatRequest,
)
from ottla.coordinator.consumer.subscriptions import refresh
from ottla.coordinator.consumer.validation import check_instance
from ottla.coordinator.deadlines import Due, TimerKey
from ottla.coordinator.events import MemberLeft


class Sessions:
    """The session and revocation deadlines of members, from the group's settings."""

    def __init__(self, configs: GroupConfigLookup) -> None:
        self._configs = configs

    def heartbeat_interval_ms(self, group: ConsumerGroup) -> int:
        """The interval at which members must send heartbeats."""
        return self._configs(group.group_id).consumer_heartbeat_interval_ms

    def extend(self, plan: ConsumerPlan, member: Member) -> None:
        timeout_ms = self._configs(plan.group.group_id).consumer_session_timeout_ms
        plan.set_timer(Due.SESSION, timeout_ms, member.member_id)

    def watch_revocation(self, plan: ConsumerPlan, member: Member) -> None:
        """Sets the revocation deadline to the member's rebalance timeout while it must revoke."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            plan.set_timer(Due.REVOCATION, member.rebalance_timeout_ms, member.member_id)
        else:
            plan.cancel_timer(Due.REVOCATION, member.member_id)

    def drop(self, plan: ConsumerPlan, member_id: str) -> None:
        for due in (Due.SESSION, Due.REVOCATION):
            plan.cancel_timer(due, member_id)

    def watch(self, plan: ConsumerPlan) -> None:
        """Sets the deadlines of all members after a start."""
        for member in plan.group.members.values():
            self.extend(plan, member)
            self.watch_revocation(plan, member)


class Membership:
    def __init__(self, catalog: TopicCatalog, sessions: Sessions) -> None:
        self._catalog = catalog
        self._sessions = sessions

    def leave(self, plan: ConsumerPlan, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Handles a leaving member; a static member that will return keeps its assignment.

        Raises `ApiError`.
        """
        group = plan.group
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = check_instance(group.static_member(request.instance_id), request)
        if request.epoch == LEAVE_STATIC_EPOCH:
            plan.move_member(replace(member, epoch=LEAVE_STATIC_EPOCH, pending_revocation=NOTHING))
        else:
            self._remove(plan, member, "it leaves")
        return HeartbeatAnswer(member_id=request.member_id, epoch=request.epoch)

    def come_due(self, plan: ConsumerPlan, key: TimerKey) -> None:
        """Removes the member whose deadline expired."""
        member = plan.group.members.get(key.member_id)
        if member is None:
            return
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if key.due is Due.REVOCATION and not is_revoking:
            return
        self._remove(plan, member, key.due.value)

    def _remove(self, plan: ConsumerPlan, member: Member, reason: str) -> None:
        group_id = plan.group.group_id
        plan.draft.events.append(MemberLeft(group=group_id, member=member.member_id, reason=reason))
        plan.remove_member(member.member_id)
        self._sessions.drop(plan, member.member_id)
        refresh(plan, self._catalog)
        plan.look(self._catalog.revision)
        plan.raise_epoch()
