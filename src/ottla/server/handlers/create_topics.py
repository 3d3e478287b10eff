"""CreateTopics, 0 to 7: makes topics, or with `validate_only` says whether that would work.

A topic is durable when the answer goes, so `timeout_ms` has nothing to wait for.
Kafka's counterpart: `ReplicationControlManager.createTopics`.
"""

from collections import Counter

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.broker.topics import MAX_PARTITION_COUNT, NewTopic
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.server.call import Call
from ottla.server.config_entries import topic_entries


def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    counts = Counter(wanted.name for wanted in request.topics)
    wanted_by_name = {wanted.name: wanted for wanted in request.topics}
    total = sum(_partition_count(wanted, call) for wanted in request.topics)
    results = []
    for name, wanted in wanted_by_name.items():
        try:
            if total > MAX_PARTITION_COUNT:
                raise _too_many(total)
            if counts[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(_create(wanted, request.validate_only, call))
        except ApiError as error:
            results.append(
                CreatableTopicResult(
                    name=name, error_code=error.code, error_message=error.message, configs=[]
                )
            )
    return CreateTopicsResponse(topics=results)


def _partition_count(wanted: CreatableTopic, call: Call) -> int:
    if wanted.assignments:
        return len(wanted.assignments)
    count = wanted.num_partitions
    return call.broker.config.num_partitions if count == -1 else max(0, count)


def _too_many(total: int) -> ApiError:
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"One request makes at most {MAX_PARTITION_COUNT} partitions, not {total}.",
    )


def _create(wanted: CreatableTopic, validate_only: bool, call: Call) -> CreatableTopicResult:
    assignments = {one.partition_index: one.broker_ids for one in wanted.assignments}
    if len(assignments) != len(wanted.assignments):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned twice.")
    new = NewTopic(
        name=wanted.name,
        partition_count=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignments=assignments,
        overrides={one.name: one.value for one in wanted.configs},
    )
    broker = call.broker
    topic = broker.create_topic(new, validate_only=validate_only)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=ZERO_UUID if validate_only else topic.topic_id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.source)
            for one in topic_entries(topic, broker.settings)
        ],
    )
