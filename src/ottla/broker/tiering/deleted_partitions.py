"""Has the uploads of a partition deleted whose topic the controller deletes.

Kafka's counterpart: `RemoteLogManager.stopPartitions`.
"""

from typing import Protocol

from ottla.base.partitions import TopicPartition
from ottla.broker.tiering.remote_logs import RemoteLogs
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topics
from ottla.storage.remote.segment_metadata import TopicIdPartition


class KnownPartitions(Protocol):
    def has_partition(self, partition: TopicPartition) -> bool: ...


class DeletedPartitions:
    """Listens to a broker's replicas."""

    def __init__(self, here: Topics, known: KnownPartitions, remote_logs: RemoteLogs) -> None:
        """`known` are the partitions of the cluster, and `here` those of this broker."""
        self._here = here
        self._known = known
        self._remote_logs = remote_logs

    def stopped(self, partition: TopicPartition, *, delete: bool) -> None:
        """Not if the partition goes on on other brokers: then the cluster still has it.

        Each replica that is up says so, since any of them may be the last one that is.
        """
        topic = self._here.find(partition.topic)
        if delete and topic is not None and not self._known.has_partition(partition):
            place = TopicIdPartition(topic.name, topic.topic_id, partition.partition)
            self._remote_logs.partition_goes(place)

    def became_leader(self, partition: TopicPartition, leader_epoch: int) -> None:
        """The next round sees it."""

    def became_follower(self, partition: TopicPartition, leader_epoch: int) -> None:
        """The next round sees it."""

    def high_watermark_moved(self, partition: Partition) -> None:
        """The next round sees it."""
