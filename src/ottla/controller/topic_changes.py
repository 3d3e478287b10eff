"""Topics and partitions that appear in the registries, and requests in its queues.

Kafka's counterparts: `processTopicChange`, `processPartitionModifications`, `processTopicDeletion`,
`processZkPartitionReassignment`, `processIsrChangeNotification`.
"""

from collections.abc import Iterable

from ottla.base.partitions import TopicPartition
from ottla.controller.context import Leadership, PartitionPhase, ReplicaPhase
from ottla.controller.elections import Strategy
from ottla.controller.membership import tell
from ottla.controller.operations import Delete, Steps
from ottla.controller.parts import Parts
from ottla.zookeeper import paths
from ottla.zookeeper.notices import decode_partitions, decode_reassignment
from ottla.zookeeper.topics import ReplicaAssignment, TopicAssignment


def read_topics(parts: Parts, names: Iterable[str]) -> Steps[list[TopicPartition]]:
    """Reads and watches topics; returns their new partitions."""
    found = yield from parts.store.topics(sorted(names), watch=True)
    return [one for name, topic in found.items() for one in _take(parts, name, topic)]


def _take(parts: Parts, name: str, topic: TopicAssignment) -> list[TopicPartition]:
    """Adds a topic to the context; returns its new partitions."""
    context = parts.context
    known = context.assignments.setdefault(name, {})
    new = sorted(topic.partitions.keys() - known.keys())
    for partition in new:
        known[partition] = topic.partitions[partition]
    if topic.topic_id is not None:
        topic_id = context.topic_ids.setdefault(name, topic.topic_id)
        context.topic_names[topic_id] = name
    return [TopicPartition(name, partition) for partition in new]


def topics_changed(parts: Parts) -> Steps[None]:
    context = parts.context
    names = set((yield from parts.store.children(paths.TOPICS, watch=True)))
    for topic in context.topics - names:
        context.remove_topic(topic)
    new = yield from read_topics(parts, names - context.topics)
    yield from create_partitions(parts, new)


def topic_changed(parts: Parts, topic: str) -> Steps[None]:
    """Adds new partitions of a topic; removes them from one that is being deleted."""
    context = parts.context
    found = yield from parts.store.topics([topic], watch=True)
    if topic not in context.assignments or topic not in found:
        return
    if topic in context.to_delete:
        if found[topic].partitions.keys() - context.assignments[topic].keys():
            yield from parts.store.write_topic(topic)
        return
    yield from create_partitions(parts, _take(parts, topic, found[topic]))


def create_partitions(parts: Parts, partitions: list[TopicPartition]) -> Steps[None]:
    """Elects the first leaders of new partitions."""
    if not partitions:
        return
    context = parts.context
    parts.partitions.move(partitions, PartitionPhase.NEW)
    yield from parts.replicas.move(context.replicas_for(partitions), ReplicaPhase.NEW)
    yield from parts.partitions.make_online(partitions, Strategy.OFFLINE)
    yield from parts.replicas.move(context.replicas_for(partitions), ReplicaPhase.ONLINE)


def deletions_changed(parts: Parts) -> Steps[None]:
    names = set((yield from parts.store.children(paths.DELETE_TOPICS, watch=True)))
    unknown = sorted(names - parts.context.topics)
    yield from parts.store.delete([paths.delete_topic_path(topic) for topic in unknown])
    wanted = names & parts.context.topics
    if not parts.options.deletes_topics:
        yield from parts.store.delete([paths.delete_topic_path(one) for one in sorted(wanted)])
    elif new := wanted - parts.context.to_delete:
        moving = [one for one in parts.context.reassigning if one.topic in new]
        yield from parts.deletion.enqueue(new)
        if moving:
            yield from parts.reassignments.forget(moving)


def reassignment_asked(parts: Parts) -> Steps[None]:
    """Starts the reassignments that tools before 2.6 request in a node; removes rejected ones."""
    result = yield from parts.store.get(paths.REASSIGN_PARTITIONS, watch=True)
    if not result.is_done:
        return
    refused = []
    for partition, target in decode_reassignment(result.content).items():
        if is_possible(parts, partition, target):
            known = parts.context.assignment(partition)
            wanted = known.to_target(target)
            if wanted != known or partition not in parts.context.reassigning:
                yield from parts.reassignments.start(partition, wanted)
        else:
            refused.append(partition)
    if refused:
        yield from parts.reassignments.forget(refused)


def is_possible(parts: Parts, partition: TopicPartition, target: tuple[int, ...]) -> bool:
    """Whether the partition exists and `target` are distinct online brokers.

    Different from Kafka: the new replicas must include one that is in the ISR. Kafka stops and
    deletes replicas that a cancelled or changed reassignment was adding, even the last one in sync.
    """
    context = parts.context
    known = context.assignment(partition)
    leadership = context.leaderships.get(partition)
    kept = set(known.to_target(target).replicas)
    if leadership is not None and not kept & set(leadership.state.isr):
        return False
    return bool(
        known.replicas
        and target
        and len(set(target)) == len(target)
        and min(target) >= 0
        and set(target) - set(known.origin) <= context.brokers.keys()
        and partition.topic not in context.to_delete
    )


def resume_reassignments(parts: Parts) -> Steps[None]:
    """After a failover, continues the reassignments in the request node and topics' nodes."""
    yield from reassignment_asked(parts)
    context = parts.context
    moving = [
        one
        for one in context.all_partitions()
        if context.assignment(one).is_reassigning and one not in context.reassigning
    ]
    for partition in moving:
        if partition.topic not in context.to_delete:
            yield from parts.reassignments.start(partition, context.assignment(partition))


def election_asked(parts: Parts) -> Steps[None]:
    """Starts the preferred elections that tools before 2.4 request in a node."""
    result = yield from parts.store.get(paths.PREFERRED_ELECTION, watch=True)
    if not result.is_done:
        return
    wanted = [
        one
        for one in decode_partitions(result.content)
        if one in parts.context.partition_phases and one.topic not in parts.context.to_delete
    ]
    yield from parts.partitions.make_online(wanted, Strategy.PREFERRED)
    yield from parts.store.write([Delete(paths.PREFERRED_ELECTION)])


def isrs_changed(parts: Parts) -> Steps[None]:
    """Reads the states that leaders wrote themselves (before 2.7-IV2)."""
    names = yield from parts.store.children(paths.ISR_CHANGES, watch=True)
    found = [f"{paths.ISR_CHANGES}/{name}" for name in names]
    results = yield from parts.store.get_all(found)
    changed: dict[TopicPartition, None] = {}
    for path, result in zip(found, results, strict=True):
        if result.is_done:
            changed |= dict.fromkeys(decode_partitions(result.content, path))
    known = yield from refresh_states(parts, [one for one in changed if _is_known(parts, one)])
    yield from parts.reassignments.finish_removals(known)
    tell(parts, parts.context.brokers, changed)
    yield from parts.store.delete(found)


def _is_known(parts: Parts, partition: TopicPartition) -> bool:
    return parts.context.assignment(partition) != ReplicaAssignment(())


def refresh_states(
    parts: Parts, partitions: Iterable[TopicPartition]
) -> Steps[dict[TopicPartition, Leadership]]:
    known = yield from parts.store.states(list(partitions))
    parts.context.leaderships.update(known)
    return known


def state_changed(parts: Parts, partition: TopicPartition) -> Steps[None]:
    """Continues a reassignment whose new replicas may have joined the ISR."""
    if partition in parts.context.reassigning:
        yield from parts.store.states([partition], watch=True)
        yield from parts.reassignments.advance([partition])
