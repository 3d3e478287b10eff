"""The controller's handling of requests from brokers and administrators."""

from collections.abc import Iterable
from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.controller.context import Leadership, Replica, ReplicaPhase
from ottla.controller.elections import Strategy
from ottla.controller.events import (
    AllocateProducerIds,
    AlteredAnswer,
    AlteredIsr,
    AlterPartition,
    AlterReassignments,
    Answer,
    ControlledShutdown,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    ListReassignments,
    UpdateFeature,
)
from ottla.controller.membership import tell
from ottla.controller.operations import Create, Outcome, Set, Steps
from ottla.controller.parts import Parts
from ottla.controller.topic_changes import (
    deletions_changed,
    is_possible,
    topic_changed,
    topics_changed,
)
from ottla.metadata.balancing import led_elsewhere
from ottla.zookeeper import paths
from ottla.zookeeper.controllers import (
    decode_features,
    decode_producer_ids,
    encode_features,
    encode_producer_ids,
    next_producer_ids,
)
from ottla.zookeeper.entities import encode_config
from ottla.zookeeper.topics import (
    RECOVERED,
    RECOVERING,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
    decode_topic,
    encode_topic,
)


def _broker_error(parts: Parts, broker: int, epoch: int) -> ErrorCode:
    known = parts.context.brokers.get(broker)
    if known is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    return ErrorCode.NONE if known.epoch == epoch else ErrorCode.STALE_BROKER_EPOCH


# ISRs


def alter_partition(parts: Parts, request: AlterPartition) -> Steps[Answer]:
    """Kafka's counterpart: `processAlterPartition`."""
    if _broker_error(parts, request.broker, request.broker_epoch) is not ErrorCode.NONE:
        return Answer(error=ErrorCode.STALE_BROKER_EPOCH)
    answers = {one: _judge(parts, request, one) for one in request.changes}
    wanted = {
        _place(parts, one): (one, answer.state)
        for one, answer in answers.items()
        if answer.error is ErrorCode.NONE and answer.state != _current(parts, one).state
    }
    updates = yield from parts.store.update_states(
        {
            place: Leadership(state, one.partition_epoch)
            for place, (one, state) in wanted.items()
            if state is not None
        }
    )
    written = dict(updates.written)
    known = yield from parts.store.states(updates.changed)
    # A write that is repeated after a lost connection fails because the first one succeeded.
    written |= {place: one for place, one in known.items() if one.state == wanted[place][1]}
    parts.context.leaderships.update({**known, **written})
    for place, (one, _) in wanted.items():
        if place in written:
            answers[one] = replace(answers[one], partition_epoch=written[place].version)
        else:
            answers[one] = AlteredAnswer(change=one, error=ErrorCode.INVALID_UPDATE_VERSION)
    if written:
        tell(parts, parts.context.brokers, written)
    yield from parts.reassignments.advance(written)
    for one, answer in answers.items():
        if answer.error is ErrorCode.INVALID_REQUEST and not _are_replicas(parts, one):
            # The previous controller may not have announced the current replicas.
            yield from parts.reassignments.raise_epoch(_place(parts, one))
    return Answer(altered=tuple(answers.values()))


def _place(parts: Parts, change: AlteredIsr) -> TopicPartition:
    if change.topic is not None:
        return TopicPartition(change.topic, change.partition)
    names, topic_id = parts.context.topic_names, change.topic_id
    topic = "" if topic_id is None else names.get(topic_id, "")
    return TopicPartition(topic, change.partition)


def _current(parts: Parts, change: AlteredIsr) -> Leadership:
    return parts.context.leaderships[_place(parts, change)]


def _judge(parts: Parts, request: AlterPartition, change: AlteredIsr) -> AlteredAnswer:
    """The resulting state of a partition, or the error."""
    place = _place(parts, change)
    known = parts.context.leaderships.get(place)
    if known is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if change.topic is None and not place.topic:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        return AlteredAnswer(change=change, error=unknown)
    state = known.state
    wanted = replace(
        state,
        isr=change.isr,
        recovery_state=change.recovery_state,
        controller_epoch=parts.context.epoch,
    )
    is_done = (state.isr, state.recovery_state) == (change.isr, change.recovery_state)
    if change.partition_epoch > known.version or change.leader_epoch > state.leader_epoch:
        # The leader has newer state, so another broker is the controller.
        error = ErrorCode.NOT_CONTROLLER
    elif change.leader_epoch < state.leader_epoch or state.leader != request.broker:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif is_done:
        # a repeated request whose response was lost
        return AlteredAnswer(change=change, state=state, partition_epoch=known.version)
    elif change.partition_epoch < known.version:
        error = ErrorCode.INVALID_UPDATE_VERSION
    else:
        error = _isr_error(parts, request, change, state)
    if error is not ErrorCode.NONE:
        return AlteredAnswer(change=change, error=error)
    return AlteredAnswer(change=change, state=wanted)


