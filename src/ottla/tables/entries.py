"""The entries of a table's ledger, one for each commit, in JSON.

Format page: docs/format/table-ledger.md. Kafka has no counterpart: exactly-once loading stores its
offsets with the table, as consumer groups store theirs in the broker.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field
from enum import Enum
from typing import Any, TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.json_files import check_version
from ottla.base.partitions import OffsetRange
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.record.batch_roll_up import BatchRollUp
from ottla.tables.columns.statistics import LeafStatistics

FORMAT_NAME = "ottla load manifest"
FORMAT_VERSION = 2

QUARANTINE_DIRECTORY = "_ottla/quarantine"
"""The directory of files with `FileRole.QUARANTINE`, which no engine's vacuum touches."""

FORGOTTEN_DIRECTORY = "_ottla/forgotten"
"""The directory of files with `FileRole.FORGOTTEN`."""
DELETED_DIRECTORY = "_ottla/deleted"
"""The directory of files with `FileRole.DELETED`."""

_COMMIT_DIRECTORY = lazy_pattern(r"/[a-z]+-(\d{20})-")
_Value = TypeVar("_Value")


class Action(Enum):
    """The kind of a commit."""

    LOAD = "load"
    """Added new records of the log."""
    RERUN = "rerun"
    """Read ranges again, and replaced the rows in them."""
    OPTIMIZE = "optimize"
    """Rewrote the same rows into fewer files."""
    FORGET = "forget"
    """Deleted rows on purpose, which no rerun brings back."""


class FileRole(Enum):
    """The role of a file's rows."""

    ROWS = "rows"
    QUARANTINE = "quarantine"
    """Records that could not be decoded: not part of the table, but accounted for."""
    FORGOTTEN = "forgotten"
    """Places of records whose rows, or quarantined records, were deleted on purpose."""
    DELETED = "deleted"
    """The keys of deleted rows, so that late records of lower versions do not bring them back."""


DIRECTORIES = {
    FileRole.QUARANTINE: QUARANTINE_DIRECTORY,
    FileRole.FORGOTTEN: FORGOTTEN_DIRECTORY,
    FileRole.DELETED: DELETED_DIRECTORY,
}
"""The directories of files that are beside the table, and not in its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """The rows of one partition in a Parquet file, which may contain several partitions.

    `path` is relative to the table; `size` is that of the whole file in bytes.

    >>> file, = ottla.table.data_files(table)
    >>> file.path, file.row_count, file.partition
    ('data/load-00000000000000000000-00000000/part-0.parquet', 2, 0)
    """

    path: str
    size: int
    row_count: int
    partition: int
    first_offset: int
    last_offset: int
    role: FileRole = FileRole.ROWS
    values: Mapping[str, str] = field(default_factory=dict)
    """Columns stored in the directory's name instead of the file (`day=2026-01-31`)."""
    times: tuple[int, int] | None = None
    """The first and last timestamp in microseconds; `None` unless all rows have one."""
    keys: tuple[bytes, bytes] | None = None
    """Bounds of all keys, inclusive; only in tables with the latest row of each key."""
    rescued_count: int = 0
    """The number of values and keys with fields that are kept in `_rescued`."""
    statistics: Mapping[tuple[str, ...], LeafStatistics] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Of the whole file, by leaf column, for the table's log alone: the ledger does not have them,
    so those of earlier commits are empty here.
    """
    kept: bytes | None = field(default=None, repr=False)
    """A bit for each row of the whole file, of those that another program has not deleted in it
    (`numpy.packbits`); `None` if all are there. Counts and bounds are of these rows alone.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPartition(OffsetRange):
    """A range of one partition that was read; the load after a load begins at `until_offset`."""

    topic: str
    topic_id: Uuid | None
    partition: int
    row_count: int
    quarantined_count: int = 0
    """Records in files of `FileRole.QUARANTINE`, which `row_count` excludes."""
    copied_count: int = 0
    """Rows at other offsets, in either role, that a rerun copied from the files it replaces."""
    forgotten_count: int = 0
    """Records that a rerun left out, because they were deleted on purpose."""
    log_end_offset: int | None = None
    """The log end offset, including open transactions, at `LedgerEntry.asked_ms`."""
    batches: BatchRollUp | None = None
    """`None` if nothing was read, or from a broker, where it would require a second fetch."""
    lost: OffsetRange | None = None
    """Offsets that retention removed before a load read them, as the caller allowed."""

    @property
    def record_count(self) -> int:
        """The number of committed records in the range."""
        return self.row_count + self.quarantined_count + self.forgotten_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Why rows were deleted on purpose; which, the files of `FileRole.FORGOTTEN` say."""

    by: str
    reason: str
    condition: str | None
    """`None` if the condition would name what is to be forgotten."""
    condition_hash: str | None
    """`sha256:SALT:DIGEST` of salt and condition, by which who has the condition recognizes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCounts:
    """The counts of a commit to a table with the latest row of each key."""

    upserted: int
    """Rows that are new or replace another row."""
    superseded: int
    """Earlier rows that were replaced by a row of the same key, or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One commit."""

    commit_id: int
    committed_ms: int
    source: str
    """The source of the records, for people."""
    partitions: tuple[LoadedPartition, ...]
    """The ranges read from the log; empty for `Action.OPTIMIZE`."""
    files: tuple[DataFile, ...]
    action: Action = Action.LOAD
    replaces: tuple[str, ...] = ()
    """Paths of files of earlier commits that are no longer in the table."""
    masked: tuple[str, ...] = ()
    """Those of them in which another program had deleted rows, which were not copied."""
    asked_ms: int | None = None
    """When the log's end offsets were read."""
    schema: str | None = None
    """The columns of `files` in Spark's notation; `None`: those of `layout.table_schema()`."""
    layout: Mapping[str, Any] | None = None
    """The layout of rows from this commit on (`layout.layout_fields`), if it changed."""
    version: int | None = None
    """The table version of the commit; `None` until it is made."""
    merged: MergeCounts | None = None
    """`None` in a table with a row for each record."""
    forgotten: Forgotten | None = None
    """Of `Action.FORGET`."""

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)

    @property
    def forgotten_count(self) -> int:
        """How many rows and quarantined records it deleted on purpose."""
        if self.action is not Action.FORGET:
            return 0
        return sum(one.row_count for one in of_role(self.files, FileRole.FORGOTTEN))


