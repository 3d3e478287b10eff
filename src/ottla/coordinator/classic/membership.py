"""Heartbeat and LeaveGroup: who is still there, and who goes.

Kafka's counterparts: `GroupMetadataManager.classicGroupHeartbeat` and `classicGroupLeave`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.classic.group import Group
from ottla.coordinator.classic.rebalance import Rebalances
from ottla.coordinator.classic.requests import UNKNOWN_MEMBER, Leaving, MemberClaim
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.decision import Draft


class Membership:
    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def heartbeat(self, group: Group, claim: MemberClaim, draft: Draft) -> None:
        """Raises `ApiError`; REBALANCE_IN_PROGRESS has a living member join again."""
        member = group.check_claim(claim)
        self._rebalances.extend_session(group, member, draft.at.monotonic_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, group: Group, leaving: tuple[Leaving, ...], draft: Draft) -> list[ErrorCode]:
        """One error code for each who leaves; the others rebalance once for all of them.

        Different from Kafka: somebody who was given a member id and never joined leaves without
        disturbing a stable group.
        """
        member_count = len(group.members)
        errors = [self._leave(group, one, draft) for one in leaving]
        if len(group.members) < member_count:
            reasons = ", ".join(one.reason for one in leaving if one.reason) or "not specified"
            self._rebalances.go_on(group, draft, f"members leave: {reasons}")
        else:
            self._rebalances.complete_if_joined(group, draft)
        return errors

    def _leave(self, group: Group, one: Leaving, draft: Draft) -> ErrorCode:
        member_id = one.member_id
        if member_id in group.pending_joins:
            self._rebalances.remove_pending(group, member_id)
            return ErrorCode.NONE
        if member_id == UNKNOWN_MEMBER:
            member_id = group.static_ids.get(one.instance_id or "", UNKNOWN_MEMBER)
        try:
            member = group.check_member(member_id, one.instance_id)
        except ApiError as error:
            return error.code
        self._rebalances.remove(group, member, draft)
        return ErrorCode.NONE
