"""What a broker that is in no cluster has instead of replicas elsewhere.

So no caller asks which of the two it talks to. `assemble` chooses.
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timers import AllTimers
from ottla.base.timestamps import Timestamps
from ottla.broker.marker_requests import NO_LEADER, THIS_BROKER
from ottla.broker.topics.topics import NewTopic, Topic, TopicCreator, Topics

if TYPE_CHECKING:
    from ottla.broker.coordinator_shards import MachineT, NewMachine, ShardOwner, Shards
    from ottla.broker.fetching import Fetcher
    from ottla.broker.waiting import DelayedOperation


class OnlyReplicas:
    """The counterpart of `Replicas`: every replica is its partition's only one, and leads it."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def leader_of(self, partition: TopicPartition) -> int | None:
        """As `Replicas.leader_of`: this broker leads what is on a disk that it can write to."""
        topic = self.topics.find(partition.topic)
        if topic is None or not self.topics.has_partition(partition):
            return None
        found = topic.partitions.get(partition.partition)
        return NO_LEADER if found is None or found.directory.is_offline else THIS_BROKER

    def shards(
        self, timers: AllTimers, new_machine: "NewMachine[MachineT]", owner: "ShardOwner[MachineT]"
    ) -> "Shards[MachineT]":
        """All partitions of an internal topic are one shard, since no other broker may lead one."""
        from ottla.broker.coordinator_shards import OneShard

        return OneShard(timers, new_machine, owner)

    def make_internal(self, new: NewTopic, creator: TopicCreator) -> Topic:
        """Creates an internal topic that a coordinator needs; raises `ApiError`."""
        return creator.create_topic(new)

    def commit_by(self, deadline_ms: float) -> "DelayedOperation | None":
        """`None`: what is written is committed, and nothing waits for it."""
        return None

    def fetcher(
        self, replica_id: int, broker_epoch: int, rack: str, at: Timestamps
    ) -> "Fetcher | None":
        """`None`: nobody follows, and no replica is nearer."""
        return None

    def elsewhere(
        self, error: ApiError, topic: str | None, topic_id: Uuid | None, index: int
    ) -> ApiError:
        """Returns the error as it is: no other broker has the partition."""
        return error