def total_size(files: Iterable[DataFile]) -> int:
    """The bytes of files, which may be listed several times, once for each partition."""
    return sum({file.path: file.size for file in files}.values())


def whole_files(parts: Iterable[DataFile]) -> list[list[DataFile]]:
    """Groups the parts of each file."""
    by_path: dict[str, list[DataFile]] = {}
    for part in parts:
        by_path.setdefault(part.path, []).append(part)
    return list(by_path.values())


def by_partition(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    """Groups files by the partition of their rows."""
    found: dict[int, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.partition, []).append(file)
    return found


def rows_only(files: Iterable[DataFile]) -> list[DataFile]:
    """The files of the table itself, without those of quarantined records."""
    return of_role(files, FileRole.ROWS)


def of_role(files: Iterable[DataFile], role: FileRole) -> list[DataFile]:
    """The files of one role."""
    return [file for file in files if file.role is role]


def role_at(path: str) -> FileRole:
    """The role of a file's rows, by its path."""
    found = (role for role, directory in DIRECTORIES.items() if path.startswith(f"{directory}/"))
    return next(found, FileRole.ROWS)


def row_size_of(files: Iterable[DataFile]) -> float | None:
    """Bytes of Parquet per row; `None` without rows."""
    rows = rows_only(files)
    return total_size(rows) / sum(one.row_count for one in rows) if rows else None


def inner_directory(file: DataFile) -> str:
    """The file's directory below its commit's: `day=2026-01-31`, or nothing."""
    return "/".join(part for part in file.path.split("/")[:-1] if "=" in part)


def commit_of(path: str) -> int:
    """The commit for which a quarantined file was written."""
    found = _COMMIT_DIRECTORY.search(path)
    return 0 if found is None else int(found[1])


def is_of_commit(name: str) -> bool:
    """Whether the name is that of a directory of a commit's files."""
    return _COMMIT_DIRECTORY.match(f"/{name}") is not None


def quarantine_of(directory: str) -> str:
    """The directory for quarantined records of a commit whose files are in `directory`."""
    return f"{QUARANTINE_DIRECTORY}/{directory.rpartition('/')[2]}"


def forgotten_of(directory: str) -> str:
    """The directory for the places that a commit, whose files are in `directory`, forgets."""
    return f"{FORGOTTEN_DIRECTORY}/{directory.rpartition('/')[2]}"


def deleted_of(directory: str) -> str:
    """The directory for deleted keys of a commit whose files are in `directory`."""
    return f"{DELETED_DIRECTORY}/{directory.rpartition('/')[2]}"


def change_data_of(directory: str) -> str:
    """The directory of a commit for the rows that it changed, as Delta's change data feed."""
    return f"_change_data/{directory.rpartition('/')[2]}"


def changes_of(directory: str) -> str:
    """The directory for changes to be merged, whose files no commit names."""
    return f"{directory}/changes"


def directory_like(file: DataFile, directory: str) -> str:
    """The directory for a file of another commit that replaces this file."""
    if file.role is not FileRole.ROWS:
        return f"{DIRECTORIES[file.role]}/{directory.rpartition('/')[2]}"
    return "/".join(one for one in (directory, inner_directory(file)) if one)


def loaded_partitions(entries: Iterable[LedgerEntry]) -> dict[int, LoadedPartition]:
    """The last load of each partition, from entries in order."""
    return {
        loaded.partition: loaded
        for entry in entries
        if entry.action is Action.LOAD
        for loaded in entry.partitions
    }


def folded_files(entries: Iterable[LedgerEntry]) -> list[DataFile]:
    """The files that remain after all additions and replacements, in order of addition."""
    current: dict[str, list[DataFile]] = {}
    for entry in entries:
        for path in entry.replaces:
            current.pop(path, None)
        for file in entry.files:
            current.setdefault(file.path, []).append(file)
    return [file for parts in current.values() for file in parts]


def entry_fields(entry: LedgerEntry) -> dict[str, Any]:
    """An entry as JSON types."""
    fields = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "commit_id": entry.commit_id,
        "committed_ms": entry.committed_ms,
        "action": entry.action.value,
        "source": entry.source,
        "asked_ms": entry.asked_ms,
        "schema": entry.schema,
        "partitions": [partition_fields(partition) for partition in entry.partitions],
        "replaces": list(entry.replaces),
        "files": [_file_fields(file) for file in entry.files],
    }
    if entry.layout is not None:
        fields["layout"] = dict(entry.layout)
    if entry.version is not None:
        fields["version_made"] = entry.version
    if entry.merged is not None:
        fields["merged"] = asdict(entry.merged)
    if entry.masked:
        fields["masked"] = list(entry.masked)
    if entry.forgotten is not None:
        fields["forgotten"] = asdict(entry.forgotten)
    return fields


