"""Decides from values where the copy of a partition continues, or why it is refused.

The target's log end says how far a copy is, so a mirror continues there after a kill. If the two
logs have diverged, the copy is refused with advice for the user; the target is never truncated.
Kafka's counterpart: the truncation of followers (KIP-101), which trust the leader; a mirror must
not trust its source.
"""

from collections.abc import Iterable

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.mirror.source import Bounds
from ottla.record.batch import Batch
from ottla.record.record import Record, read_records


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """A partition's copy in the target. `last` is its last batch; `None` without batches."""

    topic_id: Uuid | None
    start: int
    end: int
    last: Batch | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [from_offset, until_offset) that the source deleted before they were copied."""

    from_offset: int
    until_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy [from_offset, until_offset).

    If `begins`, the target's log is emptied first and starts there. `gap` are missing offsets that
    the user has allowed.
    """

    from_offset: int
    until_offset: int
    begins: bool = False
    gap: Gap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkCopy:
    """Copy [from_offset, until_offset) of a partition to the target's log, which ends at
    `target_end`.

    `segment_size` is the largest size of a segment in bytes.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    target_end: int
    segment_size: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """The partition is not copied; `reason` includes the advice for the user."""

    reason: str


def plan_copy(source: Bounds, target: TargetState, *, allow_gaps: bool) -> Copy | Refusal:
    """Plans the copy of a partition up to the source's current end."""
    if target.last is None and target.end == 0:
        return Copy(from_offset=source.start, until_offset=source.end, begins=source.start > 0)
    if source.end < target.end:
        return Refusal(
            f"the source ends at offset {source.end:,}, the target at {target.end:,}: the source "
            "was truncated, or another program wrote to the target; "
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
    """A refusal if the ids differ: a topic that was deleted and created again is another topic."""
    if source is None or target is None or source == target:
        return None
    return Refusal(
        "the source's topic has another id than the target's: it was re-created; "
        "delete the topic in the target and mirror it again, or mirror into another directory"
    )


def check_emptied(source: Uuid | None, bounds: Bounds, target: TargetState) -> Refusal | None:
    """A refusal if a copy without batches may be that of another topic: one without an
    id that has records before the copy's end.
    """
    if source is not None or bounds.start >= target.end:
        return None
    return Refusal(
        f"the copy is empty up to offset {target.end:,}, where the source has records from "
        f"{bounds.start:,} on, and its topic has no id: it may have been re-created; "
        "delete the topic in the target and mirror it again, or mirror into another directory"
    )


def check_last(target: Batch, source: list[Batch], *, may_be_compacted: bool) -> Refusal | None:
    """A refusal if the target's last batch differs from the source's batches at its offsets."""
    same = next((one for one in source if one.base_offset == target.base_offset), None)
    if same is not None and fingerprint(same) == fingerprint(target):
        return None
    if may_be_compacted and differing_record(source, [target]) is None:
        return None
    said = "no such batch" if same is None else describe(same)
    return Refusal(
        f"the target's last batch ({describe(target)}) differs from the source's at offset "
        f"{target.base_offset:,} ({said}): their histories have diverged; "
        "delete the topic in the target and mirror it again, or mirror into another directory"
    )


def fingerprint(batch: Batch) -> tuple[int, int, int, int, int]:
    """The values by which batches are compared: CRC, size, and fields that the CRC leaves out."""
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
    """The first offset of a source's record that the target lacks or has different."""
    # The target may have more records, as compaction may have removed some from the source since.
    known = {record.offset: _content(one, record) for one in target for record in read_records(one)}
    for batch in source:
        for record in read_records(batch):
            if known.get(record.offset) != _content(batch, record):
                return record.offset
    return None


def _content(batch: Batch, record: Record) -> object:
    epoch = batch.partition_leader_epoch
    return (epoch, record.timestamp_ms, record.key, record.value, tuple(record.headers))
