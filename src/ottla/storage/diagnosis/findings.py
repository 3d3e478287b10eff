"""The findings of a check: where something is wrong, why, and what it means for the data."""

from enum import Enum

from ottla.base.ids import Uuid
from ottla.base.values import dataclass


class FindingKind(Enum):
    """The kinds of findings, by the repair they need; the values appear in `ottla log check
    --json`.
    """

    LOG_DAMAGE = "log_damage"
    """Bytes of a log that are no batch, or one in the wrong place."""
    BATCH_OFFSET = "batch_offset"
    """A batch that is sound but for its base offset, which no checksum covers."""
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    TRANSACTION_INDEX = "transaction_index"
    MISSING_INDEX = "missing_index"
    ORPHAN_INDEX = "orphan_index"
    """An index whose log is gone."""
    PRODUCER_SNAPSHOT = "producer_snapshot"
    LEADER_EPOCHS = "leader_epochs"
    """The checkpoint is unreadable, or contradicts batches that agree among themselves."""
    BATCH_EPOCH = "batch_epoch"
    """A batch's leader epoch, which no checksum covers, is out of order."""
    UNFINISHED_SWAP = "unfinished_swap"
    DAMAGED_SWAP = "damaged_swap"
    """The same, with damage in the log that waits."""
    GAP = "gap"
    """Segments after a gap, in a log that the next start recovers: it would drop them."""
    WRONG_FILE = "wrong_file"
    """Another segment's log file, or a directory under another partition's name: only a person can
    put it back."""
    LOST_PARTITION = "lost_partition"
    """A directory that is gone: only a person can put it back, or give it up."""
    LOST_OFFSETS = "lost_offsets"
    """A gap before a segment, in a log that had none there."""
    METADATA_SNAPSHOT = "metadata_snapshot"
    """One of Kafka's snapshots of its metadata: only a backup or Kafka itself can replace it."""
    PARTITION_METADATA = "partition_metadata"
    META_PROPERTIES = "meta_properties"
    BROKER_FILE = "broker_file"
    """One of those that only Ottla's broker writes."""
    CHECKPOINT = "checkpoint"
    """Unreadable."""
    CHECKPOINT_ENTRY = "checkpoint_entry"
    """Points outside its log."""
    LEFTOVER = "leftover"
    """What an interrupted or delayed removal left; the next start clears it."""
    STRANGER = "stranger"
    """A name that means nothing here."""
    LIVE_TAIL = "live_tail"
    """The end of a log that is being written."""
    STATE = "state"
    """Worth knowing, such as a stop that was not clean."""


NOTES = frozenset(
    {FindingKind.LEFTOVER, FindingKind.STRANGER, FindingKind.LIVE_TAIL, FindingKind.STATE}
)
"""Kinds that are no damage: a directory with nothing else is sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """The offsets that damaged bytes stood for, as far as their neighbours show.

    `last` is `None` at the end of a log. `stated_last` is what the damaged header itself says.
    """

    first: int
    last: int | None
    stated_last: int | None = None
    is_control: bool = False
    """Whether its header says that it ends a transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`position` is `None` for what concerns a file or directory as a whole."""

    kind: FindingKind
    path: str
    position: int | None
    reason: str
    size: int | None = None
    """Bytes concerned, for `LOG_DAMAGE`."""
    is_zero: bool = False
    """Whether all of them are zero."""
    offset: int | None = None
    """What it should be, for `BATCH_OFFSET`."""
    lost: LostOffsets | None = None
    entry: tuple[str, int, int] | None = None
    """Topic, partition and the offset to put instead, for `CHECKPOINT_ENTRY` and `GAP`."""
    epoch: int | None = None
    """What it should be, for `BATCH_EPOCH`."""
    topic_id: Uuid | None = None
    """That of the topic's other partitions, for `PARTITION_METADATA`."""

    @property
    def is_note(self) -> bool:
        return self.kind in NOTES

    @property
    def text(self) -> str:
        where = self.path if self.position is None else f"{self.path} at byte {self.position}"
        return f"{where}: {self.reason}"