def _isr_error(
    parts: Parts, request: AlterPartition, change: AlteredIsr, state: PartitionState
) -> ErrorCode:
    isr = set(change.isr)
    if request.broker not in isr or not isr <= set(
        parts.context.replicas_of(_place(parts, change))
    ):
        return ErrorCode.INVALID_REQUEST
    if change.recovery_state == RECOVERING and (len(isr) > 1 or state.recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    if isr - parts.context.live_ids:
        # A broker that is down or shutting down may not join the ISR (KIP-841).
        before_kip_841 = request.version <= 1
        return ErrorCode.OPERATION_NOT_ATTEMPTED if before_kip_841 else ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _are_replicas(parts: Parts, change: AlteredIsr) -> bool:
    return set(change.isr) <= set(parts.context.replicas_of(_place(parts, change)))


# Brokers


def controlled_shutdown(parts: Parts, request: ControlledShutdown) -> Steps[Answer]:
    """Kafka's counterpart: `doControlledShutdown`."""
    context, broker = parts.context, request.broker
    known = context.brokers.get(broker)
    if known is None:
        return Answer(error=ErrorCode.BROKER_NOT_AVAILABLE)
    if request.broker_epoch not in (-1, known.epoch):
        return Answer(error=ErrorCode.STALE_BROKER_EPOCH)
    context.shutting_down.add(broker)
    movable = [
        one
        for one in context.partitions_on(broker)
        if len(context.replicas_of(one)) > 1
        and one in context.leaderships
        and one.topic not in context.to_delete
    ]
    led = [one for one in movable if context.leaderships[one].state.leader == broker]
    followed = [one for one in movable if one not in led]
    yield from parts.partitions.make_online(led, Strategy.CONTROLLED_SHUTDOWN)
    for partition in followed:
        parts.batch.stop(broker, partition, delete=False)
    parts.batch.send()
    replicas = [Replica(one, broker) for one in followed]
    yield from parts.replicas.move(replicas, ReplicaPhase.OFFLINE)
    return Answer(
        remaining=tuple(
            one
            for one, leadership in context.leaderships.items()
            if leadership.state.leader == broker and len(context.replicas_of(one)) > 1
        )
    )


def allocate_producer_ids(parts: Parts, request: AllocateProducerIds) -> Steps[Answer]:
    error = _broker_error(parts, request.broker, request.broker_epoch)
    if error is not ErrorCode.NONE:
        return Answer(error=error)
    while True:
        known = yield from parts.store.get(paths.PRODUCER_ID_BLOCK)
        block = next_producer_ids(decode_producer_ids(known.content), request.broker)
        content = encode_producer_ids(block)
        (result,) = yield from parts.store.write(
            [
                Set(paths.PRODUCER_ID_BLOCK, content, known.version)
                if known.is_done
                else Create(paths.PRODUCER_ID_BLOCK, content)
            ]
        )
        if result.is_done:
            return Answer(producer_ids=block)


# Elections


def elect_leaders(parts: Parts, request: ElectLeaders) -> Steps[Answer]:
    """Kafka's counterpart: `processReplicaLeaderElection`."""
    context = parts.context
    asked = tuple(context.all_partitions()) if request.partitions is None else request.partitions
    errors: dict[TopicPartition, ErrorCode] = {}
    for partition in asked:
        leadership = context.leaderships.get(partition)
        if not context.replicas_of(partition):
            errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.topic in context.to_delete:
            errors[partition] = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif not _needs_election(parts, partition, leadership, request.is_unclean):
            errors[partition] = ErrorCode.ELECTION_NOT_NEEDED
    wanted = [one for one in asked if one not in errors]
    strategy = Strategy.UNCLEAN if request.is_unclean else Strategy.PREFERRED
    done = yield from parts.partitions.make_online(wanted, strategy)
    failed = (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        if request.is_unclean
        else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    )
    errors |= {one: ErrorCode.NONE if one in done else failed for one in wanted}
    if request.partitions is None:
        # Without a list of partitions only actual elections are reported.
        not_needed = ErrorCode.ELECTION_NOT_NEEDED
        errors = {one: code for one, code in errors.items() if code is not not_needed}
    return Answer(errors=errors)


def _needs_election(
    parts: Parts, partition: TopicPartition, leadership: Leadership | None, is_unclean: bool
) -> bool:
    leader = -1 if leadership is None else leadership.state.leader
    if is_unclean:
        return leader not in parts.context.live_ids
    return leader != parts.context.replicas_of(partition)[0]


def rebalance_leaders(parts: Parts) -> Steps[None]:
    """Moves leaderships back to preferred leaders if a broker's imbalance exceeds the limit.

    Kafka's counterpart: `checkAndTriggerAutoLeaderRebalance`.
    """
    context = parts.context
    known = context.leaderships
    partitions = (
        (one, context.replicas_of(one)[0], known[one].state.leader if one in known else None)
        for one in context.all_partitions()
        if one.topic not in context.to_delete
    )
    for broker, elsewhere in led_elsewhere(partitions, parts.options.imbalance_percentage).items():
        able = [
            one
            for one in elsewhere
            if one not in context.reassigning
            and context.is_online(broker, one)
            and broker in known[one].state.isr
        ]
        yield from parts.partitions.make_online(able, Strategy.PREFERRED)


# Reassignments


def alter_reassignments(parts: Parts, request: AlterReassignments) -> Steps[Answer]:
    context = parts.context
    errors = {}
    for partition, target in request.wanted.items():
        known = context.assignment(partition)
        error = ErrorCode.NONE
        if not known.replicas or partition.topic in context.to_delete:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif target is None and partition not in context.reassigning:
            error = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        elif not is_possible(parts, partition, known.origin if target is None else target):
            error = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        elif not (request.may_change_count or target is None or len(target) == len(known.target)):
            error = ErrorCode.INVALID_REPLICATION_FACTOR
        else:
            wanted = known.to_target(known.origin if target is None else target)
            if wanted != known:
                yield from parts.reassignments.start(partition, wanted)
        errors[partition] = error
    return Answer(errors=errors)


def list_reassignments(parts: Parts, request: ListReassignments) -> Answer:
    context = parts.context
    asked: Iterable[TopicPartition] = sorted(context.reassigning)
    if request.partitions is not None:
        asked = [one for one in request.partitions if one in context.reassigning]
    found: dict[TopicPartition, ReplicaAssignment] = {
        one: context.assignment(one) for one in asked if context.assignment(one).is_reassigning
    }
    return Answer(reassignments=found)


# Topics


def create_topic(parts: Parts, request: CreateTopic) -> Steps[Answer]:
    """Creates a topic; writes its settings first, because its node makes it visible."""
    topic = TopicAssignment(
        partitions={one: ReplicaAssignment(its) for one, its in request.assignment.items()},
        topic_id=request.topic_id if parts.options.version.has_topic_ids else None,
    )
    found = yield from parts.store.get(paths.topic_path(request.topic))
    if found.is_done:
        return Answer(error=ErrorCode.TOPIC_ALREADY_EXISTS)
    settings, path = encode_config(request.settings), paths.config_path(f"topics/{request.topic}")
    yield from parts.store.write([Create(path, settings), Set(path, settings)])
    (result,) = yield from parts.store.write(
        [Create(paths.topic_path(request.topic), encode_topic(topic))]
    )
    if result.outcome is Outcome.NODE_EXISTS:
        return Answer(error=ErrorCode.TOPIC_ALREADY_EXISTS)
    # The watch would handle this too, but the response must wait until the topic has leaders.
    yield from topics_changed(parts)
    return Answer()


def grow_topic(parts: Parts, request: CreatePartitions) -> Steps[Answer]:
    topic = request.topic
    if topic in parts.context.to_delete:
        return Answer(error=ErrorCode.INVALID_TOPIC_EXCEPTION)
    if any(one.topic == topic for one in parts.context.reassigning):
        return Answer(error=ErrorCode.REASSIGNMENT_IN_PROGRESS)
    found = yield from parts.store.get(paths.topic_path(topic))
    if not found.is_done:
        return Answer(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    known = decode_topic(topic, found.content)
    if known.partitions.keys() & request.assignment.keys():
        return Answer(error=ErrorCode.INVALID_PARTITIONS)
    added = {one: ReplicaAssignment(its) for one, its in request.assignment.items()}
    grown = replace(known, partitions={**known.partitions, **added})
    (result,) = yield from parts.store.write(
        [Set(paths.topic_path(topic), encode_topic(grown), found.version)]
    )
    if not result.is_done:
        return Answer(error=ErrorCode.INVALID_UPDATE_VERSION)
    yield from topic_changed(parts, topic)
    return Answer()


def delete_topic(parts: Parts, request: DeleteTopic) -> Steps[Answer]:
    if not parts.options.deletes_topics:
        return Answer(error=ErrorCode.TOPIC_DELETION_DISABLED)
    if request.topic not in parts.context.topics:
        return Answer(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    yield from parts.store.write([Create(paths.delete_topic_path(request.topic), None)])
    yield from deletions_changed(parts)
    return Answer()


def update_feature(parts: Parts, request: UpdateFeature) -> Steps[Answer]:
    """Sets a feature level, which every broker must support (KIP-584)."""
    if not parts.options.version.has_features:
        return Answer(error=ErrorCode.INVALID_REQUEST)
    for broker in parts.context.brokers.values():
        supported = broker.registration.features.get(request.name, {})
        lowest, highest = supported.get("min_version", 1), supported.get("max_version", 0)
        if request.max_version_level and not lowest <= request.max_version_level <= highest:
            return Answer(error=ErrorCode.INVALID_REQUEST)
    found = yield from parts.store.get(paths.FEATURE)
    known = decode_features(found.content)
    features = {name: one for name, one in known.features.items() if name != request.name}
    if request.max_version_level:
        features[request.name] = {"max_version_level": request.max_version_level}
    content = encode_features(replace(known, features=features))
    (result,) = yield from parts.store.write([Set(paths.FEATURE, content, found.version)])
    return Answer(error=ErrorCode.NONE if result.is_done else ErrorCode.FEATURE_UPDATE_FAILED)
