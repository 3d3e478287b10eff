"""Metadata, 0 to 13: brokers, and topics with their leaders, as the controller has said.

A topic that is to be made is asked for; the client asks again until it has leaders. Kafka's
counterparts: `KafkaApis.handleTopicMetadataRequest`, `ZkMetadataCache`,
`DefaultAutoTopicCreationManager`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.replication.metadata_cache import NO_CONTROLLER, MetadataCache, PartitionView
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS, check_name
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.server.cluster.applying import membership_of, replicas_of
from ottla.server.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from ottla.server.request_context import RequestContext

FIRST_NULL_NAME_VERSION = 12
FIRST_LISTENER_ERROR_VERSION = 6


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    cache = replicas_of(context).metadata
    listener = context.client.listener
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker, host=one.host, port=one.port, rack=its.rack)
            for broker, its in sorted(cache.brokers.items())
            if (one := its.endpoint(listener)) is not None
        ],
        cluster_id=context.broker.cluster_id,
        controller_id=cache.controller if cache.controller in cache.brokers else NO_CONTROLLER,
        topics=_topics(request, cache, context),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_topic_authorized_operations:
        for topic in in_turns(response.topics):
            if not topic.error_code:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return response


def _topics(
    request: MetadataRequest, cache: MetadataCache, context: RequestContext
) -> list[MetadataResponseTopic]:
    wanted = request.topics
    if wanted is None or len(wanted) > 1 or context.api_version == 0:
        context.may_take_long()
    if wanted is None or (context.api_version == 0 and not wanted):
        return [_describe(name, cache, context) for name in in_turns(list(cache.topics))]
    refused = _create_missing(wanted, request, cache, context)
    answers = freed_in_turns(
        {
            (one.name, one.topic_id): _describe_wanted(one, cache, context, refused)
            for one in in_turns(wanted)
        }
    )
    return [*in_turns(answers.values())]


def _create_missing(
    wanted: Sequence[MetadataRequestTopic],
    request: MetadataRequest,
    cache: MetadataCache,
    context: RequestContext,
) -> dict[str, ErrorCode]:
    """Requests the creation of topics; returns why others are not created."""
    missing = freed_in_turns(
        {
            one.name: None
            for one in in_turns(wanted)
            if one.name is not None and one.topic_id == ZERO_UUID and one.name not in cache.topics
        }
    )
    broker = context.broker
    refused: dict[str, ErrorCode] = freed_in_turns({})
    made: list[str] = []
    may_make = request.allow_auto_topic_creation and broker.config.auto_create_topics_enable
    for name in in_turns(missing):
        try:
            check_name(name)
        except ApiError as error:
            refused[name] = error.code
            continue
        if may_make:
            refused[name] = ErrorCode.LEADER_NOT_AVAILABLE
            if broker.auto_creation.take(len(made), context.at.monotonic_ms):
                made.append(name)
    if made:
        membership_of(context).create_topics(made)
    return refused


def _describe_wanted(
    wanted: MetadataRequestTopic,
    cache: MetadataCache,
    context: RequestContext,
    refused: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    name = wanted.name
    # A request for an id may leave the name empty, as Java's client does.
    if name is None or wanted.topic_id != ZERO_UUID:
        found = cache.topic_names.get(wanted.topic_id)
        if found is not None:
            return _describe(found, cache, context)
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            name=None if context.api_version >= FIRST_NULL_NAME_VERSION else "",
            topic_id=wanted.topic_id,
        )
    if name in cache.topics:
        return _describe(name, cache, context)
    error = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return MetadataResponseTopic(error_code=error, name=name, topic_id=ZERO_UUID)


def _describe(name: str, cache: MetadataCache, context: RequestContext) -> MetadataResponseTopic:
    views = cache.partitions(name, context.client.listener)
    return MetadataResponseTopic(
        name=name,
        topic_id=cache.topic_ids.get(name, ZERO_UUID),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(one, context.api_version) for one in in_turns(views)],
    )


def _partition(view: PartitionView, api_version: int) -> MetadataResponsePartition:
    error = view.error
    if error is ErrorCode.LISTENER_NOT_FOUND and api_version < FIRST_LISTENER_ERROR_VERSION:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=view.partition,
        leader_id=view.leader,
        leader_epoch=view.leader_epoch,
        replica_nodes=list(view.replicas),
        isr_nodes=list(view.isr),
        offline_replicas=list(view.offline),
    )
