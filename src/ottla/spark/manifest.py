"""What a load committed: one JSON file per load, and the only word on which rows a table has.

Format page: docs/format/load-manifest.md. An entry appears whole or not at all (temporary file,
fsync, rename, fsync of the directory), so a crash leaves the table as it was, plus data files that
no entry names; the next load removes those. Kafka has no counterpart: this is the table's side of
exactly once, as a consumer group's committed offsets are the broker's.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.ids import Uuid, parse_uuid, uuid_text

FORMAT_NAME = "ottla load manifest"
FORMAT_VERSION = 1

_ENTRY_NAME = re.compile(r"(\d{20})\.json")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets from `from_offset` up to, and without, `until_offset`."""

    from_offset: int
    until_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file; `path` is relative to the table, `size` in bytes."""

    path: str
    size: int
    row_count: int
    partition: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPartition:
    """How far one partition came with one load: the next load starts at `until_offset`."""

    topic: str
    topic_id: Uuid | None
    partition: int
    from_offset: int
    until_offset: int
    row_count: int
    lost: OffsetRange | None = None
    """Offsets that retention removed before any load read them, and the caller let go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One committed load."""

    commit_id: int
    committed_ms: int
    source: str
    """Where the records came from, for people."""
    partitions: tuple[LoadedPartition, ...]
    files: tuple[DataFile, ...]

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)


def entry_file_name(commit_id: int) -> str:
    """Twenty digits, as Kafka names its segments, so that names sort as numbers do."""
    return f"{commit_id:020d}.json"


def parse_entry_file_name(name: str) -> int | None:
    found = _ENTRY_NAME.fullmatch(name)
    return int(found[1]) if found else None


def loaded_partitions(entries: Iterable[ManifestEntry]) -> dict[int, LoadedPartition]:
    """The newest word on each partition, from entries in the order of their commits."""
    return {loaded.partition: loaded for entry in entries for loaded in entry.partitions}


def format_entry(entry: ManifestEntry) -> bytes:
    """The bytes of an entry's file."""
    content = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "commit_id": entry.commit_id,
        "committed_ms": entry.committed_ms,
        "source": entry.source,
        "partitions": [_partition_fields(partition) for partition in entry.partitions],
        "files": [_file_fields(file) for file in entry.files],
    }
    return (json.dumps(content, indent=1) + "\n").encode()


def parse_entry(path: str, content: bytes) -> ManifestEntry:
    """The inverse of `format_entry`; raises `CorruptionError` for anything else."""
    try:
        fields = json.loads(content)
        _require(isinstance(fields, dict), "it holds no JSON object")
        _require(fields.get("format") == FORMAT_NAME, "it is no load manifest")
        _require(
            fields.get("version") == FORMAT_VERSION,
            f"its version is {fields.get('version')!r}, and only {FORMAT_VERSION} is known",
        )
        return ManifestEntry(
            commit_id=_count(fields, "commit_id"),
            committed_ms=_typed(fields, "committed_ms", int),
            source=_typed(fields, "source", str),
            partitions=_each(fields, "partitions", _parse_partition),
            files=_each(fields, "files", _parse_file),
        )
    except (ValueError, RecursionError) as error:
        raise CorruptionError(path, 0, str(error)) from error


def _partition_fields(partition: LoadedPartition) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "topic": partition.topic,
        "topic_id": None if partition.topic_id is None else uuid_text(partition.topic_id),
        "partition": partition.partition,
        "from_offset": partition.from_offset,
        "until_offset": partition.until_offset,
        "row_count": partition.row_count,
    }
    if partition.lost is not None:
        fields["lost"] = {
            "from_offset": partition.lost.from_offset,
            "until_offset": partition.lost.until_offset,
        }
    return fields


def _file_fields(file: DataFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "row_count": file.row_count,
        "partition": file.partition,
        "first_offset": file.first_offset,
        "last_offset": file.last_offset,
    }


def _parse_partition(fields: Mapping[str, Any]) -> LoadedPartition:
    topic_id = fields.get("topic_id")
    lost = fields.get("lost")
    return LoadedPartition(
        topic=_typed(fields, "topic", str),
        topic_id=None if topic_id is None else parse_uuid(_typed(fields, "topic_id", str)),
        partition=_count(fields, "partition"),
        row_count=_count(fields, "row_count"),
        lost=None if lost is None else OffsetRange(**_range(_typed(fields, "lost", dict))),
        **_range(fields),
    )


def _parse_file(fields: Mapping[str, Any]) -> DataFile:
    path = _typed(fields, "path", str)
    inside = not path.startswith("/") and ".." not in path.split("/")
    _require(inside, f"{path!r} leads out of the table")
    return DataFile(
        path=path,
        size=_count(fields, "size"),
        row_count=_count(fields, "row_count"),
        partition=_count(fields, "partition"),
        first_offset=_count(fields, "first_offset"),
        last_offset=_count(fields, "last_offset"),
    )


def _range(fields: Mapping[str, Any]) -> dict[str, int]:
    from_offset, until_offset = _count(fields, "from_offset"), _count(fields, "until_offset")
    _require(from_offset <= until_offset, f"offsets run from {from_offset} to {until_offset}")
    return {"from_offset": from_offset, "until_offset": until_offset}


def _each(
    fields: Mapping[str, Any], name: str, parse: Callable[[Mapping[str, Any]], _Value]
) -> tuple[_Value, ...]:
    parts = _typed(fields, name, list)
    _require(all(isinstance(part, dict) for part in parts), f"{name} holds no JSON objects")
    return tuple(parse(part) for part in parts)


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = _typed(fields, name, int)
    _require(value >= 0, f"{name} is {value}")
    return value


def _typed(fields: Mapping[str, Any], name: str, kind: type[_Value]) -> _Value:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}")
    return value


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise ValueError(reason)
