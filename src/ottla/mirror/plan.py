"""What to do for one partition, decided on values: where its copy continues, or why it must not.

Only the target's log end says how far a copy is, so a mirror that was killed continues where it
was. Whatever shows that the two logs are not one history any more is refused with what a person can
do about it; nothing is ever cut off to make them fit. Kafka's counterpart: the truncation of
followers (KIP-101), which trusts the leader, where a mirror must not.
"""

from collections.abc import Iterable

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.mirror.source import Bounds
from ottla.record.batch import Batch
from ottla.record.record import Record, read_records


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """A partition's copy. `last` is its last batch; a new log has none and ends at 0."""

    topic_id: Uuid | None
    start: int
    end: int
    last: Batch | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that were gone from the source before they were copied: [from, until)."""

    from_offset: int
    until_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy [from_offset, until_offset). `begins` when the log is to be emptied and start there.

    `gap` is what a person allowed to be missing.
    """

    from_offset: int
    until_offset: int
    begins: bool = False
    gap: Gap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkCopy:
    """[from_offset, until_offset) of a partition, to be appended where the target's log ends now.

    `segment_size` is the most bytes that a segment may have.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    target_end: int
    segment_size: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing is done; the text has the reason and the fix."""

    reason: str


def plan_copy(source: Bounds, target: TargetState, *, allow_gaps: bool) -> Copy | Refusal:
    """Where the copy continues, up to the source's end as it is now."""
    if target.last is None and target.end == 0:
        return Copy(from_offset=source.start, until_offset=source.end, begins=source.start > 0)
    if source.end < target.end:
        return Refusal(
            f"the source ends at offset {source.end:,}, the target at {target.end:,}: the source "
            "was cut, or another program wrote to the target; "
            "delete the topic in the target and mirror it again, or mirror into another directory"
        )
    if source.first_batch <= target.end:
        start = max(source.start, target.end)
        return Copy(from_offset=start, until_offset=source.end)
    gap = Gap(target.end, source.start)
    if allow_gaps:
        return Copy(from_offset=source.start, until_offset=source.end, begins=True, gap=gap)
    return Refusal(
        f"offsets {gap.from_offset:,} to {gap.until_offset - 1:,} were removed from the source "
        "before they were copied; --allow-gaps continues without them"
    )


def check_identity(source: Uuid | None, target: Uuid | None) -> Refusal | None:
    """A topic that was deleted and made again is another one, whatever its name."""
    if source is None or target is None or source == target:
        return None
    return Refusal(
        "the source's topic has another id than the target's: it was re-created; "
        "delete the topic in the target and mirror it again, or mirror into another directory"
    )


def check_last(target: Batch, source: list[Batch], *, may_be_compacted: bool) -> Refusal | None:
    """Whether the target's last batch is what the source has at its offsets.

    `source` are the batches there that the source still has.
    """
    same = next((one for one in source if one.base_offset == target.base_offset), None)
    if same is not None and fingerprint(same) == fingerprint(target):
        return None
    if may_be_compacted and differing_record(source, [target]) is None:
        return None
    said = "no such batch" if same is None else describe(same)
    return Refusal(
        f"the target's last batch ({describe(target)}) is not what the source has at offset "
        f"{target.base_offset:,} ({said}): their histories have parted; "
        "delete the topic in the target and mirror it again, or mirror into another directory"
    )


def fingerprint(batch: Batch) -> tuple[int, int, int, int, int]:
    """All that distinguishes batches: offsets and epoch, which no checksum covers, CRC and size."""
    return (
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.crc,
        batch.size,
    )


def describe(batch: Batch) -> str:
    return (
        f"offsets {batch.base_offset:,} to {batch.last_offset:,}, leader epoch "
        f"{batch.partition_leader_epoch}, CRC {batch.crc:#010x}"
    )


def differing_record(source: Iterable[Batch], target: Iterable[Batch]) -> int | None:
    """The first offset at which the source has a record that the target has not, exactly so.

    Compaction may have taken records from the source since they were copied: the target has more.
    """
    known = {record.offset: _content(one, record) for one in target for record in read_records(one)}
    for batch in source:
        for record in read_records(batch):
            if known.get(record.offset) != _content(batch, record):
                return record.offset
    return None


def _content(batch: Batch, record: Record) -> object:
    epoch = batch.partition_leader_epoch
    return (epoch, record.timestamp_ms, record.key, record.value, tuple(record.headers))
