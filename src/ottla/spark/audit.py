"""Whether a table holds exactly what its log does, by looking at both: no Spark is needed.

Four questions, each of which could be answered "no" by another kind of mistake: do the offset
ranges of all loads tile, partition by partition; are the files those that the manifest names; has
the log as many committed records in each range as the table has rows; and are the rows those
records. What the log no longer has cannot be compared, and is told. Kafka has no counterpart.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import join
from ottla.base.ids import uuid_text
from ottla.record.columns import COLUMNS
from ottla.spark.log_source import LogSource
from ottla.spark.manifest import DataFile, LoadedPartition, ManifestEntry, OffsetRange
from ottla.spark.parquet_job import TaskError, read_footer
from ottla.spark.plan import LogPartition
from ottla.spark.table import TableDirectory

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_FILES = 8
"""Of how many files the rows are compared, unless all are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as it should be; `text` names it for people."""

    kind: str
    text: str
    partition: int | None = None
    offset: int | None = None
    path: str | None = None


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What was compared, and what differs. `unseen` ranges are no longer in the log."""

    topic: str
    table: str
    differences: list[Difference] = field(default_factory=list)
    loads: int = 0
    files: int = 0
    rows: int = 0
    rows_counted: int = 0
    rows_compared: int = 0
    unseen: list[tuple[int, OffsetRange]] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not self.differences


def audit(
    table: TableDirectory, log: LogSource, topic: str, *, compare_all: bool = False, seed: int = 0
) -> AuditReport:
    """Compares a table with its log.

    The rows of some files, by `seed`, or of all. Raises `UserError` where there is no table, and
    `CorruptionError` for a manifest or a log that cannot be read.
    """
    entries = table.entries()
    offered = {one.partition: one for one in log.partitions()}
    report = AuditReport(topic=topic, table=table.path, loads=len(entries))
    report.differences += check_tiling(entries)
    report.differences += check_topic(entries, topic, offered)
    files = [file for entry in entries for file in entry.files]
    report.files = len(files)
    report.rows = sum(entry.row_count for entry in entries)
    report.differences += check_files(table, files)
    if report.differences:
        # Rows that are not where the manifest has them need not be compared.
        return report
    _check_counts(report, entries, log, offered)
    chosen = files if compare_all else _some(files, seed)
    for file in chosen:
        _check_rows(report, table, file, log, offered)
    return report


def check_tiling(entries: Sequence[ManifestEntry]) -> list[Difference]:
    """Where a load does not begin at the offset at which the one before it ended.

    Rows must be as many as the files of their load have.
    """
    found: list[Difference] = []
    ends: dict[int, int] = {}
    for entry in entries:
        for loaded in entry.partitions:
            begin = loaded.from_offset if loaded.lost is None else loaded.lost.from_offset
            expected = ends.get(loaded.partition, begin)
            if begin != expected:
                found.append(_untiled(entry, loaded, begin, expected))
            ends[loaded.partition] = loaded.until_offset
            found += _check_entry_files(entry, loaded)
    return found


def _untiled(
    entry: ManifestEntry, loaded: LoadedPartition, begin: int, expected: int
) -> Difference:
    what = "are missing" if begin > expected else "are there twice"
    first, last = min(begin, expected), max(begin, expected) - 1
    return Difference(
        kind="gap" if begin > expected else "overlap",
        text=f"partition {loaded.partition}: offsets {first} to {last} {what} before load "
        f"{entry.commit_id}",
        partition=loaded.partition,
        offset=first,
    )


def _check_entry_files(entry: ManifestEntry, loaded: LoadedPartition) -> Iterator[Difference]:
    files = sorted(
        (file for file in entry.files if file.partition == loaded.partition),
        key=lambda file: file.first_offset,
    )
    row_count = sum(file.row_count for file in files)
    if row_count != loaded.row_count:
        yield Difference(
            kind="count",
            text=f"load {entry.commit_id}, partition {loaded.partition}: its files have "
            f"{row_count} rows, {loaded.row_count} are stated",
            partition=loaded.partition,
        )
    next_offset = loaded.from_offset
    for file in files:
        if not next_offset <= file.first_offset <= file.last_offset < loaded.until_offset:
            yield Difference(
                kind="overlap",
                text=f"{file.path}: offsets {file.first_offset} to {file.last_offset} are not "
                f"between {next_offset} and {loaded.until_offset}",
                partition=loaded.partition,
                offset=file.first_offset,
                path=file.path,
            )
        next_offset = file.last_offset + 1


def check_topic(
    entries: Iterable[ManifestEntry], topic: str, offered: Mapping[int, LogPartition]
) -> list[Difference]:
    """Partitions that were loaded from another topic, or from one that was made anew since."""
    found: dict[tuple[int, str], Difference] = {}
    for entry in entries:
        for loaded in entry.partitions:
            reason = _stranger(loaded, topic, offered.get(loaded.partition))
            if reason is not None:
                key = loaded.partition, reason
                text = f"partition {loaded.partition}: {reason}"
                found.setdefault(
                    key, Difference(kind="topic", text=text, partition=loaded.partition)
                )
    return list(found.values())


def _stranger(loaded: LoadedPartition, topic: str, log: LogPartition | None) -> str | None:
    if loaded.topic != topic:
        return f"it was loaded from topic {loaded.topic}"
    if log is None:
        return "the log has no such partition"
    if None not in (loaded.topic_id, log.topic_id) and loaded.topic_id != log.topic_id:
        assert loaded.topic_id is not None
        return f"it was loaded from a topic of the id {uuid_text(loaded.topic_id)}, now gone"
    return None