def format_entry(entry: LedgerEntry) -> bytes:
    """An entry as one line of JSON."""
    return (json.dumps(entry_fields(entry)) + "\n").encode()


def parse_entry(path: str, content: bytes) -> LedgerEntry:
    """Parses an entry; raises `CorruptionError` for invalid content."""
    try:
        fields = json.loads(content)
        _require(isinstance(fields, dict), "it is not a JSON object")
    except (ValueError, RecursionError) as error:
        raise CorruptionError(path, 0, str(error)) from error
    return parse_fields(path, fields)


def parse_fields(path: str, fields: Mapping[str, Any]) -> LedgerEntry:
    """The inverse of `entry_fields`; raises like `parse_entry`, with `path` in the error."""
    try:
        _require(fields.get("format") == FORMAT_NAME, "it is not a load manifest")
        check_version(fields.get("version"), FORMAT_VERSION)
        return LedgerEntry(
            commit_id=_count(fields, "commit_id"),
            committed_ms=_typed(fields, "committed_ms", int),
            source=_typed(fields, "source", str),
            partitions=_each(fields, "partitions", parse_partition),
            files=_each(fields, "files", _parse_file),
            action=Action(fields.get("action")),
            replaces=tuple(map(_inside, _typed(fields, "replaces", list))),
            masked=tuple(map(_inside, _optional(fields, "masked", list) or ())),
            asked_ms=_optional(fields, "asked_ms", int),
            schema=_optional(fields, "schema", str),
            layout=_optional(fields, "layout", dict),
            version=_optional(fields, "version_made", int),
            merged=_parse_merged(_optional(fields, "merged", dict)),
            forgotten=_parse_forgotten(_optional(fields, "forgotten", dict)),
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptionError(path, 0, str(error)) from error


def partition_fields(partition: LoadedPartition) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "topic": partition.topic,
        "topic_id": None if partition.topic_id is None else uuid_text(partition.topic_id),
        "partition": partition.partition,
        "from_offset": partition.from_offset,
        "until_offset": partition.until_offset,
        "row_count": partition.row_count,
        "quarantined_count": partition.quarantined_count,
        "log_end_offset": partition.log_end_offset,
        "batches": None if partition.batches is None else asdict(partition.batches),
    }
    if partition.copied_count:
        fields["copied_count"] = partition.copied_count
    if partition.forgotten_count:
        fields["forgotten_count"] = partition.forgotten_count
    if partition.lost is not None:
        fields["lost"] = asdict(partition.lost)
    return fields


def _file_fields(file: DataFile) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "path": file.path,
        "size": file.size,
        "row_count": file.row_count,
        "partition": file.partition,
        "first_offset": file.first_offset,
        "last_offset": file.last_offset,
    }
    if file.role is not FileRole.ROWS:
        fields["role"] = file.role.value
    if file.values:
        fields["values"] = dict(file.values)
    if file.times is not None:
        fields["times"] = list(file.times)
    if file.keys is not None:
        fields["keys"] = [base64.b64encode(one).decode("ascii") for one in file.keys]
    if file.rescued_count:
        fields["rescued_count"] = file.rescued_count
    return fields


