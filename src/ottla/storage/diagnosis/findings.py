"""The findings of a check: the location, kind and reason of each, and the offsets that are lost."""

from enum import Enum

from ottla.base.ids import Uuid
from ottla.base.values import dataclass


class FindingKind(Enum):
    """The kinds of findings, by the repair that they need.

    The values appear in `ottla log check --json`.
    """

    LOG_DAMAGE = "log_damage"
    """Bytes of a log that are not a valid batch, or a batch out of order."""
    BATCH_OFFSET = "batch_offset"
    """A sound batch with a wrong base offset, which the CRC does not cover."""
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    TRANSACTION_INDEX = "transaction_index"
    MISSING_INDEX = "missing_index"
    ORPHAN_INDEX = "orphan_index"
    """An index without a log file."""
    PRODUCER_SNAPSHOT = "producer_snapshot"
    LEADER_EPOCHS = "leader_epochs"
    """The checkpoint is unreadable, or contradicts batches that are consistent."""
    BATCH_EPOCH = "batch_epoch"
    """A batch's leader epoch, which the CRC does not cover, is out of order."""
    UNFINISHED_SWAP = "unfinished_swap"
    DAMAGED_SWAP = "damaged_swap"
    """An unfinished swap whose new log is damaged."""
    GAP = "gap"
    """A segment after a gap, which the next start would drop in recovery."""
    WRONG_FILE = "wrong_file"
    """A log file of another segment, or a directory of another partition; the user must put the
    right one back."""
    LOST_PARTITION = "lost_partition"
    """A missing partition directory; the user must put it back, or give it up."""
    LOST_OFFSETS = "lost_offsets"
    """A gap that was not there before, or a log file that has lost its end."""
    METADATA_SNAPSHOT = "metadata_snapshot"
    """A damaged snapshot of Kafka's metadata, which only a backup or Kafka can replace."""
    PARTITION_METADATA = "partition_metadata"
    META_PROPERTIES = "meta_properties"
    BROKER_FILE = "broker_file"
    """A damaged or missing file that only Ottla's broker writes."""
    CHECKPOINT = "checkpoint"
    """An unreadable checkpoint."""
    CHECKPOINT_ENTRY = "checkpoint_entry"
    """An offset outside its log."""
    LEFTOVER = "leftover"
    """A file of an interrupted or delayed removal, which the next start removes."""
    STRANGER = "stranger"
    """An unknown file name."""
    LIVE_TAIL = "live_tail"
    """The end of a log that is being written."""
    STATE = "state"
    """A state worth knowing, such as an unclean shutdown."""


NOTES = frozenset(
    {FindingKind.LEFTOVER, FindingKind.STRANGER, FindingKind.LIVE_TAIL, FindingKind.STATE}
)
"""Kinds that are not damage: a directory with only these is sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """The offsets that are lost with damaged bytes, by the batches before and after them.

    `last` is `None` at the end of a log. `stated_last` is the last offset in the damaged header.
    """

    first: int
    last: int | None
    stated_last: int | None = None
    is_control: bool = False
    """Whether the damaged header is that of a control batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding; `position` is `None` if it is about a whole file or directory."""

    kind: FindingKind
    path: str
    position: int | None
    reason: str
    size: int | None = None
    """The number of damaged bytes, for `LOG_DAMAGE`."""
    is_zero: bool = False
    """Whether all these bytes are zero."""
    offset: int | None = None
    """The right base offset, for `BATCH_OFFSET`."""
    lost: LostOffsets | None = None
    entry: tuple[str, int, int] | None = None
    """Topic, partition and the right offset, for `CHECKPOINT_ENTRY` and `GAP`."""
    epoch: int | None = None
    """The right epoch, for `BATCH_EPOCH`."""
    topic_id: Uuid | None = None
    """The id of the topic's other partitions, for `PARTITION_METADATA`."""

    @property
    def is_note(self) -> bool:
        return self.kind in NOTES

    @property
    def text(self) -> str:
        where = self.path if self.position is None else f"{self.path} at byte {self.position}"
        return f"{where}: {self.reason}"
