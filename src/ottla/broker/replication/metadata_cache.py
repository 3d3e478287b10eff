"""The controller's metadata of all brokers and partitions, from which Metadata is answered.

Kafka's counterpart: `ZkMetadataCache`.
"""

from collections.abc import Mapping
from dataclasses import field
from itertools import chain

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import freed_in_turns, in_turns, yield_turn
from ottla.base.values import dataclass
from ottla.controller.context import LEADER_DURING_DELETE
from ottla.controller.requests import PartitionMetadata, UpdateMetadata
from ottla.metadata.cluster_view import NO_CONTROLLER, PartitionView
from ottla.zookeeper.brokers import BrokerRegistration, Endpoint
from ottla.zookeeper.topics import NO_LEADER


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCache:
    """Immutable: an update returns another cache."""

    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, Mapping[int, PartitionMetadata]] = field(default_factory=dict)
    topic_ids: Mapping[str, Uuid] = field(default_factory=dict)
    topic_names: Mapping[Uuid, str] = field(default_factory=dict)
    """The inverse of `topic_ids`."""
    controller: int = NO_CONTROLLER
    revision: int = 0
    """Changes with each update in which topics are created, deleted, or change their partition
    count.
    """

    def updated(self, update: UpdateMetadata, controller: int) -> "MetadataCache":
        """Returns the updated cache. The update has all live brokers, and the changed partitions.

        Yields to other requests between the elements of a large update.
        """
        changed: dict[str, dict[int, PartitionMetadata]] = freed_in_turns({})
        replaced: list[Mapping[int, PartitionMetadata]] = freed_in_turns([])
        for place, partition in in_turns(update.partitions.items()):
            topic = changed.get(place.topic)
            if topic is None:
                before = self.topics.get(place.topic, {})
                topic = changed[place.topic] = dict(before)
                # Kept until the request ends, then freed in turns: otherwise all would be freed at
                # once.
                replaced.append(before)
            if partition.state.leader == LEADER_DURING_DELETE:
                topic.pop(place.partition, None)
            else:
                topic[place.partition] = partition
        # Whole dictionaries are copied, which is fast, rather than iterated: most updates change
        # one topic.
        topics = dict(self.topics)
        yield_turn()
        ids = dict(self.topic_ids)
        yield_turn()
        names = dict(self.topic_names)
        has_resized = False
        for name in in_turns(chain(changed, update.topic_ids)):
            partitions = changed.get(name, topics.get(name))
            has_resized |= len(partitions or ()) != len(self.topics.get(name, ()))
            if not partitions:
                topics.pop(name, None)
                names.pop(ids.pop(name, ZERO_UUID), None)
                continue
            topics[name] = partitions
            topic_id = update.topic_ids.get(name)
            if topic_id is not None and topic_id != ids.get(name):
                names.pop(ids.get(name, ZERO_UUID), None)
                ids[name], names[topic_id] = topic_id, name
        return MetadataCache(
            brokers=update.brokers,
            topics=topics,
            topic_ids=ids,
            topic_names=names,
            controller=controller,
            revision=self.revision + has_resized,
        )

    def deleted_by(self, update: UpdateMetadata) -> set[str]:
        """Returns the topics of which the update has deleted the last partition."""
        return {
            place.topic
            for place, one in in_turns(update.partitions.items())
            if one.state.leader == LEADER_DURING_DELETE and place.topic not in self.topics
        }

    @property
    def brokers_by_rack(self) -> dict[int, str | None]:
        """The rack of each broker that is up, in order of their ids."""
        return {broker: one.rack for broker, one in sorted(self.brokers.items())}

    def partition(self, place: TopicPartition) -> PartitionMetadata | None:
        return self.topics.get(place.topic, {}).get(place.partition)

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        known = self.brokers.get(broker)
        return None if known is None else known.endpoint(listener)

    def partitions(self, topic: str, listener: str) -> list[PartitionView]:
        """Returns the partitions in order of their numbers."""
        known = self.topics.get(topic, {})
        return [self._view(number, known[number], listener) for number in sorted(known)]

    def _view(self, number: int, known: PartitionMetadata, listener: str) -> PartitionView:
        """A leader that is not live, or has no endpoint on the listener, is replaced by none."""
        leader, error = known.state.leader, ErrorCode.NONE
        if self.endpoint(leader, listener) is None:
            error = ErrorCode.LEADER_NOT_AVAILABLE
            if leader in self.brokers:
                error = ErrorCode.LISTENER_NOT_FOUND
            leader = NO_LEADER
        return PartitionView(
            partition=number,
            error=error,
            leader=leader,
            leader_epoch=known.state.leader_epoch,
            replicas=known.replicas,
            isr=known.state.isr,
            offline=tuple(
                one
                for one in known.replicas
                if one in known.offline or self.endpoint(one, listener) is None
            ),
        )
