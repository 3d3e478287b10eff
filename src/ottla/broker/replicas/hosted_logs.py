"""The logs of a broker's replicas, for the machine in `replication`.

Kafka's counterparts: `Partition.createLogIfNotExists`, `LogManager.getOrCreateLog`.
"""

from collections.abc import Callable, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.replica_log import EpochEnd
from ottla.broker.topics.hosting import Hosting
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topics
from ottla.storage.directory.log_directories import LogDirectories


class HostedLog:
    """The log of a partition, which may move to another directory.

    `log_end_offset` is the end of the written log, as of the last `written_out`.
    """

    __slots__ = ("log_end_offset", "partition", "recorded_high_watermark")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.log_end_offset = partition.log.log_end_offset
        self.recorded_high_watermark = partition.log.high_watermark

    def written_out(self) -> None:
        """Updates the log end offset; the caller has written all appends."""
        self.log_end_offset = self.partition.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.partition.log.log_start_offset

    @property
    def local_start_offset(self) -> int:
        return self.partition.log.local_start_offset

    @property
    def latest_epoch(self) -> int | None:
        return self.partition.log.epochs.latest_epoch

    @property
    def has_tier(self) -> bool:
        return self.partition.log.config.remote_storage_enable

    @property
    def min_insync_replicas(self) -> int:
        return self.partition.log.config.min_insync_replicas

    def end_offset_for(self, epoch: int) -> EpochEnd | None:
        found = self.partition.log.epochs.end_offset_for(epoch, self.log_end_offset)
        return None if found is None else EpochEnd(*found)


class HostedLogs:
    """Opens the logs of replicas; `on_open` is called for each opened partition."""

    def __init__(
        self,
        hosting: Hosting,
        topics: Topics,
        directories: LogDirectories,
        on_open: Callable[[HostedLog], None],
    ) -> None:
        self._hosting = hosting
        self._topics = topics
        self._directories = directories
        self._on_open = on_open

    def open(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        settings: Mapping[str, str],
        *,
        is_new: bool,
    ) -> HostedLog:
        """Returns the log, creating it if necessary.

        Raises `ApiError`: KAFKA_STORAGE_ERROR, or INCONSISTENT_TOPIC_ID.
        """
        topic = self._topics.find(partition.topic)
        is_here = topic is not None and partition.partition in topic.known_indexes
        if not (is_here or is_new or self._directories.is_complete):
            # The log may be in the offline directory (KIP-112).
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        found = self._hosting.host(partition, topic_id or ZERO_UUID, settings)
        if found.is_offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        hosted = HostedLog(found)
        self._on_open(hosted)
        return hosted
