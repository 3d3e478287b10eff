"""What a table has in quarantine, as a redrive reads it again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.letter_source import Letters
from ottla.record.batch import NO_TIMESTAMP
from ottla.record.columns import COLUMNS, schema
from ottla.tables import DataFile, DataFiles, FileRole, Table, TableLayout, by_partition, of_role

if TYPE_CHECKING:
    import pyarrow as pa


TIME = "timestamp_ms"


def quarantined_files(table: Table) -> list[DataFile]:
    return list(of_role(table.current_files(), FileRole.QUARANTINE))


def stays_aside(table: Table, layout: TableLayout, written: Sequence[DataFile]) -> bool:
    """Whether a redrive would leave the table as it is: what it read is in quarantine already, with
    the same reasons, and nothing that was there becomes a row.
    """
    if layout != table.layout():
        return False
    places = [(one.partition, one.first_offset, one.last_offset) for one in written]
    there = _reasons(table.files, quarantined_files(table))
    read = {
        place: reason
        for place, reason in there.items()
        if any(number == place[0] and low <= place[1] <= up for number, low, up in places)
    }
    return read == _reasons(table.files, of_role(written, FileRole.QUARANTINE))


def _reasons(files: DataFiles, parts: Iterable[DataFile]) -> dict[tuple[int, int], str]:
    """Why records are in quarantine, by partition and offset."""
    rows = (files.rows(one, ["partition", "offset", "reason"]).to_pylist() for one in parts)
    return {(row["partition"], row["offset"]): row["reason"] for some in rows for row in some}


def quarantined_ranges(
    table: Table, topic: str, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetRange]:
    """By partition, from the first record in quarantine that a log may still have, which begins at
    `starts`, to the last one.
    """
    found = {}
    for number, files in by_partition(quarantined_files(table)).items():
        place = TopicPartition(topic, number)
        start = starts.get(place, 0)
        there = [one for one in files if one.last_offset >= start]
        if there:
            found[place] = OffsetRange(
                from_offset=max(start, min(one.first_offset for one in there)),
                until_offset=max(one.last_offset for one in there) + 1,
            )
    return found


def kept_before(table: Table, topic: str, starts: Mapping[TopicPartition, int]) -> Letters:
    """The records in quarantine at offsets before `starts`, whose bytes it has."""
    import pyarrow as pa

    found = {}
    for number, files in by_partition(quarantined_files(table)).items():
        place = TopicPartition(topic, number)
        before = OffsetRange(from_offset=0, until_offset=starts.get(place, 0))
        parts = [
            _records(table.files, one)
            for one in files
            if one.first_offset < before.until_offset and _has_bytes(table.files, one)
        ]
        if parts:
            rows = Letters({place: pa.concat_tables(parts).sort_by("offset")})
            found[place] = rows.within(place, before)
    return Letters(found)


def _has_bytes(files: DataFiles, part: DataFile) -> bool:
    """Whether the records were set aside with their bytes (`OnError.QUARANTINE`)."""
    return "value" in files.columns(part).names


def _records(files: DataFiles, part: DataFile) -> "pa.Table":
    """A file's records in the columns of `record.columns`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = files.rows(part, [*(name for name in COLUMNS if name != TIME), "timestamp"])
    times = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    # A time that no column can have is null here, and will be in the row.
    found = rows.append_column(TIME, pc.fill_null(times, NO_TIMESTAMP))
    return found.select(list(COLUMNS)).cast(schema())
