"""What is found wrong in a file: the location, kind and reason, and the offsets that are lost.

Readers refuse by a finding or report it, checks list findings, repairs are planned from them, and
`ottla doctor` gives advice by their kind.
"""

from enum import Enum

from ottla.base.errors import CorruptionError
from ottla.base.files import base_name, parent_directory
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
    EMPTY_LOG = "empty_log"
    """An empty log file inside the segment before it, which the next start sets aside."""
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
    REMOTE_LOG_METADATA = "remote_log_metadata"
    """A record of `__remote_log_metadata` that cannot be read, or contradicts those before it."""
    REMOTE_OBJECT = "remote_object"
    """An object of a tier that is missing, cut, changed, or another segment's; the user must put it
    back."""
    REMOTE_ORPHAN = "remote_orphan"
    """Objects of a tier that no record names: nothing reads them, and nothing deletes them."""
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
    {
        FindingKind.LEFTOVER,
        FindingKind.REMOTE_ORPHAN,
        FindingKind.STRANGER,
        FindingKind.LIVE_TAIL,
        FindingKind.STATE,
    }
)
"""Kinds that are not damage: a directory with only these is sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """The offsets that are lost with damaged bytes, by the batches before and after them.

    `last` is `None` at the end of a log: how many they are is unknown. `stated_last` is the last
    offset in the damaged header.
    """

    first: int
    last: int | None
    stated_last: int | None = None
    is_control: bool = False
    """Whether the damaged header is that of a control batch."""

    @property
    def until(self) -> int:
        """The offset after the last; `first` if their number is unknown."""
        return self.first if self.last is None else self.last + 1

    @property
    def text(self) -> str:
        if self.last is None:
            return f"records after offset {self.first - 1}"
        if self.last == self.first:
            return f"offset {self.first}"
        return f"offsets {self.first} to {self.last}"


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

    # What a reader finds: bytes of a log that are not a valid batch, or are missing. It has `size`
    # and `lost`.

    @property
    def end(self) -> int:
        """The position where sound batches begin again, or the file's size."""
        return (self.position or 0) + (self.size or 0)

    @property
    def from_offset(self) -> int:
        assert self.lost is not None
        return self.lost.first

    @property
    def until_offset(self) -> int:
        assert self.lost is not None
        return self.lost.until

    @property
    def offsets(self) -> str:
        """The offsets that are lost, as text."""
        assert self.lost is not None
        return self.lost.text

    @property
    def unreadable_text(self) -> str:
        """The reason, and the offsets that cannot be read."""
        return f"{self.reason}; {self.lost.text} cannot be read" if self.lost else self.reason

    def as_loss(self, position: int | None = None) -> "Finding":
        """The finding as a check lists it, with the lost offsets in the reason."""
        reason = f"{self.reason}; {self.offsets} are lost"
        return Finding(kind=self.kind, path=self.path, position=position, reason=reason)

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.unreadable_text}"

    def error(self) -> CorruptionError:
        """The error to raise, with the repair commands in its reason."""
        # What is missing of a log has its directory, TOPIC-PARTITION; no file in it is named so.
        is_directory = base_name(self.path).rpartition("-")[2].isdigit()
        partition = self.path if is_directory else parent_directory(self.path)
        hint = repair_hint(parent_directory(partition))
        return CorruptionError(self.path, self.position or 0, f"{self.unreadable_text}; {hint}")


def unreadable(
    kind: FindingKind, path: str, region: tuple[int, int], reason: str, offsets: tuple[int, int]
) -> Finding:
    """The finding about bytes of a log, from a position to another, and offsets lost with them.

    The last offset and position are exclusive. If there are no offsets, their number is unknown.
    """
    first, until = offsets
    return Finding(
        kind=kind,
        path=path,
        position=region[0],
        size=region[1] - region[0],
        reason=reason,
        lost=LostOffsets(first=first, last=until - 1 if until > first else None),
    )


def finding_of(kind: FindingKind, error: CorruptionError) -> Finding:
    """The finding of a module that raises what is wrong in its file."""
    return Finding(kind=kind, path=error.path, position=error.position, reason=error.reason)


def repair_hint(directory: str) -> str:
    return (
        f"`ottla log check {directory}` lists the damage, `ottla log repair {directory}` takes it "
        f"out; `ottla records`, `load`, `audit` and `mirror` continue after it with --skip-damaged"
    )
