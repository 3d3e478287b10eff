"""The next step of a member from its current to its target assignment. Pure.

First the member revokes partitions outside its target, and stays in its epoch until it confirms
that. Then it advances to the target's epoch with the free partitions, and gets the others when
their owners release them. So a partition never has two owners. Kafka's counterpart:
`CurrentAssignmentBuilder`.
"""

from collections.abc import Callable
from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.consumer.member import Member, MemberState
from ottla.coordinator.consumer.partitions import NOTHING, Assignment, TopicIdPartition


def reconcile(
    member: Member,
    target: Assignment,
    target_epoch: int,
    *,
    owned: Assignment | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Member:
    """Returns the member after its next step, or unchanged if it must wait.

    `owned` are the partitions that the member reports, `None` if it reports none. `is_free` returns
    whether no other member holds a partition. Raises `ApiError` if the member's state is unknown.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(owned, member.pending_revocation):
                return member
        case MemberState.UNKNOWN:
            if owned != NOTHING:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The member's state is unknown. It must abandon all its partitions and rejoin.",
                )
    return _next_step(member, target, target_epoch, owned, is_free)


def _still_owns(owned: Assignment | None, revoked: Assignment) -> bool:
    """A member that does not report its partitions may own any of them."""
    return owned is None or bool(owned & revoked)


def _next_step(
    member: Member,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Member:
    kept = member.assigned & target
    revoked = member.assigned - target
    if revoked and _still_owns(owned, revoked):
        return replace(
            member.at_epoch(member.epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=revoked,
        )
    wanted = target - kept
    free = frozenset(one for one in wanted if is_free(one))
    is_waiting = len(free) < len(wanted)
    return replace(
        member.at_epoch(target_epoch),
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned=kept | free,
        pending_revocation=NOTHING,
    )
