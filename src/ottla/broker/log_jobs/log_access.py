"""Decides which job may change a log now: retention, cleaner, moves and deletion ask here first.

While a cleaner's pass reads a log, retention does not delete its segments and no copy replaces it.
Nothing is deleted or compacted in a topic with unknown or invalid settings. A deletion does not
wait: it stops a running pass, whose result is discarded. Kafka's counterpart: `LogCleanerManager`,
in which retention, deletion and moves pause and abort cleaning.
"""

from collections.abc import Callable

from ottla.base.partitions import TopicPartition
from ottla.broker.log_jobs.cleaning_state import CleaningStates, Stop
from ottla.broker.topics.unconfirmed import Unconfirmed
from ottla.storage.log.partition_log import PartitionLog


class LogAccess:
    def __init__(
        self, unconfirmed: Unconfirmed, is_held: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`is_held`: whether a topic's settings are known, but not valid."""
        self._is_held = is_held
        self.states = CleaningStates()
        self._unconfirmed = unconfirmed
        self._cleaned: set[PartitionLog] = set()

    def may_compact(self, topic: str) -> bool:
        return self._is_decided(topic)

    def may_retain(self, topic: str, log: PartitionLog) -> bool:
        """Whether retention may move the log's start."""
        return log not in self._cleaned and self._is_decided(topic)

    def _is_decided(self, topic: str) -> bool:
        return not self._unconfirmed.is_unknown(topic) and not self._is_held(topic)

    def may_replace(self, log: PartitionLog) -> bool:
        """Whether the log's copy in another directory may replace it now."""
        return log not in self._cleaned

    def is_being_cleaned(self, log: PartitionLog) -> bool:
        return log in self._cleaned

    def begin_cleaning(self, key: TopicPartition, log: PartitionLog, stop: Stop) -> None:
        """Records that a pass begins on a free log; `stop` is called to abort it."""
        self.states.begin(key, stop)
        self._cleaned.add(log)

    def end_cleaning(self, key: TopicPartition, log: PartitionLog) -> bool:
        """Records that a pass has ended; returns whether its result is to be used."""
        self._cleaned.discard(log)
        return self.states.end(key)

    def begin_deletion(self, key: TopicPartition) -> None:
        """Stops cleaning a log that will be deleted."""
        if not self.states.is_free(key):
            self.states.pause(key)
            self.states.resume(key)
        self._unconfirmed.forget(key.topic)
