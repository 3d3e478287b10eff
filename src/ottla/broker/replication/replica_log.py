"""What the machine must know of a replica's log. It reads this and changes nothing."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition


class EpochEnd(NamedTuple):
    """The largest leader epoch up to the one asked for, and the offset at which it ended."""

    epoch: int
    end_offset: int


class ReplicaLog(Protocol):
    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int:
        """Of what is written out: followers and readers may have it."""

    @property
    def recorded_high_watermark(self) -> int:
        """As `replication-offset-checkpoint` has it; read when the log is opened."""

    @property
    def latest_epoch(self) -> int | None:
        """`None` of a log without leader epochs: it is empty, or of before 0.11."""

    @property
    def min_insync_replicas(self) -> int:
        """As the topic is set now."""

    def end_offset_for(self, epoch: int) -> EpochEnd | None:
        """`None` for an epoch later than any known one."""


class ReplicaLogs(Protocol):
    def open(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        settings: Mapping[str, str],
        *,
        is_new: bool,
    ) -> ReplicaLog:
        """The log of a replica, created where there is none; one that is not new may lie in a
        directory that is offline. Raises `ApiError`."""
