"""SyncGroup: the leader's assignment is written down, and everybody gets their part of it.

Kafka's counterpart: `GroupMetadataManager.classicGroupSync`.
"""

import logging
from collections.abc import Hashable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.classic.group import Group
from ottla.coordinator.classic.member import Member
from ottla.coordinator.classic.rebalance import Rebalances
from ottla.coordinator.classic.requests import SyncAnswer, SyncRequest
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.records import GroupMetadataKey

logger = logging.getLogger(__name__)


class Syncing:
    """Raises `ApiError` when a sync is refused; otherwise its ticket is, or will be, answered."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def sync(self, group: Group, request: SyncRequest, ticket: Hashable, draft: Draft) -> None:
        member = group.check_claim(request.claim)
        _check_protocol(group, request)
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
            case GroupState.COMPLETING_REBALANCE:
                self._rebalances.dismiss(member, draft, ErrorCode.REBALANCE_IN_PROGRESS)
                member.sync_ticket = ticket
                self._rebalances.synced(group, member)
                if group.leader == member.member_id:
                    self._assign(group, request, draft)
            case GroupState.STABLE:
                self._rebalances.synced(group, member)
                self._rebalances.extend_session(group, member, draft.at.monotonic_ms)
                draft.reply(ticket, _answer(group, member.assignment))
            case _:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def _assign(self, group: Group, request: SyncRequest, draft: Draft) -> None:
        """The group becomes stable once the record is replayed, before anybody is answered."""
        logger.info("group %s: generation %d is assigned", group.group_id, group.generation)
        record = group.to_record(request.assignments, draft.at.now_ms)
        draft.record(GroupMetadataKey(group=group.group_id), record)
        for member in group.members.values():
            if member.sync_ticket is not None:
                assignment = request.assignments.get(member.member_id, b"")
                self._finish(group, member, assignment, draft)

    def _finish(self, group: Group, member: Member, assignment: bytes, draft: Draft) -> None:
        draft.reply(member.sync_ticket, _answer(group, assignment))
        member.sync_ticket = None
        self._rebalances.extend_session(group, member, draft.at.monotonic_ms)


def _answer(group: Group, assignment: bytes) -> SyncAnswer:
    return SyncAnswer(
        protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment
    )


def _check_protocol(group: Group, request: SyncRequest) -> None:
    """What a member thinks the protocol is must be what it is, if it says so (KIP-559)."""
    for claimed, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol, group.protocol),
    ):
        if claimed is not None and known is not None and claimed != known:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
