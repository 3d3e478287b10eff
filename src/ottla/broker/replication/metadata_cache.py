"""What the controller has said of all brokers and partitions: Metadata is answered from this.

Kafka's counterpart: `ZkMetadataCache`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns
from ottla.controller.context import LEADER_DURING_DELETE
from ottla.controller.requests import PartitionMetadata, UpdateMetadata
from ottla.registries.brokers import BrokerRegistration, Endpoint
from ottla.registries.topics import NO_LEADER

NO_CONTROLLER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition as Metadata shows it to clients of one listener."""

    partition: int
    error: ErrorCode
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCache:
    """A value: an update makes another."""

    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, Mapping[int, PartitionMetadata]] = field(default_factory=dict)
    topic_ids: Mapping[str, Uuid] = field(default_factory=dict)
    topic_names: Mapping[Uuid, str] = field(default_factory=dict)
    """The inverse of `topic_ids`."""
    controller: int = NO_CONTROLLER

    def updated(self, update: UpdateMetadata, controller: int) -> "MetadataCache":
        """The brokers are all there are; of partitions there are those that changed."""
        changed: dict[str, dict[int, PartitionMetadata]] = {}
        for place, partition in update.partitions.items():
            topic = changed.get(place.topic)
            if topic is None:
                topic = changed[place.topic] = dict(self.topics.get(place.topic, {}))
            if partition.state.leader == LEADER_DURING_DELETE:
                topic.pop(place.partition, None)
            else:
                topic[place.partition] = partition
        # Whole dictionaries are copied, not gone through: most updates are of one topic.
        topics, ids = {**self.topics, **changed}, {**self.topic_ids, **update.topic_ids}
        names = dict(self.topic_names)
        for name in {**changed, **update.topic_ids}:
            names.pop(self.topic_ids.get(name, ZERO_UUID), None)
            if not topics.get(name):
                topics.pop(name, None)
                ids.pop(name, None)
            elif name in ids:
                names[ids[name]] = name
        return MetadataCache(
            brokers=update.brokers,
            topics=topics,
            topic_ids=ids,
            topic_names=names,
            controller=controller,
        )

    def deleted_by(self, update: UpdateMetadata) -> set[str]:
        """The topics of which that update has left no partition."""
        return {
            place.topic
            for place, one in in_turns(update.partitions.items())
            if one.state.leader == LEADER_DURING_DELETE and place.topic not in self.topics
        }

    def partition(self, place: TopicPartition) -> PartitionMetadata | None:
        return self.topics.get(place.topic, {}).get(place.partition)

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        known = self.brokers.get(broker)
        return None if known is None else known.endpoint(listener)

    def partitions(self, topic: str, listener: str) -> list[PartitionView]:
        """In the order of their numbers."""
        known = self.topics.get(topic, {})
        return [self._view(number, known[number], listener) for number in sorted(known)]

    def _view(self, number: int, known: PartitionMetadata, listener: str) -> PartitionView:
        """A leader that is not up, or cannot be reached over the listener, is shown as none."""
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
