"""Which job may change a log now: retention, the cleaner, moves and deletion ask here first.

While a pass of the cleaner reads a log, retention does not cut it and no copy replaces it. Nothing
is deleted or compacted in a topic with unknown settings. A deletion does not wait: a running pass
is stopped, and its result is discarded. Kafka's counterpart: `LogCleanerManager`, which retention,
deletion and moves pause and abort.
"""

from contextlib import suppress

from ottla.base.errors import StorageError
from ottla.base.partitions import TopicPartition
from ottla.broker.adoption.adoption_store import AdoptionStore
from ottla.broker.log_jobs.cleaning_state import CleaningStates, Stop
from ottla.storage.log.partition_log import PartitionLog


class LogAccess:
    def __init__(self, adoption: AdoptionStore) -> None:
        self.states = CleaningStates()
        self._adoption = adoption
        self._cleaned: set[PartitionLog] = set()

    def may_compact(self, topic: str) -> bool:
        return not self._adoption.is_unknown(topic)

    def may_retain(self, topic: str, log: PartitionLog) -> bool:
        """Whether retention may move the log's start."""
        return log not in self._cleaned and not self._adoption.is_unknown(topic)

    def may_replace(self, log: PartitionLog) -> bool:
        """Whether the log's copy in another directory may take its place."""
        return log not in self._cleaned

    def is_being_cleaned(self, log: PartitionLog) -> bool:
        return log in self._cleaned

    def begin_cleaning(self, key: TopicPartition, log: PartitionLog, stop: Stop) -> None:
        """A pass begins on a log that is free; `stop` is called when nobody wants it any more."""
        self.states.begin(key, stop)
        self._cleaned.add(log)

    def end_cleaning(self, key: TopicPartition, log: PartitionLog) -> bool:
        """The pass has come back; returns whether its work is still wanted."""
        self._cleaned.discard(log)
        return self.states.end(key)

    def begin_deletion(self, key: TopicPartition) -> None:
        """The log is about to go."""
        if not self.states.is_free(key):
            self.states.pause(key)
            self.states.resume(key)
        with suppress(StorageError):  # logged where the directory went offline
            self._adoption.forget(key.topic)
