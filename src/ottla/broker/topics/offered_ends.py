"""Offsets up to which a process that only reads a log's files may offer its records.

That is the log's end in Ottla's directories, except in a cluster, where it is the last checkpointed
high watermark. It is the latter in Apache Kafka's directories too, unless Kafka was stopped cleanly
(`ReadOnlyLog.high_watermark`).
"""

from ottla.base.partitions import TopicPartition
from ottla.storage.reading.read_only_log import ReadOnlyLog


def replicated_end(log: ReadOnlyLog) -> int:
    """Returns the offset before which a log is replicated, which is not before its start.

    Marker files identify the directories of Ottla's brokers, and those of a cluster's members.
    """
    end = log.offsets.high_watermark if log.directory.is_replicated else log.log_end_offset
    return max(log.log_start_offset, end)


class StableEnds:
    """Last stable offsets, computed again when a log has grown.

    The computation reads the batches after the recovery point. A reader that follows a log needs it
    often, so each computation continues after the previous one.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, ReadOnlyLog] = {}

    def committed_end(self, log: ReadOnlyLog) -> int:
        """Returns the offset before which a log is replicated and no transaction is open."""
        place = TopicPartition(log.topic, log.partition)
        known = self._known.get(place)
        if known is not None:
            log.transactions.continue_from(known.transactions)
        stable = log.transactions.last_stable_offset
        self._known[place] = log
        return min(replicated_end(log), stable)
