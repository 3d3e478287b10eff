"""The rebalance of a classic group: members join, a generation begins, members sync or time out.

Each operation is decided on a copy of the group. What takes long in a group of many members asks
for turns first (`_take_turns`); the caller lets nobody else change the group meanwhile. A record is
written for the leader's assignment, for a static member that replaces itself, and when the last
member has gone. Kafka's counterparts: the classic half of `GroupMetadataManager`,
`classicGroupJoin` and what it calls.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.turns import is_large, large_in_turns
from ottla.codec.primitives import MAX_STRING_SIZE
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.group import ClassicGroup, select_protocol
from ottla.coordinator.classic.member import Member
from ottla.coordinator.classic.requests import (
    JoinAnswer,
    JoinRequest,
    Leaving,
    SyncAnswer,
    SyncRequest,
)
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.deadlines import Due, TimerKey
from ottla.coordinator.decision import Draft
from ottla.coordinator.events import MemberJoined, MemberLeft, RebalanceBegan, RebalanceCompleted
from ottla.coordinator.offsets.records import GroupMetadataKey
from ottla.coordinator.plan import Plan
from ottla.coordinator.requests import UNKNOWN_MEMBER, Acknowledgement, MemberClaim

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long the join of a new member may wait. A new member sends no heartbeats, so without this
limit a client that has gone would stay in the group forever.
"""