def check_files(table: TableDirectory, files: Iterable[DataFile]) -> list[Difference]:
    """Files that are missing or are others than the manifest names, by size and footer."""
    found = []
    for file in files:
        reason = _wrong_file(table, file)
        if reason is not None:
            text = f"{file.path}: {reason}"
            found.append(
                Difference(kind="file", text=text, partition=file.partition, path=file.path)
            )
    return found


def _wrong_file(table: TableDirectory, file: DataFile) -> str | None:
    from pyarrow import ArrowException

    if table.file_system.status(join(table.path, file.path)) is None:
        return "it is missing"
    try:
        found = read_footer(table.path, file.path)
    except (ArrowException, OSError, TaskError) as error:
        return f"it cannot be read: {error}"
    if found is None:
        return "it has no rows"
    if found.size != file.size:
        return f"it has {found.size} bytes, {file.size} are stated"
    if found != file:
        return (
            f"it holds {found.row_count} rows of partition {found.partition}, offsets "
            f"{found.first_offset} to {found.last_offset}; the manifest says {file.row_count}, "
            f"{file.partition}, {file.first_offset} to {file.last_offset}"
        )
    return None


def _check_counts(
    report: AuditReport,
    entries: Iterable[ManifestEntry],
    log: LogSource,
    offered: Mapping[int, LogPartition],
) -> None:
    for entry in entries:
        for loaded in entry.partitions:
            wanted = OffsetRange(from_offset=loaded.from_offset, until_offset=loaded.until_offset)
            if loaded.from_offset == loaded.until_offset:
                continue
            if not _is_there(wanted, offered[loaded.partition]):
                report.unseen.append((loaded.partition, wanted))
                continue
            count = log.count_records(loaded.partition, wanted)
            if count is not None and count != loaded.row_count:
                report.differences.append(
                    Difference(
                        kind="count",
                        text=f"load {entry.commit_id}, partition {loaded.partition}: the log has "
                        f"{count} records of offsets {wanted.from_offset} to "
                        f"{wanted.until_offset - 1}, the table {loaded.row_count} rows",
                        partition=loaded.partition,
                        offset=wanted.from_offset,
                    )
                )
            report.rows_counted += loaded.row_count if count is not None else 0


def _is_there(wanted: OffsetRange, log: LogPartition) -> bool:
    return log.start_offset <= wanted.from_offset and wanted.until_offset <= log.end_offset


def _some(files: Sequence[DataFile], seed: int) -> list[DataFile]:
    if len(files) <= SAMPLED_FILES:
        return list(files)
    return random.Random(seed).sample(files, SAMPLED_FILES)


def _check_rows(
    report: AuditReport,
    table: TableDirectory,
    file: DataFile,
    log: LogSource,
    offered: Mapping[int, LogPartition],
) -> None:
    wanted = OffsetRange(from_offset=file.first_offset, until_offset=file.last_offset + 1)
    if not _is_there(wanted, offered[file.partition]):
        return
    stored = _stored_rows(join(table.path, file.path))
    try:
        found = _first_difference(stored, _log_rows(log, file.partition, wanted))
    except UserError as error:
        raise CorruptionError(file.path, 0, str(error)) from error
    report.rows_compared += stored.num_rows
    if found is not None:
        offset, text = found
        report.differences.append(
            Difference(
                kind="row",
                text=f"partition {file.partition}, offset {offset}: {text} ({file.path})",
                partition=file.partition,
                offset=offset,
                path=file.path,
            )
        )


def _stored_rows(path: str) -> "pa.Table":
    """A file's rows in the columns and types of `record.columns`, in order of offset."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from ottla.record.columns import schema

    rows = pq.read_table(path).sort_by("offset")
    times = pc.cast(pc.cast(rows["timestamp"], pa.timestamp("ms", "UTC")), pa.int64())
    columns = {
        "offset": rows["offset"],
        # Spark has no time where the log has none.
        "timestamp_ms": pc.fill_null(times, -1),
        "timestamp_type": rows["timestamp_type"],
        "key": rows["key"],
        "value": rows["value"],
        "headers": rows["headers"],
    }
    return pa.table({name: columns[name].cast(schema().field(name).type) for name in COLUMNS})


def _log_rows(log: LogSource, partition: int, wanted: OffsetRange) -> "pa.Table":
    import pyarrow as pa

    from ottla.record.columns import schema

    batches = [
        batch
        for split in log.splits({partition: wanted}, None)
        for batch in log.read(split, COLUMNS)
    ]
    return pa.Table.from_batches(batches, schema())


def _first_difference(stored: "pa.Table", log: "pa.Table") -> tuple[int, str] | None:
    """The offset of the first row that differs, and how."""
    if stored.num_rows == log.num_rows and all(
        stored[name].equals(log[name].cast(stored[name].type)) for name in COLUMNS
    ):
        return None
    low, high = 0, min(stored.num_rows, log.num_rows)
    while low < high:
        middle = (low + high + 1) // 2
        if _same(stored.slice(0, middle), log.slice(0, middle)):
            low = middle
        else:
            high = middle - 1
    if low == stored.num_rows:
        return int(log["offset"][low].as_py()), "the table lacks this record"
    ours = stored.slice(low, 1).to_pylist()[0]
    if low == log.num_rows:
        return int(ours["offset"]), "the log has no such record"
    theirs = log.slice(low, 1).to_pylist()[0]
    if ours["offset"] != theirs["offset"]:
        return min(ours["offset"], theirs["offset"]), "only one of table and log has this record"
    names = [name for name in COLUMNS if ours[name] != theirs[name]]
    return int(ours["offset"]), "; ".join(
        f"{name} is {ours[name]!r:.60}, in the log {theirs[name]!r:.60}" for name in names
    )


def _same(one: "pa.Table", other: "pa.Table") -> bool:
    return all(one[name].equals(other[name].cast(one[name].type)) for name in COLUMNS)
