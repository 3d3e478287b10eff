"""A replica's log as the machine reads it, without changing it."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition


class EpochEnd(NamedTuple):
    """The largest leader epoch that is not above the requested one, and its end offset."""

    epoch: int
    end_offset: int


class ReplicaLog(Protocol):
    @property
    def log_start_offset(self) -> int: ...

    @property
    def local_start_offset(self) -> int:
        """The first offset of the local segments; what is before it is in the tier."""

    @property
    def log_end_offset(self) -> int:
        """The end of the written log; followers and consumers may read up to it."""

    @property
    def recorded_high_watermark(self) -> int:
        """From `replication-offset-checkpoint`, as read when the log was opened."""

    @property
    def latest_epoch(self) -> int | None:
        """`None` for a log without leader epochs: it is empty, or from before 0.11."""

    @property
    def has_tier(self) -> bool:
        """Whether the topic has a remote tier, by its current settings."""

    @property
    def min_insync_replicas(self) -> int:
        """The topic's current setting."""

    def end_offset_for(self, epoch: int) -> EpochEnd | None:
        """Returns `None` for an epoch above all known ones."""


class ReplicaLogs(Protocol):
    def open(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        settings: Mapping[str, str],
        *,
        is_new: bool,
    ) -> ReplicaLog:
        """Returns the log of a replica; creates it if it is missing. A replica that is not new may
        be in an offline directory. Raises `ApiError`.
        """
