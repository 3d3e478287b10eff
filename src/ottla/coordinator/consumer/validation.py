"""Checks of heartbeats: their fields and their member epochs.

Kafka's counterparts: `throwIfConsumerGroupHeartbeatRequestIsInvalid`,
`throwIfConsumerGroupMemberEpochIsInvalid`.
"""

from collections.abc import Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Member,
)
from ottla.coordinator.consumer.partitions import NOTHING
from ottla.coordinator.consumer.requests import HeartbeatRequest


def check_heartbeat(request: HeartbeatRequest, assignors: Iterable[str]) -> None:
    """Raises `ApiError(INVALID_REQUEST)`, or `UNSUPPORTED_ASSIGNOR`."""
    problem = _problem_of(request)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    known = list(assignors)
    if request.server_assignor is not None and request.server_assignor not in known:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(known)}.",
        )


def _problem_of(request: HeartbeatRequest) -> str | None:
    for name, text in (
        ("GroupId", request.group_id.strip()),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text == "":
            return f"{name} can't be empty."
    if request.epoch < LEAVE_STATIC_EPOCH:
        return f"MemberEpoch {request.epoch} is invalid."
    if not request.member_id and (request.must_bring_id or request.epoch != JOIN_EPOCH):
        return "MemberId can't be empty."
    if request.epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return _problem_of_joining(request) if request.epoch == JOIN_EPOCH else None


def _problem_of_joining(request: HeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned != NOTHING:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topic_names is None and request.topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when joining."
    return None


def is_leaving(request: HeartbeatRequest) -> bool:
    return request.epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH)


def check_epoch(member: Member, request: HeartbeatRequest) -> None:
    """Raises `ApiError(FENCED_MEMBER_EPOCH)`; the member must abandon its partitions and rejoin.

    Epoch 0 is accepted: the member rejoins. The previous epoch is accepted if the member owns only
    partitions assigned to it, because the response with the new epoch may have been lost.
    """
    if request.epoch in (JOIN_EPOCH, member.epoch):
        return
    is_late = request.epoch == member.previous_epoch < member.epoch
    if is_late and request.owned is not None and request.owned <= member.assigned:
        return
    which = "greater" if request.epoch > member.epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {which} member epoch ({request.epoch}) than the one "
        f"known by the group coordinator ({member.epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def check_instance(member: Member | None, request: HeartbeatRequest) -> Member:
    """Returns the static member; raises `ApiError` if it is unknown or has another member id."""
    if member is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown."
        )
    if member.member_id != request.member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced "
            f"by member {member.member_id}.",
        )
    return member


def check_released(member: Member, request: HeartbeatRequest) -> None:
    """Raises `ApiError(UNRELEASED_INSTANCE_ID)` unless the static member has left."""
    if member.epoch != LEAVE_STATIC_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join "
            f"the group because the instance id is owned by {member.member_id} member.",
        )