class Rebalance(Plan[ClassicGroup]):
    """A decision about a classic group. `deadline` is the time that is set for a key."""

    def __init__(
        self,
        group: ClassicGroup,
        draft: Draft,
        config: GroupCoordinatorConfig,
        deadline: Callable[[TimerKey], float | None],
        may_take_long: Callable[[], None],
    ) -> None:
        super().__init__(group, draft)
        self._config = config
        self._deadline = deadline
        self._may_take_long = may_take_long

    def _take_turns(self) -> None:
        """Call before work on all members: if there are many, the operation is to begin again in
        turns (`TurnsNeededError`).
        """
        if is_large(self.group.members):
            self._may_take_long()

    # JoinGroup

    def join(
        self, request: JoinRequest, pending_id: Hashable, new_id: Callable[[], Uuid]
    ) -> JoinAnswer | None:
        """Handles JoinGroup; returns `None` if the response must wait for the new generation.

        Raises `ApiError`.
        """
        self.change()
        if not self._has_room(request.member_id):
            return self._turn_away(request.member_id)
        if not self.group.supports(request.protocol_type, request.protocols):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id == UNKNOWN_MEMBER:
            self._join_first(request, pending_id, _new_member_id(request, new_id()))
        else:
            self._join_again(request, pending_id)
        answer = self.draft.replies.pop(pending_id, None)
        assert answer is None or isinstance(answer, JoinAnswer)
        return answer

    def _has_room(self, member_id: str) -> bool:
        """Whether `group.max.size` allows the member to join or rejoin.

        During a rebalance only joined members count: if the limit has been lowered, the last to
        join are rejected.
        """
        group, limit = self.group, self._config.group_max_size
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                return member_id in group.joining or len(group.joining) < limit
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member_id in group.members or len(group.members) < limit

    def _turn_away(self, member_id: str) -> JoinAnswer:
        known = self.group.members.get(member_id)
        if known is not None:
            self._remove(known, "the group has group.max.size members")
        elif member_id in self.group.pending_joins:
            self._remove_pending(member_id)
        self._complete_if_joined()
        return JoinAnswer(error=ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _join_first(self, request: JoinRequest, pending_id: Hashable, member_id: str) -> None:
        known_id = self.group.static_ids.get(request.instance_id or "")
        if known_id is not None:
            self._replace_static(self.group.members[known_id], member_id, request, pending_id)
        elif request.instance_id is None and request.requires_member_id:
            self.group.pending_joins.add(member_id)
            self.set_timer(Due.SESSION, request.session_timeout_ms, member_id)
            code = ErrorCode.MEMBER_ID_REQUIRED
            self.draft.reply(pending_id, JoinAnswer(error=code, member_id=member_id))
        else:
            self._add(member_id, request, pending_id)

    def _add(self, member_id: str, request: JoinRequest, pending_id: Hashable) -> None:
        group = self.group
        group.has_newcomer = True
        self.draft.events.append(MemberJoined(group=group.group_id, member=member_id))
        group.add(Member.from_request(member_id, request), request.protocol_type)
        group.joining[member_id] = pending_id
        group.new_ids.add(member_id)
        self.set_timer(Due.SESSION, NEW_MEMBER_JOIN_TIMEOUT_MS, member_id)
        self._go_on(f"{member_id} joined: {_reason(request)}")

    def _join_again(self, request: JoinRequest, pending_id: Hashable) -> None:
        member_id = request.member_id
        if member_id in self.group.pending_joins:
            self._add(member_id, request, pending_id)
            return
        member = self.group.check_member(member_id, request.instance_id)
        if self._knows_all(member, request):
            self.draft.reply(pending_id, self._join_answer(member))
            return
        # Answer the previous JoinGroup, which the client has given up.
        self._dismiss(member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self.group.put(member.with_request(request))
        self.group.joining[member_id] = pending_id
        self._go_on(f"{member_id} rejoined: {_reason(request)}")

    def _knows_all(self, member: Member, request: JoinRequest) -> bool:
        """Whether the member only missed the last JoinGroup response, which can be repeated.

        A leader that rejoins a stable group requests a rebalance, because topics may have changed.
        """
        match self.group.state:
            case GroupState.COMPLETING_REBALANCE:
                return member.offers(request.protocols)
            case GroupState.STABLE:
                return self.group.leader != member.member_id and member.offers(request.protocols)
            case _:
                return False

    def _replace_static(
        self, old: Member, member_id: str, request: JoinRequest, pending_id: Hashable
    ) -> None:
        """A restarted static member gets a new member id; the old id is fenced (KIP-345)."""
        group = self.group
        new = Member.from_request(member_id, request)
        former_leader = group.leader
        self._dismiss(old.member_id, ErrorCode.FENCED_INSTANCE_ID)
        self.cancel_timer(Due.SESSION, old.member_id)
        group.replace(old, new)
        self._extend_session(new)
        self._take_turns()
        if group.state is GroupState.STABLE and (
            select_protocol(large_in_turns(group.members.values())) == group.protocol
        ):
            self._take_over(new, former_leader or "", request, pending_id)
            return
        group.assignments[member_id] = b""
        group.joining[member_id] = pending_id
        self._go_on(f"{member_id} returned: {_reason(request)}")

    def _take_over(
        self, new: Member, former_leader: str, request: JoinRequest, pending_id: Hashable
    ) -> None:
        """Keeps the assignment, so that other members need not rejoin.

        A leader that does not support `skip_assignment` (KIP-814) is sent its former member id as
        the leader's id, so that it does not compute an assignment without the other members'
        metadata.
        """
        group = self.group
        shows_leader = group.leader == new.member_id and request.can_skip_assignment
        key = GroupMetadataKey(group=group.group_id)
        self.record(key, group.to_record(group.assignments, self.draft.at.now_ms))
        answer = JoinAnswer(
            member_id=new.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=new.member_id if shows_leader else former_leader,
            skip_assignment=shows_leader,
            members=tuple(group.members.values()) if shows_leader else (),
        )
        self.draft.reply(pending_id, answer)

    # SyncGroup

    def sync(self, request: SyncRequest, pending_id: Hashable) -> SyncAnswer | None:
        """Handles SyncGroup; returns `None` if the response must wait for the leader's assignment.

        Raises `ApiError`.
        """
        member = self.group.check_claim(request.claim)
        _check_protocol(self.group, request)
        match self.group.state:
            case GroupState.PREPARING_REBALANCE:
                raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
            case GroupState.COMPLETING_REBALANCE:
                self.change()
                self._dismiss(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
                self.group.syncing[member.member_id] = pending_id
                self._synced(member)
                if self.group.leader == member.member_id:
                    self._assign(request)
            case GroupState.STABLE:
                self._synced(member)
                self._extend_session(member)
                self.draft.reply(pending_id, self._sync_answer(member))
            case _:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        answer = self.draft.replies.pop(pending_id, None)
        assert answer is None or isinstance(answer, SyncAnswer)
        return answer

    def _assign(self, request: SyncRequest) -> None:
        self._take_turns()
        group = self.group
        key = GroupMetadataKey(group=group.group_id)
        self.record(key, group.to_record(request.assignments, self.draft.at.now_ms))
        syncing, group.syncing = group.syncing, {}
        self._extend_sessions([group.members[one] for one in syncing])
        none, type_, protocol = ErrorCode.NONE, group.protocol_type, group.protocol
        assigned = group.assignments.get
        self.draft.reply_all(
            {
                pending_id: SyncAnswer(none, type_, protocol, assigned(member_id, b""))
                for member_id, pending_id in large_in_turns(syncing.items())
            }
        )

    def _synced(self, member: Member) -> None:
        """Notes that a member has requested its assignment."""
        if member.member_id in self.group.pending_syncs:
            self.change().pending_syncs.discard(member.member_id)
        if not self.group.pending_syncs:
            self.cancel_timer(Due.SYNC)

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(
            protocol_type=self.group.protocol_type,
            protocol=self.group.protocol,
            assignment=self.group.assignments.get(member.member_id, b""),
        )

    # Heartbeat and LeaveGroup

    def heartbeat(self, claim: MemberClaim) -> Acknowledgement:
        """Extends the session; REBALANCE_IN_PROGRESS requests the member to rejoin.

        Raises `ApiError`.
        """
        self._extend_session(self.group.check_claim(claim))
        if self.group.state is GroupState.PREPARING_REBALANCE:
            return Acknowledgement(error=ErrorCode.REBALANCE_IN_PROGRESS)
        return Acknowledgement()

    def leave(self, leaving: Sequence[Leaving]) -> list[ErrorCode]:
        """Removes members with at most one rebalance; returns an error code for each.

        Different from Kafka: a client that received a member id but never joined leaves without
        disturbing a stable group.
        """
        self.change()
        member_count = len(self.group.members)
        errors = [self._leave(one) for one in large_in_turns(leaving)]
        if len(self.group.members) < member_count:
            reasons = ", ".join(one.reason for one in leaving if one.reason) or "not specified"
            self._go_on(f"members leave: {reasons}")
        else:
            self._complete_if_joined()
        return errors

    def _leave(self, one: Leaving) -> ErrorCode:
        member_id = one.member_id
        if member_id in self.group.pending_joins:
            self._remove_pending(member_id)
            return ErrorCode.NONE
        if member_id == UNKNOWN_MEMBER:
            member_id = self.group.static_ids.get(one.instance_id or "", UNKNOWN_MEMBER)
        try:
            member = self.group.check_member(member_id, one.instance_id)
        except ApiError as error:
            return error.code
        self._remove(member, f"it leaves: {one.reason}" if one.reason else "it leaves")
        return ErrorCode.NONE

    # Time

    def watch(self) -> None:
        """After a start, when every member has a full session timeout."""
        if len(self.group.members) > self._config.group_max_size:
            self._prepare("group.max.size is less")

    def come_due(self, key: TimerKey) -> None:
        """Handles an expired deadline."""
        self.change()
        match key.due:
            case Due.SESSION:
                self._end_session(key.member_id)
            case Due.JOIN:
                self._end_joining()
            case Due.SYNC:
                self._end_syncing()
            case _:
                raise AssertionError(f"a classic group has no deadline for {key.due.value}")

    def _end_session(self, member_id: str) -> None:
        group = self.group
        if member_id in group.pending_joins:
            self._remove_pending(member_id)
            self._complete_if_joined()
            return
        member = group.members.get(member_id)
        if member is None or group.is_excused(member_id):
            return
        self._remove(member, "its session is over")
        self._go_on(f"the session of {member_id} is over")

    def _end_joining(self) -> None:
        group = self.group
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.initial_wait_ms and group.has_newcomer:
            group.has_newcomer = False
            self._put_off(self._config.group_initial_rebalance_delay_ms)
        else:
            self._complete()

    def _end_syncing(self) -> None:
        """Removes members that did not request their assignment in time."""
        group = self.group
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        self._take_turns()
        late = [group.members[member_id] for member_id in sorted(group.pending_syncs)]
        for member in large_in_turns(late):
            self._remove(member, "it did not fetch its assignment in time")
        if late:
            self._prepare(f"{len(late)} members did not sync")

    # When the log takes no records

    def give_up(self, answered: Collection[Hashable]) -> None:
        """Gives up a generation whose record could not be written; its members join again.

        Members whose pending ids are in `answered` have received a response already.
        """
        group = self.change()
        group.joining = {one: its for one, its in group.joining.items() if its not in answered}
        group.syncing = {one: its for one, its in group.syncing.items() if its not in answered}
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._prepare("the assignment could not be written")

    # From one generation to the next

    def _go_on(self, reason: str) -> None:
        """Begins a rebalance after a change of members, or completes the current one."""
        if self.group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_joined()
        else:
            self._prepare(reason)

    def _prepare(self, reason: str) -> None:
        """Begins a rebalance. Members that wait for an assignment must rejoin."""
        group = self.change()
        self.draft.events.append(
            RebalanceBegan(
                group=group.group_id,
                generation=group.generation,
                member_count=len(group.members),
                reason=reason,
            )
        )
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._interrupt_syncs()
        self.cancel_timer(Due.SYNC)
        is_first = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE)
        if is_first:
            group.initial_wait_ms = group.rebalance_timeout_ms
            group.has_newcomer = False
            self._put_off(self._config.group_initial_rebalance_delay_ms)
        elif group.is_complete:
            self._complete()
        else:
            self.set_timer(Due.JOIN, group.rebalance_timeout_ms)

    def _interrupt_syncs(self) -> None:
        self._take_turns()
        for member_id in large_in_turns(list(self.group.syncing)):
            self._dismiss(member_id, ErrorCode.REBALANCE_IN_PROGRESS)
            self._extend_session(self.group.members[member_id])

    def _put_off(self, delay_ms: int) -> None:
        """Delays the first rebalance for further members, limited by the rebalance timeout."""
        group = self.group
        assert group.initial_wait_ms is not None
        delay_ms = min(delay_ms, group.initial_wait_ms)
        group.initial_wait_ms -= delay_ms
        if delay_ms == 0:
            self._complete()
        else:
            self.set_timer(Due.JOIN, delay_ms)

    def _complete_if_joined(self) -> None:
        """Completes the rebalance if all members have joined; the first one always waits for its
        delay.
        """
        group = self.group
        is_first = group.initial_wait_ms is not None
        if group.state is GroupState.PREPARING_REBALANCE and not is_first and group.is_complete:
            self._complete()

    def _complete(self) -> None:
        """Begins a generation with the joined members. Static members that did not join stay."""
        self._take_turns()
        group = self.group
        self.cancel_timer(Due.JOIN)
        group.initial_wait_ms = None
        for member in large_in_turns(group.missing_from_join()):
            self._remove(member, "it did not join the rebalance in time")
        for member in large_in_turns(self._whose_session_is_over()):
            self._remove(member, "its session is over")
        if not group.members:
            record = group.to_empty_record(self.draft.at.now_ms)
            self.record(GroupMetadataKey(group=group.group_id), record)
        elif not group.elect_joined_leader():
            # Only static members are left, and none has joined: wait for another rebalance timeout.
            self.set_timer(Due.JOIN, group.rebalance_timeout_ms)
        else:
            self._begin_generation()

    def _begin_generation(self) -> None:
        group = self.group
        group.generation += 1
        group.protocol = select_protocol(large_in_turns(group.members.values()))
        group.transition_to(GroupState.COMPLETING_REBALANCE)
        group.pending_syncs = set(group.members)
        self.draft.events.append(
            RebalanceCompleted(
                group=group.group_id,
                generation=group.generation,
                member_count=len(group.members),
            )
        )
        joining, group.joining = group.joining, {}
        group.new_ids = set()
        self._extend_sessions(group.members.values())
        self.draft.reply_all(self._join_answers(joining))
        self.set_timer(Due.SYNC, group.rebalance_timeout_ms)

    def _join_answers(self, joining: Mapping[str, Hashable]) -> dict[Hashable, JoinAnswer]:
        """The responses to the joined members, thousands at once: only the leader's differs."""
        group = self.group
        none, generation, leader = ErrorCode.NONE, group.generation, group.leader or ""
        type_, protocol = group.protocol_type, group.protocol
        answers: dict[Hashable, JoinAnswer] = {
            pending_id: JoinAnswer(none, member_id, generation, type_, protocol, leader)
            for member_id, pending_id in large_in_turns(joining.items())
        }
        if leader in joining:
            answers[joining[leader]] = self._join_answer(group.members[leader])
        return answers

    def _join_answer(self, member: Member) -> JoinAnswer:
        """The JoinGroup response for a member of the current generation."""
        group = self.group
        is_leader = group.leader == member.member_id
        return JoinAnswer(
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=tuple(group.members.values()) if is_leader else (),
        )

    # Members

    def _extend_session(self, member: Member) -> None:
        """Restarts the member's session timeout."""
        self.set_timer(Due.SESSION, member.session_timeout_ms, member.member_id)

    def _extend_sessions(self, members: Collection[Member]) -> None:
        """As `_extend_session`, for thousands of members at once."""
        now_ms, session, group_id = self.draft.at.monotonic_ms, Due.SESSION, self.group.group_id
        deadlines = self.draft.deadlines
        for one in large_in_turns(members):
            key = TimerKey(session, group_id, one.member_id)
            deadlines[key] = now_ms + one.session_timeout_ms

    def _whose_session_is_over(self) -> list[Member]:
        """The members whose deadline has passed, though it is not handled yet: a request that a
        busy broker handles first must not complete the join of a client that has gone. Kafka puts
        deadlines before the requests that wait.
        """
        deadlines, now_ms = self.draft.deadlines, self.draft.at.monotonic_ms
        session, group_id = Due.SESSION, self.group.group_id
        found = []
        for member in large_in_turns(self.group.not_excused()):
            key = TimerKey(session, group_id, member.member_id)
            end_ms = deadlines[key] if key in deadlines else self._deadline(key)
            if end_ms is not None and end_ms <= now_ms:
                found.append(member)
        return found

    def _remove_pending(self, member_id: str) -> None:
        """Removes an assigned member id with which the client has not joined."""
        self.group.pending_joins.discard(member_id)
        self.cancel_timer(Due.SESSION, member_id)

    def _remove(self, member: Member, reason: str) -> None:
        """Removes a member and answers its pending requests. The caller then calls `_go_on`."""
        group_id = self.group.group_id
        self.draft.events.append(MemberLeft(group=group_id, member=member.member_id, reason=reason))
        self.cancel_timer(Due.SESSION, member.member_id)
        self._dismiss(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self.group.remove(member)

    def _dismiss(self, member_id: str, code: ErrorCode) -> None:
        """Answers a member's pending requests with an error."""
        joining, syncing = self.group.joining, self.group.syncing
        if member_id in joining:
            # A client that is unknown joins again without a member id.
            told = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else member_id
            self.draft.reply(joining.pop(member_id), JoinAnswer(error=code, member_id=told))
        if member_id in syncing:
            self.draft.reply(syncing.pop(member_id), SyncAnswer(error=code))


def waiting(group: ClassicGroup) -> dict[Hashable, JoinAnswer | SyncAnswer]:
    """The pending ids that still need a response, each with a template for it."""
    found: dict[Hashable, JoinAnswer | SyncAnswer] = {
        pending_id: JoinAnswer(member_id=member_id)
        for member_id, pending_id in group.joining.items()
    }
    found.update((pending_id, SyncAnswer()) for pending_id in group.syncing.values())
    return found


def _check_protocol(group: ClassicGroup, request: SyncRequest) -> None:
    """Raises `ApiError` if the protocol that the member names is not the group's (KIP-559)."""
    for claimed, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol, group.protocol),
    ):
        if claimed is not None and known is not None and claimed != known:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _new_member_id(request: JoinRequest, uuid: Uuid) -> str:
    """A member id as Kafka forms it: a prefix and an id in the format of Java's `UUID`.

    A prefix that is nearly as long as a string may be is cut: Kafka fails to encode its answer.
    """
    digits = uuid.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    prefix, suffix = request.instance_id or request.client_id, f"-{'-'.join(parts)}"
    longest = prefix.encode()[: MAX_STRING_SIZE - len(suffix)]
    return longest.decode(errors="ignore") + suffix


def _reason(request: JoinRequest) -> str:
    return request.reason or "not specified"
