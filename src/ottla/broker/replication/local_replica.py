"""This broker's own replica of a partition, in the state that leaders and followers share."""

from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.replication.effects import Effect, MoveHighWatermark
from ottla.broker.replication.replica_log import ReplicaLog


@dataclass(slots=True, kw_only=True)
class LocalReplica:
    partition: TopicPartition
    broker_id: int
    log: ReplicaLog
    high_watermark: int

    def raise_high_watermark(self, offset: int) -> list[Effect]:
        """Raises the high watermark; only a truncation of the log lowers it."""
        if offset <= self.high_watermark:
            return []
        self.high_watermark = offset
        return [MoveHighWatermark(self.partition, offset)]
