"""A topic as Arrow record batches: what `export` writes and `sql` asks.

Read from files or a broker as the loads read it (`sources`), with bounded memory.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.times import FIRST_TIME_MS, LAST_TIME_MS
from ottla.base.values import dataclass
from ottla.cli.target import Target
from ottla.search.positions import Position, PositionKind, resolve, times_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.sources.log_source import LogSource

DECODED = {
    "offset": "offset",
    "timestamp": "timestamp_ms",
    "key": "key",
    "value": "value",
    "headers": "headers",
}
"""Maps columns of an exported file to those of `ottla.record.columns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRange:
    """A topic's ranges of offsets, and the source to read them from.

    `unreadable` are partitions of the range that could not be opened, and why: reading it fails.
    """

    topic: str
    source: "LogSource"
    ranges: dict[TopicPartition, OffsetRange]
    unreadable: dict[TopicPartition, Exception]

    @property
    def count(self) -> int:
        """Number of offsets; there are at most as many records."""
        return sum(one.count for one in self.ranges.values())

    def batches(self, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
        """Yields batches of `export_schema`, or of some of its columns, partition by partition."""
        for error in self.unreadable.values():
            raise error
        names = export_schema().names if columns is None else columns
        decoded = [DECODED[one] for one in names if one in DECODED] or ["offset"]
        for split in self.source.splits(self.ranges):
            for batch in self.source.read(split, decoded):
                yield _exported(batch, names, split.place)


def open_range(
    target: Target,
    topic: str,
    *,
    partitions: Sequence[int] = (),
    start: Position,
    until: Position,
) -> ExportedRange:
    """Raises `UserError`, and `UnknownNameError` for a topic that does not exist."""
    source = open_source(target, topic)
    faults: dict[TopicPartition, Exception] = {}
    there = {
        one.place: OffsetRange(from_offset=one.start_offset, until_offset=one.end_offset)
        for one in source.partitions(allow_missing=True, on_unreadable=faults.__setitem__)
        if not partitions or one.partition in partitions
    }
    unreadable = {
        place: error
        for place, error in faults.items()
        if not partitions or place.partition in partitions
    }
    if not there and not unreadable:
        if partitions:
            raise UserError(f"topic {topic} has no partition {partitions[0]}")
        raise UnknownNameError("topic", topic, topics_of(target))
    starts = source.offsets_for_times(times_of(start, there)) if _is_time(start) else {}
    ends = source.offsets_for_times(times_of(until, there)) if _is_time(until) else {}
    ranges = {}
    for place, bounds in there.items():
        first = resolve(start, bounds, starts.get(place), is_start=True)
        last = resolve(until, bounds, ends.get(place), is_start=False)
        end = min(last, bounds.until_offset)
        if first < end:
            ranges[place] = OffsetRange(from_offset=first, until_offset=end)
    return ExportedRange(topic=topic, source=source, ranges=ranges, unreadable=unreadable)


def _is_time(position: Position) -> bool:
    return position.kind is PositionKind.TIME


def open_source(target: Target, topic: str) -> "LogSource":
    """Opens the source of one topic; raises `UserError`."""
    from ottla.sources.opening import open_log, topic_options

    text = ",".join(target.directories) or ",".join(
        f"{host}:{port}" for host, port in target.addresses
    )
    return open_log(topic_options(text, topic, client=target.settings, tier=target.tier))


def topics_of(target: Target) -> list[str]:
    """Returns the names of all topics."""
    if target.is_directory:
        from ottla.storage.reading.read_only_directory import open_for_reading

        return sorted(
            {name for one in target.directories for name in open_for_reading(one).topics()}
        )
    with target.patient().open() as cluster:
        return sorted(cluster.topic_names())


@cache
def export_schema() -> Any:
    """The columns of an exported file, as `import` reads them."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
    return pa.schema(
        [
            ("topic", pa.dictionary(pa.int32(), pa.string())),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
        ]
    )


def _exported(
    batch: "pa.RecordBatch", names: Sequence[str], place: TopicPartition
) -> "pa.RecordBatch":
    import pyarrow as pa

    schema = pa.schema([export_schema().field(one) for one in names])
    columns = [_column(batch, one, place) for one in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(batch: "pa.RecordBatch", field: Any, place: TopicPartition) -> Any:
    import pyarrow as pa

    match field.name:
        case "topic":
            zeros = pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows)
            return pa.DictionaryArray.from_arrays(zeros, pa.array([place.topic]))
        case "partition":
            return pa.repeat(pa.scalar(place.partition, field.type), batch.num_rows)
        case "timestamp":
            return _times(batch.column("timestamp_ms"), field.type)
    return batch.column(DECODED[field.name]).cast(field.type)


def _is_calendar(time_ms: Any) -> bool:
    """Whether SQL and Python have a date for a time; not for null."""
    return bool(time_ms.is_valid and FIRST_TIME_MS <= time_ms.as_py() <= LAST_TIME_MS)


def _times(timestamps_ms: Any, kind: Any) -> Any:
    """Converts timestamps; a missing one is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    least = pc.min(timestamps_ms).as_py()
    if least is not None and least > -1:
        return timestamps_ms.cast(kind)
    is_none = pc.equal(timestamps_ms, -1)
    return pc.if_else(is_none, pa.scalar(None, pa.int64()), timestamps_ms).cast(kind)


def with_calendar_times(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """A batch of exported columns without the times that SQL and Python have no date for: null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    place = batch.schema.get_field_index("timestamp")
    if place < 0:
        return batch
    times = batch.column(place)
    times_ms = times.cast(pa.int64())
    bounds = pc.min_max(times_ms)
    if not times.null_count and _is_calendar(bounds["min"]) and _is_calendar(bounds["max"]):
        return batch
    is_there = pc.and_(
        pc.greater_equal(times_ms, FIRST_TIME_MS), pc.less_equal(times_ms, LAST_TIME_MS)
    )
    return batch.set_column(place, batch.schema.field(place), pc.if_else(is_there, times, None))
