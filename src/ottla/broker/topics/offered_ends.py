"""Up to where records of a log may be offered by a process that only reads its files.

A directory of Ottla's is never replicated, so there that is the log's end; of Apache Kafka's own it
is what the broker last wrote down, unless it was stopped cleanly (`ReadOnlyLog.high_watermark`).
"""

from ottla.base.files import join
from ottla.base.partitions import TopicPartition
from ottla.storage.files.topic_file import TOPIC_FILE_NAME
from ottla.storage.reading.read_only_log import ReadOnlyLog


def replicated_end(log: ReadOnlyLog) -> int:
    """Ottla's brokers have no followers, and mark their directories with a file of their own."""
    directory = log.directory
    is_ours = directory.file_system.status(join(directory.path, TOPIC_FILE_NAME)) is not None
    return log.log_end_offset if is_ours else log.high_watermark


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