def parse_partition(fields: Mapping[str, Any]) -> LoadedPartition:
    topic_id = fields.get("topic_id")
    lost, batches = _optional(fields, "lost", dict), _optional(fields, "batches", dict)
    return LoadedPartition(
        topic=_typed(fields, "topic", str),
        topic_id=None if topic_id is None else parse_uuid(_typed(fields, "topic_id", str)),
        partition=_count(fields, "partition"),
        row_count=_count(fields, "row_count"),
        quarantined_count=_count(fields, "quarantined_count"),
        copied_count=_count_or_0(fields, "copied_count"),
        forgotten_count=_count_or_0(fields, "forgotten_count"),
        log_end_offset=_optional(fields, "log_end_offset", int),
        batches=None if batches is None else _parse_batches(batches),
        lost=None if lost is None else OffsetRange(**_range(lost)),
        **_range(fields),
    )


def _parse_merged(fields: Mapping[str, Any] | None) -> MergeCounts | None:
    if fields is None:
        return None
    return MergeCounts(upserted=_count(fields, "upserted"), superseded=_count(fields, "superseded"))


def _parse_forgotten(fields: Mapping[str, Any] | None) -> Forgotten | None:
    if fields is None:
        return None
    return Forgotten(
        by=_typed(fields, "by", str),
        reason=_typed(fields, "reason", str),
        condition=_optional(fields, "condition", str),
        condition_hash=_optional(fields, "condition_hash", str),
    )


def _parse_keys(fields: list[Any] | None) -> tuple[bytes, bytes] | None:
    if fields is None:
        return None
    first, last = (base64.b64decode(one, validate=True) for one in fields)
    return first, last


def _parse_batches(fields: Mapping[str, Any]) -> BatchRollUp:
    return BatchRollUp(
        batch_count=_count(fields, "batch_count"),
        crc=_count(fields, "crc"),
        leader_epoch=_typed(fields, "leader_epoch", int),
    )


def _parse_file(fields: Mapping[str, Any]) -> DataFile:
    values = fields.get("values", {})
    is_named = isinstance(values, dict) and all(isinstance(one, str) for one in values.values())
    _require(is_named, f"values is {values!r}")
    times = _optional(fields, "times", list)
    is_pair = times is None or (len(times) == 2 and all(type(one) is int for one in times))
    _require(is_pair, f"times is {times!r}")
    return DataFile(
        path=_inside(fields.get("path")),
        size=_count(fields, "size"),
        row_count=_count(fields, "row_count"),
        partition=_count(fields, "partition"),
        first_offset=_count(fields, "first_offset"),
        last_offset=_count(fields, "last_offset"),
        role=FileRole(fields.get("role", FileRole.ROWS.value)),
        values=values,
        times=None if times is None else (int(times[0]), int(times[1])),
        keys=_parse_keys(_optional(fields, "keys", list)),
        rescued_count=_count_or_0(fields, "rescued_count"),
    )


def _inside(path: object) -> str:
    if not isinstance(path, str):
        raise ValueError(f"path is {path!r}")
    leads_out = path.startswith("/") or ".." in path.split("/")
    _require(not leads_out, f"{path!r} leads out of the table")
    return path


def _range(fields: Mapping[str, Any]) -> dict[str, int]:
    from_offset, until_offset = _count(fields, "from_offset"), _count(fields, "until_offset")
    _require(from_offset <= until_offset, f"offsets run from {from_offset} to {until_offset}")
    return {"from_offset": from_offset, "until_offset": until_offset}


def _each(
    fields: Mapping[str, Any], name: str, parse: Callable[[Mapping[str, Any]], _Value]
) -> tuple[_Value, ...]:
    parts = _typed(fields, name, list)
    _require(
        all(isinstance(part, dict) for part in parts), f"{name} has elements other than objects"
    )
    return tuple(parse(part) for part in parts)


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = _typed(fields, name, int)
    _require(value >= 0, f"{name} is {value}")
    return value


def _count_or_0(fields: Mapping[str, Any], name: str) -> int:
    return _count(fields, name) if name in fields else 0


def _optional(fields: Mapping[str, Any], name: str, kind: type[_Value]) -> _Value | None:
    return None if fields.get(name) is None else _typed(fields, name, kind)


def _typed(fields: Mapping[str, Any], name: str, kind: type[_Value]) -> _Value:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}")
    return value


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise ValueError(reason)
