"""OffsetCommit, 0 to 10: stores how far a group has read.

Version 0, which wrote to ZooKeeper once, is a commit from outside the group. Clients chose the
commit's time in version 1 and how long it is kept in versions 2 to 4 (KIP-211).
Kafka's counterpart: `KafkaApis.handleOffsetCommitRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import parts_in_turns, turn_dict, turn_list
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.server.dispatching.request_context import RequestContext

NONE_GIVEN = -1
FIRST_NEW_CODES_VERSION = 9
FIRST_TOPIC_ID_VERSION = 10

OLD_CODES = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.UNSUPPORTED_VERSION,
}
"""Errors for clients that do not know the codes of the new group protocol (KIP-848)."""


def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    context.broker.groups.prepare(context.may_take_long)
    names = turn_list([_known_name(topic, context) for topic in request.topics])
    offsets: dict[TopicPartition, NewOffset] = turn_dict()
    for name, topic in zip(names, request.topics, strict=True):
        if name is not None:
            partitions = topic.partitions
            offsets.update(
                (TopicPartition(name, one.partition_index), _offset(one)) for one in partitions
            )
    errors: dict[TopicPartition, ErrorCode] = turn_dict()
    for part in parts_in_turns(offsets.items()):
        errors |= _commit(request, dict(part), context)
    return OffsetCommitResponse(
        topics=[
            _topic(topic, name, errors, context)
            for name, topic in zip(names, request.topics, strict=True)
        ]
    )


def _known_name(topic: OffsetCommitRequestTopic, context: RequestContext) -> str | None:
    """`None` for a topic that does not exist."""
    topics = context.broker.catalog
    if context.api_version >= FIRST_TOPIC_ID_VERSION:
        return topics.name_by_id(topic.topic_id)
    return None if topics.find(topic.name) is None else topic.name


def _offset(partition: OffsetCommitRequestPartition) -> NewOffset:
    commit_ms = partition.commit_timestamp
    return NewOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_ms=None if commit_ms == NONE_GIVEN else commit_ms,
    )


def _commit(
    request: OffsetCommitRequest, offsets: dict[TopicPartition, NewOffset], context: RequestContext
) -> dict[TopicPartition, ErrorCode]:
    retention_ms = request.retention_time_ms
    commit = CommitRequest(
        claim=MemberClaim(
            group_id=request.group_id,
            member_id=request.member_id,
            generation=request.generation_id_or_member_epoch,
            instance_id=request.group_instance_id,
        ),
        offsets=offsets,
        retention_ms=None if retention_ms == NONE_GIVEN else retention_ms,
    )
    groups, at = context.broker.groups, context.at
    errors = groups.carry_out(
        groups.machine_of(request.group_id, at).commit(commit, at), at
    ).partitions
    if context.api_version >= FIRST_NEW_CODES_VERSION:
        return dict(errors)
    return {where: OLD_CODES.get(code, code) for where, code in errors.items()}


def _topic(
    topic: OffsetCommitRequestTopic,
    name: str | None,
    errors: dict[TopicPartition, ErrorCode],
    context: RequestContext,
) -> OffsetCommitResponseTopic:
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=one.partition_index,
                error_code=unknown
                if name is None
                else errors[TopicPartition(name, one.partition_index)],
            )
            for one in topic.partitions
        ],
    )
