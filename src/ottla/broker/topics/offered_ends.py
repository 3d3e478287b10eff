"""Up to where records of a log may be offered by a process that only reads its files.

In a directory of Ottla's it is the log's end, but in a cluster what the broker wrote down last; of
Apache Kafka's own that too, unless it was stopped cleanly (`ReadOnlyLog.high_watermark`).
"""

from ottla.base.partitions import TopicPartition
from ottla.storage.reading.read_only_log import ReadOnlyLog


def replicated_end(log: ReadOnlyLog) -> int:
    """Ottla's brokers mark their directories with a file of their own, those of a cluster with
    another one."""
    return log.high_watermark if log.directory.is_replicated else log.log_end_offset


class StableEnds:
    """Last stable offsets, looked for again where a log has grown.

    Finding the offset takes a walk over the batches after the recovery point, and a reader that
    follows a log asks often: each walk continues where the one before it ended.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, ReadOnlyLog] = {}

    def committed_end(self, log: ReadOnlyLog) -> int:
        """Up to where a log is replicated, and no transaction is open."""
        place = TopicPartition(log.topic, log.partition)
        known = self._known.get(place)
        if known is not None:
            log.continue_from(known)
        stable = log.last_stable_offset
        self._known[place] = log
        return min(replicated_end(log), stable)
