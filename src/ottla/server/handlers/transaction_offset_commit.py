"""TxnOffsetCommit, 0 to 5: offsets of a group that count when the transaction commits.

The group's partition of the offsets topic must belong to the transaction; version 5 adds it by
itself (KIP-890). From version 3 on the member says who it is (KIP-447).
Kafka's counterpart: `KafkaApis.handleTxnOffsetCommitRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import parts_in_turns, turn_dict
from ottla.broker.topics.partition import Partition
from ottla.broker.transactions.admissions import Admission
from ottla.codec.schema import Message
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.coordinator.transaction.requests import ProducerClaim
from ottla.protocol.messages.transaction_offset_commit import (
    TransactionOffsetCommitRequest,
    TransactionOffsetCommitRequestPartition,
    TransactionOffsetCommitResponse,
    TransactionOffsetCommitResponsePartition,
    TransactionOffsetCommitResponseTopic,
)
from ottla.server.dispatching.request_context import (
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.server.handling.committing import when_committed
from ottla.server.handling.fencing import refusal_of_write

FIRST_ABORTABLE_VERSION = 4
FIRST_ADDING_VERSION = 5

OLD_CODES = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def handle(
    request: TransactionOffsetCommitRequest, context: RequestContext
) -> Message | PendingResponse:
    context.broker.groups.prepare(context.may_take_long)
    admission = _admission(request, context)
    if admission is None or not admission.is_pending:
        return _commit_all(request, admission, context)

    def go_on(at: Timestamps) -> Message | PendingResponse:
        later = context.later(at)
        response = _commit_all(request, admission, later)
        return when_committed(response, [request.group_id], later)

    return LongPendingAnswer(admission.waiting, go_on)


def _admission(
    request: TransactionOffsetCommitRequest, context: RequestContext
) -> Admission | None:
    """Asks the transaction's coordinator about the group's partition; `None` if that is not here,
    which the group's coordinator answers.
    """
    partition = _partition(request, context)
    if partition is None:
        return None
    can_add = context.api_version >= FIRST_ADDING_VERSION
    transactions = context.broker.transactions
    return transactions.admission(_claim_of(request), [partition], context.at, can_add=can_add)


def _partition(
    request: TransactionOffsetCommitRequest, context: RequestContext
) -> Partition | None:
    place = context.broker.transactions.offsets_partition(request.group_id)
    try:
        return context.broker.topics.online_partition(place.topic, place.partition)
    except ApiError:
        return None


def _claim_of(request: TransactionOffsetCommitRequest) -> ProducerClaim:
    return ProducerClaim(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
    )


def _commit_all(
    request: TransactionOffsetCommitRequest, admission: Admission | None, context: RequestContext
) -> TransactionOffsetCommitResponse:
    errors: dict[TopicPartition, ErrorCode] = turn_dict()
    offsets: dict[TopicPartition, NewOffset] = turn_dict()
    for topic in request.topics:
        is_known = context.broker.catalog.find(topic.name) is not None
        for one in topic.partitions:
            where = TopicPartition(topic.name, one.partition_index)
            if is_known:
                offsets[where] = _offset(one)
            else:
                errors[where] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for part in parts_in_turns(offsets.items()):
        # Each part is checked separately: the transaction may have ended meanwhile.
        errors |= _commit(request, dict(part), admission, context)
    return TransactionOffsetCommitResponse(
        topics=[
            TransactionOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TransactionOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors[TopicPartition(topic.name, one.partition_index)],
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset(partition: TransactionOffsetCommitRequestPartition) -> NewOffset:
    return NewOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
    )


def _commit(
    request: TransactionOffsetCommitRequest,
    offsets: dict[TopicPartition, NewOffset],
    admission: Admission | None,
    context: RequestContext,
) -> dict[TopicPartition, ErrorCode]:
    partition = None if admission is None else _partition(request, context)
    if admission and partition and (refusal := admission.refusal(partition, admission.claim)):
        knows_abortable = context.api_version >= FIRST_ABORTABLE_VERSION
        code = refusal_of_write(refusal, knows_abortable=knows_abortable)
        return dict.fromkeys(offsets, OLD_CODES.get(code, code))
    commit = CommitRequest(
        claim=MemberClaim(
            group_id=request.group_id,
            member_id=request.member_id,
            generation=request.generation_id,
            instance_id=request.group_instance_id,
        ),
        offsets=offsets,
        producer=(request.producer_id, request.producer_epoch),
    )
    groups, at = context.broker.groups, context.at
    errors = groups.carry_out(
        groups.machine_of(request.group_id, at).commit(commit, at), at
    ).partitions
    return {where: OLD_CODES.get(code, code) for where, code in errors.items()}
