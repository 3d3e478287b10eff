"""What ShareFetch and ShareAcknowledge have in common."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.turns import many_in_turns, turn_list
from ottla.broker.shares.shares import Said
from ottla.coordinator.share.records_in_flight import Acknowledgement, AcknowledgeType
from ottla.coordinator.share.sessions import SessionKey

MAX_MEMBER_ID_LENGTH: Final = 36
"""That of an id as text."""


class GivenBatch(Protocol):
    """Offsets with what is said of them, in either request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class GivenPartition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[GivenBatch]: ...


class GivenTopic(Protocol):
    topic_id: Uuid

    @property
    def partitions(self) -> Sequence[GivenPartition]: ...


def key_of(group_id: str | None, member_id: str | None) -> SessionKey:
    """The member that asks; raises `ApiError`."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "A share group is needed.")
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The id of a member has 1 to {MAX_MEMBER_ID_LENGTH} characters.",
        )
    return SessionKey(group_id, member_id)


def said_of(topics: Sequence[GivenTopic]) -> list[Said]:
    """What is said of records, by partition."""
    return turn_list(
        Said(
            (topic.topic_id, one.partition_index),
            turn_list(
                Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in many_in_turns(one.acknowledgement_batches)
            ),
        )
        for topic in many_in_turns(topics)
        for one in many_in_turns(topic.partitions)
        if one.acknowledgement_batches
    )


def check_renewals(said: Sequence[Said], *, is_renewal: bool, may_renew: bool) -> None:
    """Raises `ApiError` for renewals that are not announced, or that the group does not allow."""
    if is_renewal and not may_renew:
        raise ApiError(ErrorCode.INVALID_REQUEST, "This group does not renew locks.")
    if is_renewal:
        return
    renew = AcknowledgeType.RENEW
    for one in many_in_turns(said):
        if any(renew in given.types for given in many_in_turns(one.given)):
            raise ApiError(ErrorCode.INVALID_REQUEST, "A renewal is said with IsRenewAck.")


def answer_topics(partitions: "Sequence[tuple[Uuid, Any]]", topic_struct: Any) -> list[Any]:
    """Partitions in the topics of a response."""
    topics: list[Any] = turn_list()
    for topic_id, partition in many_in_turns(partitions):
        if not topics or topics[-1].topic_id != topic_id:
            topics.append(topic_struct(topic_id=topic_id, partitions=turn_list()))
        topics[-1].partitions.append(partition)
    return topics
