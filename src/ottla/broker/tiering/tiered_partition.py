"""A partition of a topic that has a tier, or had one."""

from collections.abc import Container, Sequence
from typing import Final

from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.broker.tiering.tier import Tier
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.remote.copy_plan import CopyLag, LocalSegment, only_local
from ottla.storage.remote.expiration import LogState, Reason
from ottla.storage.remote.lineage import highest_remote_offset
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition

IN_DOUBT_MS: Final = 120_000
"""How long a request to another broker may be under way at most: its time-outs are shorter."""


class _Everything(Container[Uuid]):
    def __contains__(self, _: object) -> bool:
        return True


EVERYTHING: Final = _Everything()


@dataclass(slots=True)
class TierFacts:
    """What was last measured of a partition, for metrics."""

    copy_lag_bytes: int = 0
    copy_lag_segments: int = 0
    """What is due to be copied: rolled segments that the tier does not have."""
    delete_lag_bytes: int = 0
    delete_lag_segments: int = 0
    remote_bytes: int = 0
    uploads: int = 0

    def measure_deletion(
        self,
        index: SegmentIndex | None,
        going: Sequence[tuple[RemoteLogSegmentMetadata, Reason]],
    ) -> None:
        self.delete_lag_bytes = sum(one.size for one, _ in going)
        self.delete_lag_segments = len(going)
        self.remote_bytes = 0 if index is None else index.size
        self.uploads = 0 if index is None else len(index)

    def take_deletion(self, measured: "TierFacts") -> None:
        """Takes over what another thread has measured."""
        self.delete_lag_bytes = measured.delete_lag_bytes
        self.delete_lag_segments = measured.delete_lag_segments
        self.remote_bytes, self.uploads = measured.remote_bytes, measured.uploads


class TieredPartition:
    """What this broker's work on the tier knows of a partition, during one leadership.

    `being_copied` are the uploads that this broker is making.
    """

    __slots__ = (
        "being_copied",
        "copy_refusal",
        "facts",
        "has_asked_for_epochs",
        "id",
        "in_doubt",
        "leader_epoch",
        "partition",
        "since_ms",
        "topic",
    )

    def __init__(self, topic: Topic, partition: Partition, now_ms: float) -> None:
        """`now_ms` is monotonic."""
        self.topic = topic
        self.partition = partition
        self.id = TopicIdPartition(topic.name, topic.topic_id, partition.index)
        self.leader_epoch = partition.leader_epoch
        self.since_ms = now_ms
        self.being_copied: set[Uuid] = set()
        self.in_doubt: set[Uuid] = set()
        """Uploads of which it is not known whether they are recorded as finished: such a record
        may still be committed.
        """
        self.copy_refusal: tuple[int, str] | None = None
        """Since when (wall time), and why nothing of it is copied any more."""
        self.facts = TierFacts()
        self.has_asked_for_epochs = False
        """Whether the newest upload was asked for epochs that the log lacked (`lost_epochs.py`)."""

    @property
    def log(self) -> PartitionLog:
        """The log as it is now: a move to another directory replaces it."""
        return self.partition.log

    @property
    def is_here(self) -> bool:
        """Whether the partition is still the one it was, on a disk that has not failed."""
        found = self.topic.partitions.get(self.partition.index)
        return found is self.partition and not self.partition.is_offline

    @property
    def is_led(self) -> bool:
        """Whether this broker leads it, and has since this began."""
        if not self.is_here or self.partition.leader_epoch != self.leader_epoch:
            return False
        try:
            self.partition.check_leader()
        except ApiError:
            return False
        return True

    @property
    def copies(self) -> bool:
        return self.topic.config.copies_to_tier and self.copy_refusal is None

    @property
    def is_disabled(self) -> bool:
        """Whether the tier was turned off, and what is in it is to be deleted (KIP-950)."""
        config = self.topic.config
        return not config.remote_storage_enable and config.remote_log_delete_on_disable

    def note_highest(self, index: SegmentIndex | None) -> None:
        """Tells the log up to which offset the tier has it, by the uploads that exist: then local
        retention may delete it.
        """
        log = self.log
        offsets = log.offsets
        found = None
        if index is not None:
            found = highest_remote_offset(
                index, log.epochs.entries, offsets.local_start_offset, log.log_end_offset
            )
        if found is not None:
            offsets.highest_remote_offset = found.start_offset
        else:
            # If all of the tier has expired, what was there once is below the log start.
            known = offsets.highest_remote_offset
            offsets.highest_remote_offset = min(known, log.log_start_offset - 1)
        self._measure_lag()

    def _measure_lag(self) -> None:
        if not self.topic.config.copies_to_tier:
            self.facts.copy_lag_bytes = self.facts.copy_lag_segments = 0
            return
        log, highest = self.log, self.log.offsets.highest_remote_offset
        *due, _ = only_local(log.segments.values, log.log_start_offset, highest)
        self.facts.copy_lag_bytes = sum(one.size for one in due)
        self.facts.copy_lag_segments = len(due)

    def copy_lag(self) -> CopyLag:
        config = self.topic.config
        return CopyLag.of(
            ms=config.remote_copy_lag_ms,
            size=config.remote_copy_lag_bytes,
            local_ms=config.local_limit_ms,
            local_size=config.local_limit_bytes,
        )

    def _protected(self, tier: Tier) -> Container[Uuid]:
        """The uploads that must not count as abandoned: what is being copied, and what may still
        be recorded as finished by a request that is under way to another broker. Such a record
        could come first, and local retention then delete what the deletion takes from the tier.
        """
        is_alone = self.partition.replication is None  # then a record is committed at once
        if not is_alone and tier.now.monotonic_ms < self.since_ms + IN_DOUBT_MS:
            return EVERYTHING  # this broker may have sent one before it was started again
        return self.being_copied | self.in_doubt

    def log_state(self, tier: Tier) -> LogState:
        """What decides on the deletion of uploads."""
        log, config = self.log, self.topic.config
        segments: tuple[LocalSegment, ...] = log.segments.values
        return LogState(
            broker_id=tier.node_id,
            epochs=log.epochs.entries,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            segments=segments,
            retention_ms=config.retention_ms if config.deletes else -1,
            retention_bytes=config.retention_bytes if config.deletes else -1,
            being_copied=self._protected(tier),
        )
