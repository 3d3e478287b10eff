"""Up to where records of a log may be offered by a process that only reads its files.

A directory of Ottla's is never replicated, so there that is the log's end; of Apache Kafka's own it
is what the broker last wrote down, unless it was stopped cleanly (`ReadOnlyLog.high_watermark`).
"""

from ottla.base.files import join
from ottla.base.ids import Uuid
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

    Markers are appended, as all else is. Finding the offset takes a walk over the batches after the
    recovery point, and a reader that follows a log asks often.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, tuple[Uuid | None, int, int]] = {}

    def committed_end(self, log: ReadOnlyLog) -> int:
        """Up to where a log is replicated, and no transaction is open."""
        place = TopicPartition(log.topic, log.partition)
        known = self._known.get(place)
        if known is None or known[:2] != (log.topic_id, log.log_end_offset):
            known = (log.topic_id, log.log_end_offset, log.last_stable_offset)
            self._known[place] = known
        return min(replicated_end(log), known[2])
