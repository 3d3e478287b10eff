"""CreateTopics, 0 to 7: creates topics, or with `validate_only` only validates the request. A topic
is durable when the response is sent, so `timeout_ms` has no effect. Kafka's counterpart:
`ReplicationControlManager.createTopics`.
"""

from collections import Counter

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.topics.topics import NewTopic, Topic, check_total_count
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.server.altering import check_count
from ottla.server.config_entries import topic_entries
from ottla.server.request_context import RequestContext


def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    context.may_take_long()
    counts = freed_in_turns(Counter(wanted.name for wanted in in_turns(request.topics)))
    wanted_by_name = freed_in_turns({wanted.name: wanted for wanted in in_turns(request.topics)})
    total = sum(_partition_count(wanted, context) for wanted in in_turns(request.topics))
    made: dict[str, Topic | ApiError] = freed_in_turns({})
    news: list[NewTopic] = freed_in_turns([])
    for name, wanted in in_turns(wanted_by_name.items()):
        try:
            check_total_count(total)
            if counts[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            new = _new_topic(wanted)
            if request.validate_only:
                made[name] = context.broker.create_topic(new, validate_only=True)
            else:
                news.append(new)
        except ApiError as error:
            made[name] = error.without_traceback()
    topics = freed_in_turns(context.broker.create_topics(news))
    for new, topic in zip(news, topics, strict=True):
        made[new.name] = topic
    return CreateTopicsResponse(
        topics=[
            _result(name, made[name], request.validate_only, context)
            for name in in_turns(wanted_by_name)
        ]
    )


def _partition_count(wanted: CreatableTopic, context: RequestContext) -> int:
    if wanted.assignments:
        return len(wanted.assignments)
    count = wanted.num_partitions
    return context.broker.config.num_partitions if count == -1 else max(0, count)


def _new_topic(wanted: CreatableTopic) -> NewTopic:
    check_count(len(wanted.configs))
    assignments = freed_in_turns(
        {one.partition_index: one.broker_ids for one in in_turns(wanted.assignments)}
    )
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
    name: str, topic: Topic | ApiError, validate_only: bool, context: RequestContext
) -> CreatableTopicResult:
    if isinstance(topic, ApiError):
        return CreatableTopicResult(
            name=name, error_code=topic.code, error_message=topic.message, configs=[]
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=ZERO_UUID if validate_only else topic.topic_id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.source)
            for one in topic_entries(topic.config, topic.overrides, context.broker.settings)
        ],
    )
