"""CreateTopics, 0 to 7: creates topics, or with `validate_only` only validates the request.

A topic is durable and has leaders when the response is sent. Kafka's counterparts:
`ReplicationControlManager.createTopics`, `ZkAdminManager.createTopics`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import counted, turn_dict, turn_list
from ottla.broker.controlling.outcomes import CreatedTopic
from ottla.codec.schema import Message
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.altering import check_count
from ottla.server.handling.config_entries import topic_entries


def handle(request: CreateTopicsRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    counts = counted(wanted.name for wanted in request.topics)
    refusals: dict[str, ApiError | None] = turn_dict()
    news: list[NewTopic] = turn_list()
    for wanted in request.topics:
        name = wanted.name
        if name in refusals:
            continue
        refusals[name] = None
        try:
            if counts[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            news.append(_new_topic(wanted))
        except ApiError as error:
            refusals[name] = error.without_traceback()

    def answer(created: Sequence[CreatedTopic | ApiError]) -> CreateTopicsResponse:
        left = iter(created)
        return CreateTopicsResponse(
            topics=[
                _result(name, refusal or next(left), context) for name, refusal in refusals.items()
            ]
        )

    return respond(
        context.broker.controller.create_topics(
            news,
            validate_only=request.validate_only,
            deadline_ms=context.at.monotonic_ms + request.timeout_ms,
        ),
        answer,
    )


def _new_topic(wanted: CreatableTopic) -> NewTopic:
    check_count(len(wanted.configs))
    assignments = {one.partition_index: one.broker_ids for one in wanted.assignments}
    if len(assignments) != len(wanted.assignments):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned twice.")
    return NewTopic(
        name=wanted.name,
        partition_count=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignments=assignments,
        overrides={one.name: one.value for one in wanted.configs},
    )


def _result(
    name: str, made: CreatedTopic | ApiError, context: RequestContext
) -> CreatableTopicResult:
    if isinstance(made, ApiError):
        return CreatableTopicResult(
            name=name, error_code=made.code, error_message=made.message, configs=[]
        )
    return CreatableTopicResult(
        name=name,
        topic_id=made.topic_id,
        error_message=None,
        num_partitions=made.partition_count,
        replication_factor=made.replication_factor,
        configs=[
            CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.source)
            for one in topic_entries(made.config, made.overrides, context.broker.settings)
        ],
    )
