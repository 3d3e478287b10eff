"""Metadata, 0 to 13: this broker, and the topics with their partitions.

The broker's address is the one that the client came to, unless `advertised.listeners` names one:
whoever could connect can connect again. A missing topic is made when both the request and
`auto.create.topics.enable` allow it, and then described at once rather than reported missing; so
many at a time (`broker/auto_creation.py`).
Kafka's counterpart: `KafkaApis.handleTopicMetadataRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import PART_SIZE, in_turns
from ottla.broker.topics import Topic, check_name
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.server.call import Call
from ottla.server.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS

FIRST_NULL_NAME_VERSION = 12


def handle(request: MetadataRequest, call: Call) -> MetadataResponse:
    broker = call.broker
    host, port = call.address
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker.node_id, host=host, port=port)],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=_topics(request, call),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if not topic.error_code:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return response


def _topics(request: MetadataRequest, call: Call) -> list[MetadataResponseTopic]:
    wanted = request.topics
    if _is_long(request, call):
        call.may_take_long()
    if wanted is None or (call.api_version == 0 and not wanted):
        return [_describe(topic, call) for topic in in_turns(list(call.broker.topics))]
    answers = {}
    wishes = _Wishes(request, call)
    for one in in_turns(wanted):
        key = (one.name, one.topic_id)
        if key not in answers:
            answers[key] = _describe_wanted(one, wishes, call)
    return list(answers.values())


def _is_long(request: MetadataRequest, call: Call) -> bool:
    """Unless it is about one topic that is there and small, or about none."""
    wanted = request.topics
    if wanted is None or len(wanted) != 1:
        return wanted != [] or call.api_version == 0
    topics, name = call.broker.topics, wanted[0].name
    topic = topics.find_by_id(wanted[0].topic_id) if name is None else topics.find(name)
    return topic is None or topic.partition_count > PART_SIZE


class _Wishes:
    """Finds topics by name, and makes those that are missing where request and broker allow."""

    def __init__(self, request: MetadataRequest, call: Call) -> None:
        self._call = call
        enabled = call.broker.config.auto_create_topics_enable
        self._may_make = request.allow_auto_topic_creation and enabled
        self._made = 0

    def topic(self, name: str) -> Topic:
        """Raises `ApiError`."""
        broker = self._call.broker
        topic = broker.topics.find(name)
        if topic is not None or not self._may_make:
            return broker.topics.get(name)
        check_name(name)
        if not broker.auto_creation.take(self._made, self._call.at.monotonic_ms):
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        self._made += 1
        return broker.ensure_topic(name)


def _describe_wanted(
    wanted: MetadataRequestTopic, wishes: _Wishes, call: Call
) -> MetadataResponseTopic:
    broker = call.broker
    name = wanted.name
    # Who asks for an id may leave the name empty, as Java's client does.
    if name is None or wanted.topic_id != ZERO_UUID:
        topic = broker.topics.find_by_id(wanted.topic_id)
        if topic is not None:
            return _describe(topic, call)
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            name=None if call.api_version >= FIRST_NULL_NAME_VERSION else "",
            topic_id=wanted.topic_id,
        )
    try:
        return _describe(wishes.topic(name), call)
    except ApiError as error:
        return MetadataResponseTopic(error_code=error.code, name=name, topic_id=ZERO_UUID)


def _describe(topic: Topic, call: Call) -> MetadataResponseTopic:
    node_id = call.broker.node_id
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(topic, index, node_id) for index in in_turns(topic.known_indexes)],
    )


def _partition(topic: Topic, index: int, node_id: int) -> MetadataResponsePartition:
    partition = topic.partitions.get(index)
    is_offline = partition is None or partition.directory.is_offline
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if is_offline else ErrorCode.NONE,
        partition_index=index,
        leader_id=-1 if is_offline else node_id,
        leader_epoch=-1 if partition is None else partition.leader_epoch,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
        offline_replicas=[node_id] if is_offline else [],
    )
