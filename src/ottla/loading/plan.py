"""The offsets that a load reads, from the table's offsets and the log's.

A log that cannot continue the table (another topic, a re-created topic, a truncated log, records
that retention removed) is an error that names the partition and the offsets.
"""

from collections.abc import Mapping, Sequence

from ottla.base.errors import UserError
from ottla.base.ids import Uuid, uuid_text
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.sources.log_source import LogPartition
from ottla.tables import LoadedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange(OffsetRange):
    """The range that a load reads of one partition; empty if both offsets are equal."""

    topic: str
    topic_id: Uuid | None
    partition: int
    log_end_offset: int | None = None
    lost: OffsetRange | None = None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def offset_count(plan: Sequence[PlannedRange]) -> int:
    return sum(one.count for one in plan)


def plan_load(
    loaded: Mapping[int, LoadedPartition],
    log: Sequence[LogPartition],
    *,
    allow_gaps: bool = False,
) -> tuple[PlannedRange, ...]:
    """One range per partition of the log, in order; raises `UserError` if the log does not fit.

    A table's first load takes all records that the log has. Later loads need `allow_gaps` if
    retention has removed records that were not loaded.
    """
    offered = {partition.partition: partition for partition in log}
    for before in loaded.values():
        check_same_topic(before, log)
    for number, before in loaded.items():
        _check_continues(before, offered.get(number))
    return tuple(
        _planned(partition, _next_offset(partition, loaded), allow_gaps)
        for partition in sorted(log, key=lambda partition: partition.partition)
    )


def _next_offset(partition: LogPartition, loaded: Mapping[int, LoadedPartition]) -> int:
    """The next offset to load; 0 in a partition that was added after the first load."""
    before = loaded.get(partition.partition)
    if before is not None:
        return before.until_offset
    return 0 if loaded else partition.start_offset


def _planned(partition: LogPartition, next_offset: int, allow_gaps: bool) -> PlannedRange:
    lost = None
    if partition.start_offset > next_offset:
        lost = OffsetRange(from_offset=next_offset, until_offset=partition.start_offset)
        if not allow_gaps:
            raise UserError(
                f"{_place(partition)}: the table has offsets below {next_offset}, but the log "
                f"starts at {partition.start_offset}; the records between were removed first "
                f"(--allow-gaps loads the rest and records the gap)"
            )
    from_offset = max(partition.start_offset, next_offset)
    return PlannedRange(
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.partition,
        from_offset=from_offset,
        until_offset=partition.end_offset,
        log_end_offset=partition.log_end_offset,
        lost=lost,
    )


def check_same_topic(before: LoadedPartition, log: Sequence[LogPartition]) -> None:
    """Raises `UserError` if the table was loaded from another topic or before it was re-created."""
    for now in log:
        if now.topic != before.topic:
            raise UserError(
                f"the table holds topic {before.topic}, not {now.topic}; "
                f"load into another directory"
            )
        if None not in (before.topic_id, now.topic_id) and before.topic_id != now.topic_id:
            raise UserError(
                f"topic {now.topic} was re-created since the table was loaded: its id is "
                f"{_id_text(now.topic_id)}, the table's is {_id_text(before.topic_id)}; "
                f"load into another directory"
            )


def _check_continues(before: LoadedPartition, now: LogPartition | None) -> None:
    if now is None:
        raise UserError(
            f"the table has {_place(before)} up to offset {before.until_offset}, "
            f"but the log has no such partition"
        )
    if now.end_offset < before.until_offset:
        raise UserError(
            f"{_place(now)}: the table has offsets below {before.until_offset}, but the log ends "
            f"at {now.end_offset}; it was cut, or is another log"
        )


def _place(partition: LogPartition | LoadedPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _id_text(topic_id: Uuid | None) -> str:
    return "unknown" if topic_id is None else uuid_text(topic_id)
