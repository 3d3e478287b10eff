"""The interface to a table's format, which decides the order of commits, and the current files.

`delta.py` and `iceberg.py` implement it. What the format has no words for (topic, ranges, counts,
quarantine) goes with each commit as its facts, which `ledger.py` keeps for good.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.tables.ledger_entries import DataFile

if TYPE_CHECKING:
    import pyarrow as pa


_NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"


class CommitTakenError(UserError):
    """Another writer has made the commit of that number, or changed what this one is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The table as its format has it. `commit_count` is how many commits are loads' own."""

    version: int
    commit_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One commit to be made: all of it, or nothing."""

    commit_id: int
    next_offsets: Mapping[str, int]
    """By application (`orders-0`): a second commit of the same range is refused by the format."""
    added: Sequence[DataFile]
    removed: Sequence[DataFile]
    has_new_rows: bool
    """Whether the commit adds or removes rows, rather than only moving them to other files."""
    schema: "pa.Schema"
    partition_columns: Sequence[str]
    facts: Mapping[str, Any]
    """What the ledger has of the commit, in JSON's types."""
    committed_ms: int
    field_ids: Mapping[str, int] = field(default_factory=dict)
    """What the files have been written with, by `TransactionLog.field_ids`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """One commit made by Ottla, as recorded in the format's own history."""

    version: int
    facts: Mapping[str, Any]


class TransactionLog(Protocol):
    """One table's log. Nothing is kept between calls that another writer could make wrong."""

    @property
    def directory(self) -> str:
        """Where the format has its own files, relative to the table."""

    @property
    def is_widened_by_readers(self) -> bool:
        """Whether a `bigint` column may have files with an `int`, which readers then widen."""

    def state(self) -> LogState | None:
        """`None` where there is no table; raises `UserError` for a table of others."""

    def field_ids(self, schema: "pa.Schema") -> Mapping[str, int]:
        """By the paths of columns and fields, the numbers that files must have; or none."""

    def commit(self, change: Change) -> int:
        """The version made, durably; raises `CommitTakenError`, and changes nothing then."""

    def history(self, since_commit: int) -> list[Committed]:
        """Our commits from that one on, oldest first; those that were cleaned up are left out."""

    def files(self, version: int | None = None) -> list[str]:
        """Data files by their first partition and offset, relative to the table.

        Raises `UserError` for a version that is gone.
        """

    def version_at(self, time_ms: int) -> int:
        """The version that was current then; raises `UserError` before the first."""

    def next_offset(self, application: str) -> int | None:
        """The value of the last commit that set it."""

    def repair(self) -> None:
        """Reverts what a power failure left half-written; only for the writer that has the lock."""

    def vacuum(self, kept_ms: int, *, is_dry: bool) -> list[str]:
        """Removes data files that no version of the last `kept_ms` has; returns their paths."""


def whole_files(parts: Sequence[DataFile]) -> list[list[DataFile]]:
    """Each file's parts together."""
    by_path: dict[str, list[DataFile]] = {}
    for part in parts:
        by_path.setdefault(part.path, []).append(part)
    return list(by_path.values())


def partition_values(file: DataFile) -> dict[str, str | None]:
    """Columns that the directory's name holds."""
    return {
        name: None if value == _NULL_DIRECTORY else value for name, value in file.values.items()
    }


def bounds(parts: Sequence[DataFile]) -> tuple[dict[str, int], dict[str, int]]:
    """The lowest and the highest value of columns in a file; `timestamp` in microseconds.

    By these readers leave out files that have none of the rows they look for.
    """
    lowest = {
        "partition": min(one.partition for one in parts),
        "offset": min(one.first_offset for one in parts),
    }
    highest = {
        "partition": max(one.partition for one in parts),
        "offset": max(one.last_offset for one in parts),
    }
    times = [one.times for one in parts if one.times is not None]
    if len(times) == len(parts):
        lowest["timestamp"] = min(first for first, _ in times)
        highest["timestamp"] = max(last for _, last in times)
    return lowest, highest
