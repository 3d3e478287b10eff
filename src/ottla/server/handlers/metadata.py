"""Metadata, 0 to 13: the brokers, and topics with their partitions and leaders.

A missing topic is created if both the request and `auto.create.topics.enable` allow it, limited to
so many at a time (`broker/topics/auto_creation.py`). A broker alone creates it at once, and
describes it instead of reporting it missing; in a cluster the client asks again until it has
leaders. Kafka's counterparts: `KafkaApis.handleTopicMetadataRequest`,
`DefaultAutoTopicCreationManager`.
"""

from collections.abc import Mapping, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.turns import PART_SIZE, in_turns, turn_dict, turn_list
from ottla.coordinator.catalog import CatalogTopic
from ottla.metadata.cluster_view import PartitionView
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS, check_name
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS

FIRST_NULL_NAME_VERSION = 12
FIRST_LISTENER_ERROR_VERSION = 6

Refusals = Mapping[str, ErrorCode]


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    view, reach = context.broker.view, context.client.reach
    # Where all brokers have started at once and are fenced, all are shown: librdkafka, told of
    # nobody as by Kafka, forgets all that it knows and never asks again.
    nodes = view.nodes(reach) or view.nodes(reach, with_fenced=True)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
            for one in nodes
        ],
        cluster_id=context.broker.cluster_id,
        controller_id=view.controller_id,
        topics=_topics(request, context),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_topic_authorized_operations:
        for topic in in_turns(response.topics):
            if not topic.error_code:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return response


def _topics(request: MetadataRequest, context: RequestContext) -> list[MetadataResponseTopic]:
    wanted = request.topics
    if _is_long(request, context):
        context.may_take_long()
    if wanted is None or (context.api_version == 0 and not wanted):
        return [_describe(topic, context) for topic in in_turns(list(context.broker.catalog))]
    refusals = _create_missing(wanted, request, context)
    answers: dict[tuple[str | None, Uuid], MetadataResponseTopic] = turn_dict()
    for one in wanted:
        key = (one.name, one.topic_id)
        if key not in answers:
            answers[key] = _describe_wanted(one, refusals, context)
    return [*answers.values()]


def _is_long(request: MetadataRequest, context: RequestContext) -> bool:
    """Whether it may take long: not for one small existing topic, or for none."""
    wanted = request.topics
    if wanted is None or len(wanted) != 1:
        return wanted != [] or context.api_version == 0
    topic = _find(wanted[0], context)
    return topic is None or topic.partition_count > PART_SIZE


def _find(wanted: MetadataRequestTopic, context: RequestContext) -> CatalogTopic | None:
    """By its id, with which Java's client sends an empty name, or by its name."""
    catalog, name = context.broker.catalog, wanted.name
    if name is None or wanted.topic_id != ZERO_UUID:
        name = catalog.name_by_id(wanted.topic_id)
    return None if name is None else catalog.find(name)


def _create_missing(
    wanted: Sequence[MetadataRequestTopic], request: MetadataRequest, context: RequestContext
) -> Refusals:
    """Creates topics that are wanted by name; returns why others are not there, or not yet."""
    broker = context.broker
    may_create = (
        request.allow_auto_topic_creation and broker.settings.config.auto_create_topics_enable
    )
    refusals: dict[str, ErrorCode] = turn_dict()
    new: dict[str, None] = turn_dict()
    for one in wanted:
        name = one.name
        if name is None or one.topic_id != ZERO_UUID or name in new or name in refusals:
            continue
        if broker.catalog.find(name) is not None:
            continue
        try:
            check_name(name)
        except ApiError as error:
            refusals[name] = error.code
            continue
        if not may_create:
            continue
        if broker.auto_creation.take(len(new), context.at.monotonic_ms):
            new[name] = None
        else:
            refusals[name] = ErrorCode.LEADER_NOT_AVAILABLE
    if new:
        refused = broker.controller.create_named(turn_list(new))
        for name, refusal in in_turns(refused.items()):
            refusals[name] = refusal.code
    return refusals


def _describe_wanted(
    wanted: MetadataRequestTopic, refusals: Refusals, context: RequestContext
) -> MetadataResponseTopic:
    topic = _find(wanted, context)
    if topic is not None:
        return _describe(topic, context)
    name = wanted.name
    if name is None or wanted.topic_id != ZERO_UUID:
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            name=None if context.api_version >= FIRST_NULL_NAME_VERSION else "",
            topic_id=wanted.topic_id,
        )
    error = refusals.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return MetadataResponseTopic(error_code=error, name=name, topic_id=ZERO_UUID)


def _describe(topic: CatalogTopic, context: RequestContext) -> MetadataResponseTopic:
    views = context.broker.view.partitions(topic.name, context.client.listener)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(one, context.api_version) for one in in_turns(views)],
    )


def _partition(view: PartitionView, api_version: int) -> MetadataResponsePartition:
    index, error, leader, epoch, replicas, isr, offline, _, _ = view
    if error is ErrorCode.LISTENER_NOT_FOUND and api_version < FIRST_LISTENER_ERROR_VERSION:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(isr),
        offline_replicas=list(offline),
    )
