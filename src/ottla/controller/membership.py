"""Brokers that start, change or fail, and log directories that fail.

Kafka's counterparts: `KafkaController.onBrokerStartup`, `onBrokerFailure`,
`onReplicasBecomeOffline`.
"""

from collections.abc import Iterable, Mapping, Set

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.controller.context import LiveBroker, PartitionPhase, Replica, ReplicaPhase
from ottla.controller.operations import Steps
from ottla.controller.parts import Parts
from ottla.zookeeper import paths
from ottla.zookeeper.brokers import decode_broker
from ottla.zookeeper.notices import decode_log_dir_event


def read_brokers(parts: Parts) -> Steps[dict[int, LiveBroker]]:
    """Reads all registered brokers; watches report changes of the folder and of each broker."""
    names = yield from parts.store.children(paths.BROKER_IDS, watch=True)
    ids = sorted(int(name) for name in names)
    results = yield from parts.store.get_all([paths.broker_path(one) for one in ids], watch=True)
    return {
        one: LiveBroker(decode_broker(one, result.content), result.czxid)
        for one, result in zip(ids, results, strict=True)
        if result.is_done
    }


def brokers_changed(parts: Parts) -> Steps[None]:
    """Compares the registered brokers with the known ones; a changed epoch means a restart."""
    context = parts.context
    found = yield from read_brokers(parts)
    known = context.brokers
    new = found.keys() - known.keys()
    dead = known.keys() - found.keys()
    bounced = {one for one in found.keys() & known.keys() if found[one].epoch != known[one].epoch}
    if new:
        context.brokers |= {one: found[one] for one in new}
        yield from started(parts, new)
    if bounced:
        _remove(parts, bounced)
        yield from _failed(parts, bounced)
        context.brokers |= {one: found[one] for one in bounced}
        yield from started(parts, bounced)
    if dead:
        _remove(parts, dead)
        yield from _failed(parts, dead)


def broker_changed(parts: Parts, broker: int) -> Steps[None]:
    """Handles changed endpoints or features of a broker."""
    context = parts.context
    result = yield from parts.store.get(paths.broker_path(broker), watch=True)
    known = context.brokers.get(broker)
    if not result.is_done or known is None or known.epoch != result.czxid:
        return  # gone or restarted: the change of the brokers' folder handles it
    registration = decode_broker(broker, result.content)
    if registration != known.registration:
        context.brokers[broker] = LiveBroker(registration, result.czxid)
        tell(parts, context.brokers, ())


def tell(parts: Parts, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
    parts.batch.tell(brokers, partitions)
    parts.batch.send()


def started(parts: Parts, brokers: Set[int]) -> Steps[None]:
    context = parts.context
    for broker in brokers:
        context.offline_directories.pop(broker, None)
    tell(parts, context.brokers.keys() - brokers, ())
    # A new broker first needs all leaders.
    tell(parts, brokers, context.leaderships)
    replicas = context.replicas_on(sorted(brokers))
    yield from parts.replicas.move(replicas, ReplicaPhase.ONLINE)
    yield from parts.partitions.bring_online()
    resumed = [one for one in context.reassigning if brokers & set(context.assignment(one).target)]
    for partition in sorted(resumed):
        yield from parts.reassignments.start(partition, context.assignment(partition))
    yield from parts.deletion.resume_for({one.partition.topic for one in replicas})


def _remove(parts: Parts, brokers: Iterable[int]) -> None:
    for broker in brokers:
        parts.context.brokers.pop(broker, None)


def _failed(parts: Parts, brokers: Set[int]) -> Steps[None]:
    context = parts.context
    context.shutting_down -= brokers
    for broker in brokers:
        context.offline_directories.pop(broker, None)
    yield from went_offline(parts, context.replicas_on(sorted(brokers)))


def went_offline(parts: Parts, replicas: Iterable[Replica]) -> Steps[None]:
    """Elects new leaders, and removes the replicas from the ISRs."""
    context = parts.context
    replicas = list(replicas)
    leaderless = context.partitions_with_offline_leader()
    parts.partitions.move(leaderless, PartitionPhase.OFFLINE)
    elected = yield from parts.partitions.bring_online()
    staying = [one for one in replicas if one.partition.topic not in context.to_delete]
    yield from parts.replicas.move(staying, ReplicaPhase.OFFLINE, elected)
    yield from parts.deletion.failed([one for one in replicas if one not in staying])
    if not leaderless:
        tell(parts, context.brokers, ())


def replicas_answered(
    parts: Parts, broker: int, errors: Mapping[TopicPartition, ErrorCode]
) -> Steps[None]:
    """Handles a broker's response about which of its replicas are in failed log directories."""
    context = parts.context
    before = context.offline_directories.get(broker, set())
    broken = {one for one, code in errors.items() if code is ErrorCode.KAFKA_STORAGE_ERROR}
    sound = {one for one, code in errors.items() if code is ErrorCode.NONE}
    now = (before | broken) - sound
    context.offline_directories[broker] = now
    if now - before:
        lost = [Replica(one, broker) for one in sorted(now - before)]
        yield from went_offline(parts, lost)


def log_dirs_failed(parts: Parts) -> Steps[None]:
    """Asks the brokers with failed log directories which of their replicas are online."""
    names = yield from parts.store.children(paths.LOG_DIR_EVENTS, watch=True)
    found = [f"{paths.LOG_DIR_EVENTS}/{name}" for name in names]
    results = yield from parts.store.get_all(found)
    brokers = {
        decode_log_dir_event(result.content, path)
        for path, result in zip(found, results, strict=True)
        if result.is_done
    }
    replicas = parts.context.replicas_on(sorted(brokers & parts.context.brokers.keys()))
    yield from parts.replicas.move(replicas, ReplicaPhase.ONLINE)
    yield from parts.store.delete(found)
