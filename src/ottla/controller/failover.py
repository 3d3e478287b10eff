"""Becomes the controller, and reads the state of its predecessor from the registries.

Kafka's counterparts: `KafkaController.elect`, `onControllerFailover`,
`KafkaZkClient.registerControllerAndIncrementControllerEpoch`.
"""

from ottla.controller.membership import read_brokers, tell
from ottla.controller.operations import Batch, Create, Get, Outcome, Set, Steps
from ottla.controller.parts import Parts
from ottla.controller.topic_changes import (
    deletions_changed,
    election_asked,
    read_topics,
    resume_reassignments,
)
from ottla.zookeeper import paths
from ottla.zookeeper.controllers import (
    ControllerRegistration,
    FeatureState,
    decode_controller_epoch,
    decode_features,
    encode_controller,
    encode_controller_epoch,
    encode_features,
)

INITIAL_EPOCH = 0


def elect(parts: Parts, now_ms: int) -> Steps[bool]:
    """Tries to become the controller; returns whether it succeeded. A watch reports a vacancy."""
    found = yield from parts.store.get(paths.CONTROLLER, watch=True)
    if found.is_done:
        return False
    known = yield from parts.store.get(paths.CONTROLLER_EPOCH)
    if not known.is_done:
        content = encode_controller_epoch(INITIAL_EPOCH)
        yield Batch(operations=(Create(paths.CONTROLLER_EPOCH, content),))
        known = yield from parts.store.get(paths.CONTROLLER_EPOCH)
    epoch = decode_controller_epoch(known.content) + 1
    registration = encode_controller(
        ControllerRegistration(broker_id=parts.options.broker_id, timestamp_ms=now_ms)
    )
    # Node and epoch change together, so the epoch fences the previous controller at once.
    created, raised = yield Batch(
        operations=(
            Create(paths.CONTROLLER, registration, is_ephemeral=True),
            Set(paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch), known.version),
        ),
        is_atomic=True,
    )
    again = yield from parts.store.get(paths.CONTROLLER, watch=True)
    if not (created.is_done and raised.is_done):
        # A write that is repeated after a lost connection fails because the first one succeeded.
        raised = yield from parts.store.get(paths.CONTROLLER_EPOCH)
        is_ours = again.content == registration and raised.version == known.version + 1
        if not is_ours:
            return not again.is_done and (yield from elect(parts, now_ms))
    parts.context.epoch, parts.context.epoch_version = epoch, raised.version
    return True


def take_over(parts: Parts) -> Steps[None]:
    """Reads the complete state, and resumes pending operations."""
    context, store = parts.context, parts.store
    yield from _set_up_features(parts)
    for folder in (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
        # Everything is read below, so these notices are obsolete.
        names = yield from store.children(folder, watch=True)
        yield from store.delete([f"{folder}/{name}" for name in names])
    context.brokers |= yield from read_brokers(parts)
    names = yield from store.children(paths.TOPICS, watch=True)
    yield from read_topics(parts, names)
    states = yield from store.states(list(context.all_partitions()))
    context.leaderships.update(states)
    queued = yield from store.children(paths.DELETE_TOPICS)
    if parts.options.deletes_topics:
        _queue_deletions(parts, set(queued))
    tell(parts, context.brokers, ())
    yield from parts.replicas.startup()
    yield from parts.partitions.startup()
    yield from parts.reassignments.finish_removals(list(context.leaderships))
    yield from resume_reassignments(parts)
    yield from parts.deletion.resume()
    yield from deletions_changed(parts)
    yield from election_asked(parts)


def _queue_deletions(parts: Parts, queued: set[str]) -> None:
    context = parts.context
    context.to_delete |= queued & context.topics
    blocked = {
        one.topic
        for one in context.all_partitions()
        if any(not context.is_online(broker, one) for broker in context.replicas_of(one))
    }
    context.deletion_ineligible |= context.to_delete & blocked


def _set_up_features(parts: Parts) -> Steps[None]:
    """Writes to `/feature` whether the cluster's version supports features; keeps their levels."""
    version = parts.options.version
    result = yield from parts.store.get(paths.FEATURE)
    wanted = FeatureState(is_enabled=version.has_features, version=2 if version.has("3.3") else 1)
    if not result.is_done:
        yield from parts.store.write([Create(paths.FEATURE, encode_features(wanted))])
        return
    known = decode_features(result.content)
    if known.is_enabled != wanted.is_enabled:
        content = encode_features(wanted)
        yield from parts.store.write([Set(paths.FEATURE, content, result.version)])


def is_still_ours(parts: Parts) -> Steps[bool]:
    """After a change of `/controller`, returns whether this broker's election still stands."""
    (result,) = yield Batch(operations=(Get(paths.CONTROLLER, watch=True),))
    epoch = yield from parts.store.get(paths.CONTROLLER_EPOCH)
    return (
        result.outcome is Outcome.DONE
        and epoch.is_done
        and epoch.version == parts.context.epoch_version
    )
