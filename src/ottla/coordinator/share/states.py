"""Which partitions of a share group have a state at the share coordinators, and how that changes.

A state begins before its partition is assigned, begins anew where an administrator says, and is
deleted with the group, or when an administrator deletes its offset. The group notes what it asks
for first, so that after a crash it is asked for again. Kafka's counterparts:
`GroupMetadataManager.alterShareGroupOffsets`, `sharePartitionsEligibleForOffsetDeletion`,
`maybeCleanupShareGroupState`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import by_topic
from ottla.coordinator.catalog import CatalogTopic, TopicCatalog
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.share.group import SharedTopic, SharedTopics, ShareGroup
from ottla.coordinator.share.plan import SharePlan
from ottla.coordinator.share.requests import PartitionToInitialize

NEW_TOPIC: Final = -1
"""The leader decides where to begin, by `share.auto.offset.reset`."""
NEW_PARTITION: Final = 0
"""A partition of a topic that the group reads already begins at its beginning, so that nothing is
missed.
"""
NO_PARTITIONS: Final[frozenset[int]] = frozenset()


def check_empty(group: ShareGroup) -> None:
    """Raises `ApiError(NON_EMPTY_GROUP)`."""
    if not group.is_empty:
        raise ApiError(
            ErrorCode.NON_EMPTY_GROUP,
            f"Group {group.group_id} has members, which must leave first.",
        )


def begin_states(
    plan: SharePlan, topics: Iterable[CatalogTopic], catalog: TopicCatalog, *, asks_again: bool
) -> list[PartitionToInitialize]:
    """Notes the partitions whose state is to begin, and forgets topics that are gone."""
    forget_gone(plan, catalog)
    group = plan.group
    initializing = dict(group.initializing)
    found: list[PartitionToInitialize] = []
    for topic in topics:
        topic_id, name = topic.topic_id, topic.name
        done, under_way = _of(group.initialized, topic_id), _of(group.initializing, topic_id)
        missing = frozenset(range(topic.partition_count)) - done - under_way
        if missing:
            initializing[topic_id] = SharedTopic(name, under_way | missing)
        start = NEW_PARTITION if done else NEW_TOPIC
        for index in sorted(missing | under_way if asks_again else missing):
            found.append(PartitionToInitialize(topic_id, name, index, start))
    if initializing != group.initializing:
        plan.set_topics(initializing, group.initialized, group.deleting)
    if found:
        plan.asked()
    return found


def states_have_begun(plan: SharePlan, partitions: Iterable[TopicIdPartition]) -> None:
    """Notes partitions whose states have begun; they are assigned from now on."""
    group = plan.group
    initializing, initialized = dict(group.initializing), dict(group.initialized)
    for topic_id, indexes in by_topic(partitions).items():
        topic = initializing.pop(topic_id, None)
        if topic is None:
            continue
        begun = topic.partitions.intersection(indexes)
        if begun < topic.partitions:
            initializing[topic_id] = SharedTopic(topic.name, topic.partitions - begun)
        if begun:
            done = _of(initialized, topic_id) | begun
            initialized[topic_id] = SharedTopic(topic.name, done)
    if initialized != group.initialized:
        plan.set_topics(initializing, initialized, group.deleting)
        plan.raise_epoch(group.metadata_hash)


def begin_again(
    plan: SharePlan, partitions: Iterable[tuple[CatalogTopic, Collection[int]]]
) -> None:
    """Notes partitions whose states are to begin where an administrator says, with the new epoch of
    the group. Those that have a state keep their place: should it not begin anew, it is still
    there. Raises `ApiError(NON_EMPTY_GROUP)`.
    """
    check_empty(plan.group)
    plan.raise_epoch(plan.group.metadata_hash)
    group = plan.group
    initializing = dict(group.initializing)
    for topic, indexes in partitions:
        new = frozenset(indexes) - _of(group.initialized, topic.topic_id)
        if new:
            under_way = _of(initializing, topic.topic_id)
            initializing[topic.topic_id] = SharedTopic(topic.name, under_way | new)
    if initializing != group.initializing:
        plan.set_topics(initializing, group.initialized, group.deleting)
        plan.asked()


def begin_deletion(
    plan: SharePlan, topic_ids: Collection[Uuid] | None, catalog: TopicCatalog
) -> list[TopicIdPartition]:
    """Notes topics whose states are to be deleted, and returns their partitions; all topics if
    `None`. An earlier deletion that has not ended is asked for again. Raises
    `ApiError(NON_EMPTY_GROUP)`.
    """
    check_empty(plan.group)
    group = plan.group
    known = {**group.initializing, **group.initialized}
    found = {
        topic_id: _of(group.initializing, topic_id) | _of(group.initialized, topic_id)
        for topic_id in known
        if topic_ids is None or topic_id in topic_ids
    }
    deleting = {**group.deleting, **{topic_id: known[topic_id].name for topic_id in found}}
    if deleting != group.deleting:
        plan.set_topics(
            _without(group.initializing, found), _without(group.initialized, found), deleting
        )
    for topic_id, name in deleting.items():
        topic = catalog.find(name)
        is_wanted = topic_ids is None or topic_id in topic_ids
        if is_wanted and topic is not None and topic.topic_id == topic_id:
            found[topic_id] = frozenset(range(topic.partition_count))
    return [(topic_id, index) for topic_id, its in found.items() for index in sorted(its)]


def states_are_deleted(plan: SharePlan, topic_ids: Iterable[Uuid]) -> None:
    group = plan.group
    gone = frozenset(topic_ids)
    deleting = {topic_id: name for topic_id, name in group.deleting.items() if topic_id not in gone}
    if deleting != group.deleting:
        plan.set_topics(group.initializing, group.initialized, deleting)


def forget_gone(plan: SharePlan, catalog: TopicCatalog) -> None:
    """Forgets topics that are deleted: the share coordinators delete their states by themselves."""
    group = plan.group
    names = {
        **{topic_id: topic.name for topic_id, topic in group.initializing.items()},
        **{topic_id: topic.name for topic_id, topic in group.initialized.items()},
        **group.deleting,
    }
    found = {topic_id: catalog.find(name) for topic_id, name in names.items()}
    gone = {
        topic_id for topic_id, topic in found.items() if topic is None or topic.topic_id != topic_id
    }
    if gone:
        plan.set_topics(
            _without(group.initializing, gone),
            _without(group.initialized, gone),
            {topic_id: name for topic_id, name in group.deleting.items() if topic_id not in gone},
        )


def _of(topics: SharedTopics, topic_id: Uuid) -> frozenset[int]:
    topic = topics.get(topic_id)
    return NO_PARTITIONS if topic is None else topic.partitions


def _without(topics: SharedTopics, gone: Collection[Uuid]) -> Mapping[Uuid, SharedTopic]:
    return {topic_id: topic for topic_id, topic in topics.items() if topic_id not in gone}
