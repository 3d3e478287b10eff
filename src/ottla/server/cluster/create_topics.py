"""CreateTopics, 0 to 7: the controller places the replicas of new topics, and elects leaders.

The answer comes when they are elected and this broker knows them, so that its clients can continue.
Kafka's counterparts: `ZkAdminManager.createTopics`, `AdminZkClient.createTopic`.
"""

from collections import Counter
from collections.abc import Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.topics.topic_rules import check_name, metric_name, topic_config
from ottla.broker.topics.topics import Topic, check_partition_count
from ottla.controller.events import CreateTopic
from ottla.controller.placement import Start, place
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.server.altering import check_count
from ottla.server.cluster.applying import ask_controller, membership_of, replicas_of
from ottla.server.config_entries import topic_entries
from ottla.server.request_context import PendingAnswer, RequestContext
from ottla.storage.files.topic_file import TopicEntry


def handle(
    request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse | PendingAnswer:
    context.may_take_long()
    counts = freed_in_turns(Counter(one.name for one in in_turns(request.topics)))
    by_name = freed_in_turns({one.name: one for one in in_turns(request.topics)})
    results: dict[str, CreatableTopicResult] = freed_in_turns({})
    events: list[CreateTopic] = freed_in_turns([])
    for wanted in in_turns(by_name.values()):
        try:
            if not membership_of(context).is_controller:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            if counts[wanted.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            event = _event(wanted, context)
            results[wanted.name] = _result(event, request, context)
            events.append(event)
        except ApiError as error:
            results[wanted.name] = CreatableTopicResult(
                name=wanted.name, error_code=error.code, error_message=error.message, configs=[]
            )
    response = CreateTopicsResponse(topics=[*in_turns(results.values())])
    if request.validate_only or not events:
        return response
    asked = [(one, results[one.topic]) for one in in_turns(events)]
    return ask_controller(asked, response, context, request.timeout_ms)


def _event(wanted: CreatableTopic, context: RequestContext) -> CreateTopic:
    """Raises `ApiError` for a topic that cannot be created."""
    _check_new_name(wanted.name, context)
    check_count(len(wanted.configs))
    overrides = {one.name: one.value for one in wanted.configs}
    topic_config(context.broker.config.topic_defaults, overrides)
    return CreateTopic(
        pending_id=None,
        topic=wanted.name,
        assignment=_assignment(wanted, context),
        topic_id=context.broker.new_id(),
        settings={name: text for name, text in overrides.items() if text is not None},
    )


def _check_new_name(name: str, context: RequestContext) -> None:
    check_name(name)
    cache = replicas_of(context).metadata
    if name in cache.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    collides = [one for one in in_turns(cache.topics) if metric_name(one) == metric_name(name)]
    for other in collides:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with the existing topic '{other}': "
            "metrics do not distinguish '.' from '_'.",
        )


def _assignment(wanted: CreatableTopic, context: RequestContext) -> Mapping[int, tuple[int, ...]]:
    brokers = replicas_of(context).metadata.brokers
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "With replicas assigned, the partitions and the replication factor must be -1.",
            )
        assigned = {one.partition_index: tuple(one.broker_ids) for one in wanted.assignments}
        check_assignment(assigned, 0, len(wanted.assignments), brokers)
        return assigned
    config = context.broker.config
    count, factor = wanted.num_partitions, wanted.replication_factor
    count = config.num_partitions if count == -1 else count
    factor = config.default_replication_factor if factor == -1 else factor
    check_partition_count(count)
    chance = int.from_bytes(context.broker.new_id(), "big")
    racks = {broker: one.rack for broker, one in brokers.items()}
    size = max(1, len(racks))
    return place(racks, count, factor, Start(index=chance % size, shift=chance // size % size))


def check_assignment(
    assigned: Mapping[int, tuple[int, ...]], first: int, count: int, brokers: Mapping[int, object]
) -> None:
    """Raises `ApiError` unless partitions from `first` on are assigned to brokers that are up."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if sorted(assigned) != list(range(first, first + count)):
        raise ApiError(code, f"Partitions must be assigned from {first} on, gapless.")
    if len({len(replicas) for replicas in assigned.values()}) > 1:
        raise ApiError(code, "All partitions must have the same number of replicas.")
    for index, replicas in assigned.items():
        if not replicas or len(set(replicas)) < len(replicas):
            raise ApiError(code, f"Partition {index} needs replicas, each broker once.")
        unknown = [one for one in replicas if one not in brokers]
        if unknown:
            raise ApiError(code, f"There is no broker {unknown[0]}.")


def _result(
    event: CreateTopic, request: CreateTopicsRequest, context: RequestContext
) -> CreatableTopicResult:
    entry = TopicEntry(
        name=event.topic,
        topic_id=event.topic_id or ZERO_UUID,
        partition_count=len(event.assignment),
        overrides=event.settings,
        revision=1,
    )
    defaults = context.broker.config.topic_defaults
    topic = Topic(entry, topic_config(defaults, event.settings))
    return CreatableTopicResult(
        name=event.topic,
        topic_id=ZERO_UUID if request.validate_only else topic.topic_id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=len(event.assignment[0]),
        configs=[
            CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.source)
            for one in topic_entries(topic.config, topic.overrides, context.broker.settings)
        ],
    )
