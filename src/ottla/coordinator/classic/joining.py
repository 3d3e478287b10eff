"""JoinGroup: who may become a member, and what a join sets off.

Kafka's counterpart: `GroupMetadataManager.classicGroupJoin` and what it calls.
"""

from collections.abc import Callable, Hashable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.group import Group, select_protocol
from ottla.coordinator.classic.member import Member
from ottla.coordinator.classic.rebalance import Rebalances, join_answer
from ottla.coordinator.classic.requests import UNKNOWN_MEMBER, JoinAnswer, JoinRequest
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.records import GroupMetadataKey


class Joining:
    """Raises `ApiError` when a join is refused; otherwise its ticket is, or will be, answered."""

    def __init__(
        self, config: GroupCoordinatorConfig, rebalances: Rebalances, new_id: Callable[[], Uuid]
    ) -> None:
        self._config = config
        self._rebalances = rebalances
        self._new_id = new_id

    def check_session(self, request: JoinRequest) -> None:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        low = self._config.group_min_session_timeout_ms
        high = self._config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def join(self, group: Group, request: JoinRequest, ticket: Hashable, draft: Draft) -> None:
        if not self._has_room(group, request.member_id):
            self._turn_away(group, request.member_id, draft)
        if not group.supports(request.protocol_type, request.protocols):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id != UNKNOWN_MEMBER:
            self._join_again(group, request, ticket, draft)
            return
        member_id = self._new_member_id(request)
        known_id = group.static_ids.get(request.instance_id or "")
        if known_id is not None:
            old = group.members[known_id]
            self._replace_static(group, old, _member(member_id, request), request, ticket, draft)
        elif request.instance_id is None and request.requires_member_id:
            timeout_ms = request.session_timeout_ms
            self._rebalances.await_pending_member(group, member_id, timeout_ms, draft)
            code = ErrorCode.MEMBER_ID_REQUIRED
            draft.reply(ticket, JoinAnswer(error=code, member_id=member_id))
        else:
            self._add(group, _member(member_id, request), request, ticket, draft)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Whether a member can come in, or come back, under `group.max.size`.

        During a rebalance only those count who have joined: the last to come are left out should
        the limit have been lowered.
        """
        limit = self._config.group_max_size
        known = group.members.get(member_id)
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                return (known is not None and known.has_joined) or group.joined_count < limit
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return known is not None or len(group.members) < limit

    def _turn_away(self, group: Group, member_id: str, draft: Draft) -> None:
        known = group.members.get(member_id)
        if known is not None:
            self._rebalances.remove(group, known, draft)
        elif member_id in group.pending_joins:
            self._rebalances.remove_pending(group, member_id)
        self._rebalances.complete_if_joined(group, draft)
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _new_member_id(self, request: JoinRequest) -> str:
        return f"{request.instance_id or request.client_id}-{_uuid4_text(self._new_id())}"

    def _add(
        self, group: Group, member: Member, request: JoinRequest, ticket: Hashable, draft: Draft
    ) -> None:
        member.join_ticket = ticket
        member.is_new = True
        group.has_newcomer = True
        group.add(member, request.protocol_type)
        self._rebalances.await_new_member(group, member, draft.at.monotonic_ms)
        self._rebalances.go_on(group, draft, f"{member.member_id} has come: {_reason(request)}")

    def _join_again(
        self, group: Group, request: JoinRequest, ticket: Hashable, draft: Draft
    ) -> None:
        member_id = request.member_id
        if member_id in group.pending_joins:
            self._add(group, _member(member_id, request), request, ticket, draft)
            return
        member = group.check_member(member_id, request.instance_id)
        if self._knows_all(group, member, request):
            draft.reply(ticket, join_answer(group, member))
            return
        self._update(member, request, ticket, draft)
        self._rebalances.go_on(group, draft, f"{member_id} joins again: {_reason(request)}")

    def _knows_all(self, group: Group, member: Member, request: JoinRequest) -> bool:
        """Whether a member only missed the answer to its last join, and can have it once more.

        A leader that joins a stable group again wants a rebalance: the topics may have changed.
        """
        match group.state:
            case GroupState.COMPLETING_REBALANCE:
                return member.offers(request.protocols)
            case GroupState.STABLE:
                return group.leader != member.member_id and member.offers(request.protocols)
            case _:
                return False

    def _update(self, member: Member, request: JoinRequest, ticket: Hashable, draft: Draft) -> None:
        """What a member says now counts; a join that it has given up on is answered first."""
        self._rebalances.dismiss(member, draft, ErrorCode.REBALANCE_IN_PROGRESS)
        member.protocols = dict(request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.join_ticket = ticket

    # Static members

    def _replace_static(
        self,
        group: Group,
        old: Member,
        new: Member,
        request: JoinRequest,
        ticket: Hashable,
        draft: Draft,
    ) -> None:
        """A static member has restarted: it gets a new id, and whoever used the old is fenced."""
        protocol = select_protocol(group.members_with(new, old))
        if group.state is GroupState.STABLE and protocol == group.protocol:
            self._take_over(group, old, new, request, ticket, draft)
            return
        self._rebalances.dismiss(old, draft, ErrorCode.FENCED_INSTANCE_ID)
        self._rebalances.drop_session(group, old.member_id)
        new.join_ticket = ticket
        group.replace(old, new)
        self._rebalances.extend_session(group, new, draft.at.monotonic_ms)
        self._rebalances.go_on(group, draft, f"{new.member_id} is back: {_reason(request)}")

    def _take_over(
        self,
        group: Group,
        old: Member,
        new: Member,
        request: JoinRequest,
        ticket: Hashable,
        draft: Draft,
    ) -> None:
        """The assignment stays as it is, so nobody else need know (KIP-345).

        A leader that does not understand `skip_assignment` is told its former id as the leader's,
        so that it does not assign with what little it knows.
        """
        group.arriving = new
        record = group.to_record_with(new, old, draft.at.now_ms)
        draft.record(GroupMetadataKey(group=group.group_id), record)
        self._rebalances.extend_session(group, new, draft.at.monotonic_ms)
        is_leader = group.leader == old.member_id
        shows_leader = is_leader and request.can_skip_assignment
        answer = JoinAnswer(
            member_id=new.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=new.member_id if shows_leader else group.leader or "",
            skip_assignment=shows_leader,
            members=group.joined_members(group.members_with(new, old)) if shows_leader else (),
        )
        draft.reply(ticket, answer)


def _member(member_id: str, request: JoinRequest) -> Member:
    return Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=dict(request.protocols),
    )


def _reason(request: JoinRequest) -> str:
    return request.reason or "not specified"


def _uuid4_text(uuid: Uuid) -> str:
    """An id in the shape of Java's `UUID.randomUUID`, which Kafka's member ids end in."""
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
