"""What a broker that is in no cluster has instead of replicas elsewhere.

So no caller asks which of the two it talks to. `assemble` chooses.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, StorageError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timers import AllTimers
from ottla.base.timestamps import Timestamps
from ottla.broker.metadata.image_topics import ImageTopics
from ottla.broker.topics.topics import Topic, TopicCreator
from ottla.metadata.cluster_view import NO_EPOCH, NO_LEADER
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.image import HasImage

if TYPE_CHECKING:
    from ottla.broker.coordination.shards import (
        MachineT,
        NewMachine,
        PartitionOwner,
        ShardOwner,
        Shards,
    )
    from ottla.broker.waiting.fetch_queries import Fetcher
    from ottla.broker.waiting.rooms import DelayedOperation


class OnlyReplicas:
    """The counterpart of `Replicas`: every replica is its partition's only one, and leads it."""

    def __init__(self, known: HasImage) -> None:
        self.topics = ImageTopics(known)
        self.lost: Mapping[TopicPartition, str] = {}
        """None: a damaged log is served, since nobody else could, and one that is gone has failed
        by itself.
        """
        self._known = known

    def gone(self, place: TopicPartition, failure: StorageError) -> None:
        """The folder of a log is gone: there is nobody to tell."""

    def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Returns the leader and its epoch; -1 for none."""
        known = self._known.image.partition(partition)
        return (NO_LEADER, NO_EPOCH) if known is None else (known.leader, known.leader_epoch)

    def shards(
        self, timers: AllTimers, new_machine: "NewMachine[MachineT]", owner: "ShardOwner[MachineT]"
    ) -> "Shards[MachineT]":
        """All partitions of an internal topic are one shard, since no other broker may lead one."""
        from ottla.broker.coordination.shards import OneShard

        return OneShard(timers, new_machine, owner)

    def partition_shards(
        self,
        timers: AllTimers,
        new_machine: "NewMachine[MachineT]",
        owner: "PartitionOwner[MachineT]",
    ) -> "Shards[MachineT]":
        """Each partition is a shard, which is loaded when it is first needed."""
        from ottla.broker.coordination.shards import OwnShards

        return OwnShards(timers, new_machine, owner)

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
