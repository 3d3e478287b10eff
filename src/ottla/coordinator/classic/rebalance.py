"""A rebalance of a classic group: members join, a generation begins, and time may run out.

Sessions live here too, since a member whose session ends sets off a rebalance. Kafka's counterpart:
the classic half of `GroupMetadataManager`.
"""

import logging
from enum import Enum
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.group import Group, select_protocol
from ottla.coordinator.classic.member import Member
from ottla.coordinator.classic.requests import JoinAnswer, SyncAnswer
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.records import GroupMetadataKey
from ottla.coordinator.timers import Timers

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long the join of a new member may wait. It has no session yet, and a client that has given
up must not haunt the group for ever."""


class Due(Enum):
    """What a deadline is for."""

    SESSION = "a member's session"
    JOIN = "the joining of a group's members"
    SYNC = "their syncing"
    EXPIRY = "looking for expired offsets"


class TimerKey(NamedTuple):
    due: Due
    group_id: str = ""
    member_id: str = ""


GroupTimers = Timers[TimerKey]


class Rebalances:
    """All methods write what follows into a `Draft`, and set timers."""

    def __init__(self, config: GroupCoordinatorConfig, timers: GroupTimers) -> None:
        self._config = config
        self._timers = timers

    # Sessions

    def extend_session(self, group: Group, member: Member, monotonic_ms: float) -> None:
        """A sign of life: the session starts anew."""
        key = TimerKey(Due.SESSION, group.group_id, member.member_id)
        self._timers.set(key, monotonic_ms + member.session_timeout_ms)

    def await_new_member(self, group: Group, member: Member, monotonic_ms: float) -> None:
        key = TimerKey(Due.SESSION, group.group_id, member.member_id)
        self._timers.set(key, monotonic_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)

    def await_pending_member(
        self, group: Group, member_id: str, session_timeout_ms: int, draft: Draft
    ) -> None:
        """Somebody was given a member id, and is to come back with it."""
        group.pending_joins.add(member_id)
        key = TimerKey(Due.SESSION, group.group_id, member_id)
        self._timers.set(key, draft.at.monotonic_ms + session_timeout_ms)

    def end_session(self, group: Group, member_id: str, draft: Draft) -> None:
        """Nothing was heard of a member in time."""
        if member_id in group.pending_joins:
            logger.info("group %s: %s was to join, and did not", group.group_id, member_id)
            self.remove_pending(group, member_id)
            self.complete_if_joined(group, draft)
            return
        member = group.members.get(member_id)
        if member is None or member.is_excused:
            return
        logger.info("group %s: the session of %s is over", group.group_id, member_id)
        self.remove(group, member, draft)
        self.go_on(group, draft, f"the session of {member_id} is over")

    def drop_session(self, group: Group, member_id: str) -> None:
        """Nobody waits for a sign of life any more."""
        self._timers.cancel(TimerKey(Due.SESSION, group.group_id, member_id))

    def remove_pending(self, group: Group, member_id: str) -> None:
        """Somebody does not come back; `complete_if_joined` is to follow."""
        group.pending_joins.discard(member_id)
        self.drop_session(group, member_id)

    def remove(self, group: Group, member: Member, draft: Draft) -> None:
        """Takes a member out, and tells it so should it be waiting; `go_on` is to follow."""
        self.drop_session(group, member.member_id)
        self.dismiss(member, draft, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member)

    def dismiss(self, member: Member, draft: Draft, code: ErrorCode) -> None:
        """Ends the waits of a member in an error."""
        if member.join_ticket is not None:
            draft.reply(member.join_ticket, JoinAnswer(error=code, member_id=member.member_id))
            member.join_ticket = None
        if member.sync_ticket is not None:
            draft.reply(member.sync_ticket, SyncAnswer(error=code))
            member.sync_ticket = None

    # Joining

    def go_on(self, group: Group, draft: Draft, reason: str) -> None:
        """The members have changed: rebalance, or see whether a rebalance can now be completed."""
        if group.state in (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, draft, reason)
        else:
            self.complete_if_joined(group, draft)

    def prepare(self, group: Group, draft: Draft, reason: str) -> None:
        """Calls all members together. Those who wait for an assignment are told to come again."""
        logger.info(
            "group %s: rebalancing generation %d with %d members: %s",
            group.group_id,
            group.generation,
            len(group.members),
            reason,
        )
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._interrupt_syncs(group, draft)
        self._timers.cancel(TimerKey(Due.SYNC, group.group_id))
        is_first = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE)
        if is_first:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            group.initial_wait_ms = group.rebalance_timeout_ms
            group.has_newcomer = False
            self._put_off(group, delay_ms, draft)
        elif group.is_complete:
            self.complete(group, draft)
        else:
            self._set_join_timer(group, group.rebalance_timeout_ms, draft)

    def _interrupt_syncs(self, group: Group, draft: Draft) -> None:
        for member in group.members.values():
            if member.sync_ticket is not None:
                self.dismiss(member, draft, ErrorCode.REBALANCE_IN_PROGRESS)
                self.extend_session(group, member, draft.at.monotonic_ms)

    def _put_off(self, group: Group, delay_ms: int, draft: Draft) -> None:
        """Lets the first members wait for more, but no longer than they are ready to."""
        assert group.initial_wait_ms is not None
        delay_ms = min(delay_ms, group.initial_wait_ms)
        group.initial_wait_ms -= delay_ms
        if delay_ms == 0:
            self.complete(group, draft)
        else:
            self._set_join_timer(group, delay_ms, draft)

    def _set_join_timer(self, group: Group, delay_ms: int, draft: Draft) -> None:
        key = TimerKey(Due.JOIN, group.group_id)
        self._timers.set(key, draft.at.monotonic_ms + delay_ms)

    def complete_if_joined(self, group: Group, draft: Draft) -> None:
        """The first rebalance of a group waits for its time; others only for their members."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.initial_wait_ms is None
            and group.is_complete
        ):
            self.complete(group, draft)

    def end_joining(self, group: Group, draft: Draft) -> None:
        """The time to join is over."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.initial_wait_ms and group.has_newcomer:
            group.has_newcomer = False
            self._put_off(group, self._config.group_initial_rebalance_delay_ms, draft)
        else:
            self.complete(group, draft)

    def complete(self, group: Group, draft: Draft) -> None:
        """Begins a generation with those who have joined; static members keep their place."""
        self._timers.cancel(TimerKey(Due.JOIN, group.group_id))
        group.initial_wait_ms = None
        for member in list(group.members.values()):
            if not member.has_joined and not member.is_static:
                logger.info("group %s: %s did not join again", group.group_id, member.member_id)
                self.remove(group, member, draft)
        if not group.members:
            record = group.to_empty_record(draft.at.now_ms)
            draft.record(GroupMetadataKey(group=group.group_id), record)
        elif not group.elect_joined_leader():
            # Only static members are left, and all of them are away: they may have their time.
            self._set_join_timer(group, group.rebalance_timeout_ms, draft)
        else:
            self._begin_generation(group, draft)

    def _begin_generation(self, group: Group, draft: Draft) -> None:
        group.generation += 1
        group.protocol = select_protocol(group.members.values())
        group.transition_to(GroupState.COMPLETING_REBALANCE)
        group.pending_syncs = set(group.members)
        logger.info(
            "group %s: generation %d has %d members",
            group.group_id,
            group.generation,
            len(group.members),
        )
        for member in group.members.values():
            member.is_new = False
            self.extend_session(group, member, draft.at.monotonic_ms)
            if member.join_ticket is not None:
                draft.reply(member.join_ticket, join_answer(group, member))
                member.join_ticket = None
        key = TimerKey(Due.SYNC, group.group_id)
        self._timers.set(key, draft.at.monotonic_ms + group.rebalance_timeout_ms)

    # Syncing

    def synced(self, group: Group, member: Member) -> None:
        """A member has asked for its assignment."""
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            self._timers.cancel(TimerKey(Due.SYNC, group.group_id))

    def end_syncing(self, group: Group, draft: Draft) -> None:
        """The time to fetch assignments is over: who has not is out."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        late = [group.members[member_id] for member_id in sorted(group.pending_syncs)]
        for member in late:
            logger.info("group %s: %s did not sync", group.group_id, member.member_id)
            self.remove(group, member, draft)
        if late:
            self.prepare(group, draft, f"{len(late)} members did not sync")

    def forget(self, group: Group) -> None:
        """No timer of a group that is gone comes due."""
        for member_id in (*group.members, *group.pending_joins):
            self.drop_session(group, member_id)
        self._timers.cancel(TimerKey(Due.JOIN, group.group_id))
        self._timers.cancel(TimerKey(Due.SYNC, group.group_id))


def join_answer(group: Group, member: Member) -> JoinAnswer:
    """What a member of the current generation is told."""
    is_leader = group.leader == member.member_id
    return JoinAnswer(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.joined_members() if is_leader else (),
    )
