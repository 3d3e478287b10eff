"""The interface to a table format, which orders commits and lists the current files.

Implemented by `delta.py` and `iceberg.py`. What the format cannot express (topic, ranges, counts,
quarantine) is attached to each commit as facts, which `ledger.py` stores permanently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.columns.statistics import LeafStatistics, Path
from ottla.tables.entries import DataFile
from ottla.tables.files.parquet_files import values_in

if TYPE_CHECKING:
    import pyarrow as pa


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CommitTakenError(UserError):
    """Another writer made the commit of that number, or changed the files concerned."""


class RefusedError(UserError):
    """The table has what Ottla or the format's library does not do; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The state of the table in its format. `commit_count` counts only commits of loads."""

    version: int
    commit_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A commit to be made, completely or not at all."""

    commit_id: int
    next_offsets: Mapping[str, int]
    """By application id (`orders-0`): the format rejects a second commit of the same range."""
    added: Sequence[DataFile]
    removed: Sequence[DataFile]
    has_new_rows: bool
    """Whether the commit adds or removes rows, rather than only moving them between files."""
    schema: "pa.Schema"
    partition_columns: Sequence[str]
    partitioning: Partitioning | None
    partitioned_before: Partitioning | None
    """That of the table until this commit."""
    facts: Mapping[str, Any]
    """The ledger's facts of the commit, as JSON types."""
    committed_ms: int
    is_flat: bool = False
    statistics: Sequence[str] = ()
    """The columns that are to have statistics, if they are named."""
    change_data: Sequence[DataFile] = ()
    """Of a table with a change feed, the files of the rows that changed."""
    has_change_feed: bool = False
    field_ids: Mapping[str, int] = field(default_factory=dict)
    """The field ids with which the files were written, from `TransactionLog.field_ids`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The data files of one version, relative to the table, by first partition and offset."""

    paths: Sequence[str]
    kept: Mapping[str, bytes] = field(default_factory=dict)
    """By path, which rows are there (`DataFile.kept`), if others were deleted in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """One commit made by Ottla, as recorded in the format's own history."""

    version: int
    facts: Mapping[str, Any]


class TransactionLog(Protocol):
    """The log of one table. Nothing is cached that another writer could invalidate."""

    @property
    def directory(self) -> str:
        """The directory of the format's own files, relative to the table."""

    @property
    def has_transforms(self) -> bool:
        """Whether files are partitioned by transforms that readers apply, and these may change."""

    @property
    def has_change_feed(self) -> bool:
        """Whether commits may say which rows they changed."""

    @property
    def is_widened_by_readers(self) -> bool:
        """Whether files with `int` may be in a table with a `bigint` column, which readers then
        widen.
        """

    def state(self) -> LogState | None:
        """The current state; `None` without a table; raises `UserError` for others' tables."""

    def field_ids(self, schema: "pa.Schema") -> Mapping[str, int]:
        """The field ids that files must have, by the paths of columns and fields; empty if none."""

    def check_names(self, columns: "pa.Schema") -> None:
        """Raises `UserError` if another program has renamed or dropped one of a table's columns, by
        which its readers would find other values than those of the files.
        """

    def check_rules(self) -> None:
        """Raises `RefusedError` if another program asks something of new rows, such as a CHECK
        constraint, that loads do not see to.
        """

    def commit(self, change: Change) -> int:
        """Commits durably and returns the version; if it raises `CommitTakenError` or
        `RefusedError`, nothing changed.
        """

    def history(self, since_commit: int) -> list[Committed]:
        """Ottla's commits from `since_commit` on, oldest first, except those cleaned up."""

    @property
    def replaces_masked(self) -> bool:
        """Whether a commit can replace files in which rows were deleted."""

    def contents(self, version: int | None = None) -> Contents:
        """Raises `UserError` for a version that no longer exists."""

    def make_whole(self, places: Sequence[tuple[int, int]]) -> None:
        """Rewrites the files with the rows of these partitions and offsets as they are, without
        those that were deleted in them.
        """

    def statistics(self, version: int | None = None) -> dict[str, dict[Path, LeafStatistics]]:
        """The statistics of each data file, as far as its writer gave any."""

    def version_at(self, time_ms: int) -> int:
        """The version that was current at that time; raises `UserError` before the first."""

    def next_offset(self, application: str) -> int | None:
        """The value set by the last commit with this application id."""

    def repair(self, durable_version: int | None) -> None:
        """Removes incomplete writes of a power failure; only for the writer that holds the lock.

        All up to `durable_version`, if any, is known to be durable.
        """

    def publish_quarantine(self, files: Sequence[DataFile], committed_ms: int) -> None:
        """Makes the quarantine, which is a table beside this one, have these files."""

    def vacuum(self, retention_ms: int, *, is_dry: bool) -> list[str]:
        """Removes data files that no version of that time until now uses; returns their paths."""


def no_table(address: str) -> UserError:
    return UserError(f"{address} holds no table that ottla loaded")


def whole_paths(address: str, contents: Contents) -> list[str]:
    """The files for who reads them whole; raises `UserError` if rows were deleted in some."""
    if contents.kept:
        raise UserError(
            f"{address}: another program has deleted rows in {len(contents.kept)} files, by "
            f"deletion vectors or delete files, which paths alone do not say; rewrite them "
            f"with: ottla table optimize {address}"
        )
    return list(contents.paths)


def is_as_read(change: Change, contents: Contents) -> bool:
    """Whether the files that a commit removes are there with the rows that were read."""
    paths = set(contents.paths)
    return all(
        one.path in paths and contents.kept.get(one.path) == one.kept for one in change.removed
    )


def commit_taken(address: str, change: Change) -> CommitTakenError:
    return CommitTakenError(
        f"{address}: another writer has made commit {change.commit_id}, or replaced its files, "
        f"and nothing was changed; run it again"
    )


def version_made(log: TransactionLog, address: str, change: Change) -> int:
    """Returns the version of this commit; raises `CommitTakenError` if another writer made it.

    This commit may have succeeded in spite of an error, if the response was lost.
    """
    found = log.history(change.commit_id)
    if found and found[0].facts == change.facts:
        return found[0].version
    raise commit_taken(address, change)


def partition_values(file: DataFile) -> dict[str, str | None]:
    """The columns in the directory's name."""
    return values_in(file.path)


def column_statistics(parts: Sequence[DataFile]) -> dict[Path, LeafStatistics]:
    """The statistics of the columns of a file, with which readers skip it.

    Those of `partition` and `offset` are there in any case. Timestamps are in microseconds.
    """
    partitions = [one.partition for one in parts]
    firsts, lasts = [one.first_offset for one in parts], [one.last_offset for one in parts]
    given = parts[0].statistics
    prefix = "_" if ("_offset",) in given else ""
    known = {
        **given,
        (f"{prefix}partition",): _without_nulls(min(partitions), max(partitions)),
        (f"{prefix}offset",): _without_nulls(min(firsts), max(lasts)),
    }
    times = [one.times for one in parts if one.times is not None]
    if len(times) == len(parts):
        first, last = min(first for first, _ in times), max(last for _, last in times)
        known[f"{prefix}timestamp",] = _without_nulls(time_of(first), time_of(last))
    return known


def _without_nulls(lowest: Any, highest: Any) -> LeafStatistics:
    return LeafStatistics(null_count=0, bounds=(lowest, highest))


def time_of(time_us: int) -> datetime:
    """A time in microseconds since 1970 as Python's."""
    return _EPOCH + timedelta(microseconds=time_us)
