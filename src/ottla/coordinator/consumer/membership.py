"""Who goes, by their own word or because nothing was heard of them in time.

Kafka's counterparts: `GroupMetadataManager.consumerGroupLeave`, `consumerGroupFenceMember` and the
timers there.
"""

import logging
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import LEAVE_STATIC_EPOCH, Member, MemberState
from ottla.coordinator.consumer.partitions import NOTHING
from ottla.coordinator.consumer.plan import Plan
from ottla.coordinator.consumer.requests import (
    GroupConfigLookup,
    HeartbeatAnswer,
    HeartbeatRequest,
    TopicCatalog,
)
from ottla.coordinator.consumer.subscriptions import refresh
from ottla.coordinator.consumer.validation import check_instance
from ottla.coordinator.timers import Timers

logger = logging.getLogger(__name__)


class Due(Enum):
    """What a deadline is for."""

    SESSION = "a member's next heartbeat"
    REVOCATION = "a member's giving up of partitions"
    EXPIRY = "looking for expired offsets"


class TimerKey(NamedTuple):
    due: Due
    group_id: str = ""
    member_id: str = ""


class Sessions:
    """The deadlines of members."""

    def __init__(self, configs: GroupConfigLookup, timers: Timers[TimerKey]) -> None:
        self._configs = configs
        self._timers = timers

    def heartbeat_interval_ms(self, group: ConsumerGroup) -> int:
        """How often members are to extend their session."""
        return self._configs(group.group_id).consumer_heartbeat_interval_ms

    def extend(self, group: ConsumerGroup, member: Member, monotonic_ms: float) -> None:
        key = TimerKey(Due.SESSION, group.group_id, member.member_id)
        timeout_ms = self._configs(group.group_id).consumer_session_timeout_ms
        self._timers.set(key, monotonic_ms + timeout_ms)

    def watch_revocation(self, group: ConsumerGroup, member: Member, monotonic_ms: float) -> None:
        """A member that is to give up partitions has its rebalance timeout for that."""
        key = TimerKey(Due.REVOCATION, group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._timers.set(key, monotonic_ms + member.rebalance_timeout_ms)
        else:
            self._timers.cancel(key)

    def drop(self, group: ConsumerGroup, member_id: str) -> None:
        for due in (Due.SESSION, Due.REVOCATION):
            self._timers.cancel(TimerKey(due, group.group_id, member_id))

    def watch(self, group: ConsumerGroup, monotonic_ms: float) -> None:
        """Sets the deadlines that are missing, after a start or when nothing could be written."""
        for member in group.members.values():
            if TimerKey(Due.SESSION, group.group_id, member.member_id) not in self._timers:
                self.extend(group, member, monotonic_ms)
            if TimerKey(Due.REVOCATION, group.group_id, member.member_id) not in self._timers:
                self.watch_revocation(group, member, monotonic_ms)


class Membership:
    def __init__(self, catalog: TopicCatalog, sessions: Sessions) -> None:
        self._catalog = catalog
        self._sessions = sessions

    def leave(self, plan: Plan, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Raises `ApiError`. A static member may say that it will be back, and keeps its part."""
        group = plan.group
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = check_instance(group.static_member(request.instance_id), request)
        if request.epoch == LEAVE_STATIC_EPOCH:
            logger.info("group %s: %s will be back", group.group_id, member.instance_id)
            plan.move_member(replace(member, epoch=LEAVE_STATIC_EPOCH, pending_revocation=NOTHING))
        else:
            logger.info("group %s: %s leaves", group.group_id, member.member_id)
            self._remove(plan, member)
        return HeartbeatAnswer(member_id=request.member_id, epoch=request.epoch)

    def end(self, plan: Plan, member_id: str, due: Due) -> None:
        """A deadline has come."""
        member = plan.group.members.get(member_id)
        if member is None:
            return
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if due is Due.REVOCATION and not is_revoking:
            return
        logger.info("group %s: %s is out: %s", plan.group.group_id, member_id, due.value)
        self._remove(plan, member)

    def _remove(self, plan: Plan, member: Member) -> None:
        plan.remove_member(member.member_id)
        self._sessions.drop(plan.group, member.member_id)
        refresh(plan, self._catalog)
        plan.group.look.revision = self._catalog.revision
        plan.raise_epoch()
