"""Metadata, 0 to 13: this broker, and the topics with their partitions.

The broker's address is the one that the client connected to, unless `advertised.listeners` names
one: a client that could connect can connect again. A missing topic is created if both the request
and `auto.create.topics.enable` allow it, and then described at once instead of reported missing;
limited to so many at a time (`broker/topics/auto_creation.py`). Kafka's counterpart:
`KafkaApis.handleTopicMetadataRequest`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.turns import PART_SIZE, freed_in_turns, in_turns
from ottla.broker.topics.topic_rules import check_name
from ottla.broker.topics.topics import NewTopic, Topic
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.server.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from ottla.server.request_context import RequestContext

FIRST_NULL_NAME_VERSION = 12

NOT_YET = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
"""Clients ask again."""


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    broker = context.broker
    host, port = context.client.address
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker.node_id, host=host, port=port)],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
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
        return [_describe(topic, context) for topic in in_turns(list(context.broker.topics))]
    answers: dict[tuple[str | None, Uuid], MetadataResponseTopic] = freed_in_turns({})
    finder = _TopicFinder(request, context)
    finder.make_missing(wanted)
    for one in in_turns(wanted):
        key = (one.name, one.topic_id)
        if key not in answers:
            answers[key] = _describe_wanted(one, finder, context)
    return [*in_turns(answers.values())]


def _is_long(request: MetadataRequest, context: RequestContext) -> bool:
    """Whether it may take long: not for one small existing topic, or for none."""
    wanted = request.topics
    if wanted is None or len(wanted) != 1:
        return wanted != [] or context.api_version == 0
    topics, name = context.broker.topics, wanted[0].name
    topic = topics.find_by_id(wanted[0].topic_id) if name is None else topics.find(name)
    return topic is None or topic.partition_count > PART_SIZE


class _TopicFinder:
    """Finds topics by name, and creates missing ones if request and broker allow it."""

    def __init__(self, request: MetadataRequest, context: RequestContext) -> None:
        self._context = context
        enabled = context.broker.config.auto_create_topics_enable
        self._may_make = request.allow_auto_topic_creation and enabled
        self._refusals: dict[str, ApiError] = {}

    def make_missing(self, wanted: Sequence[MetadataRequestTopic]) -> None:
        """Creates all together, so that the files with all topics are written once."""
        broker = self._context.broker
        names: dict[str, None] = {}
        for one in in_turns(wanted if self._may_make else ()):
            name = one.name
            if name is None or one.topic_id != ZERO_UUID or name in names:
                continue
            if broker.topics.find(name) is None and self._may_be_made(name, len(names)):
                names[name] = None
        factor = broker.config.default_replication_factor
        news = [NewTopic(name=name, replication_factor=factor) for name in names]
        for new, made in zip(news, broker.create_topics(news), strict=True):
            if isinstance(made, ApiError):
                is_made_by_another = made.code is ErrorCode.TOPIC_ALREADY_EXISTS
                self._refusals[new.name] = NOT_YET if is_made_by_another else made

    def _may_be_made(self, name: str, made: int) -> bool:
        try:
            check_name(name)
        except ApiError as error:
            self._refusals[name] = error.without_traceback()
            return False
        if not self._context.broker.auto_creation.take(made, self._context.at.monotonic_ms):
            self._refusals[name] = NOT_YET
            return False
        return True

    def topic(self, name: str) -> Topic:
        """Raises `ApiError`."""
        topics = self._context.broker.topics
        if topics.find(name) is None and name in self._refusals:
            raise self._refusals[name]
        return topics.get(name)


def _describe_wanted(
    wanted: MetadataRequestTopic, finder: _TopicFinder, context: RequestContext
) -> MetadataResponseTopic:
    broker = context.broker
    name = wanted.name
    # A request for an id may leave the name empty, as Java's client does.
    if name is None or wanted.topic_id != ZERO_UUID:
        topic = broker.topics.find_by_id(wanted.topic_id)
        if topic is not None:
            return _describe(topic, context)
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            name=None if context.api_version >= FIRST_NULL_NAME_VERSION else "",
            topic_id=wanted.topic_id,
        )
    try:
        return _describe(finder.topic(name), context)
    except ApiError as error:
        return MetadataResponseTopic(error_code=error.code, name=name, topic_id=ZERO_UUID)


def _describe(topic: Topic, context: RequestContext) -> MetadataResponseTopic:
    node_id = context.broker.node_id
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
