"""Deletes the rows of a condition on purpose, such as those of a person who asks for it.

Tasks look for the rows in each file, and write its other rows and the places of those that match.
One commit replaces the files, and records who deleted how many, and which: so no rerun brings them
back, and an audit knows that they are missing on purpose. A crash before the commit leaves the
table unchanged. Replaced files still have the rows until `ottla table vacuum`. Needs DuckDB, which
evaluates the condition.
"""

import hashlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import UserError
from ottla.base.events import pass_over
from ottla.base.extras import needed_for
from ottla.base.values import dataclass
from ottla.tables.columns.rows import quarantine_columns
from ottla.tables.entries import (
    Action,
    DataFile,
    FileRole,
    Forgotten,
    MergeCounts,
    forgotten_of,
    of_role,
    total_size,
    whole_files,
)
from ottla.tables.files.data_files import DataFiles
from ottla.tables.files.data_set import data_set
from ottla.tables.files.forgotten import forgotten_columns
from ottla.tables.files.parquet_files import ParquetOutput, ParquetStyle, open_parquet
from ottla.tables.layout import TableLayout
from ottla.tables.maintenance.merging import first_unlike_rows
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.table import Table, columns_of
from ottla.tables.writing.copied_rows import Copying, kept_rows
from ottla.tables.writing.engine import Engine, no_tasks_shown, shared_out
from ottla.tables.writing.progress import OnProgress, Progress, Step
from ottla.tables.writing.transaction import Transaction, WriteOptions, wrong_rows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BUNDLE_SIZE = 64 * 1024 * 1024
"""Bytes of files that one task looks through."""

_File = Sequence[DataFile]
"""A file, as the list of its parts."""


class ConditionRecord(Enum):
    """What a table keeps of the condition, which may itself name a person."""

    HASH = "hash"
    """A salted hash: who has the condition can prove that it was this one."""
    TEXT = "text"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOptions:
    """`condition` is an expression of SQL over the columns of rows, or of quarantined records."""

    condition: str
    by: str
    reason: str = ""
    recorded: ConditionRecord = ConditionRecord.HASH
    role: FileRole = FileRole.ROWS
    compression: str = "zstd"
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReport:
    """What was deleted, by partition; `commit_id` is `None` if nothing matched."""

    table: str
    commit_id: int | None
    counts: Mapping[int, int]
    files_replaced: int
    seconds: float

    @property
    def row_count(self) -> int:
        return sum(self.counts.values())


def count_matching(path: str, engine: Engine, options: ForgetOptions) -> dict[int, int]:
    """How many rows `forget` would delete now, by partition; raises as it does."""
    table = Table(path)
    table.require()
    search = _search(table, table.layout(), options)
    counts: Counter[int] = Counter()
    for text in engine.run(_tasks(table, options, search.count), no_tasks_shown):
        counts.update({int(number): count for number, count in json.loads(text).items()})
    return dict(sorted(counts.items()))


def forget(
    path: str, engine: Engine, options: ForgetOptions, progress: OnProgress = pass_over
) -> ForgetReport:
    """Deletes the rows that match, and records it.

    Raises `UserError` if there is no table, if a load into it is running, or for a condition that
    DuckDB cannot evaluate over its columns, and `TaskError` if the rows that stay differ from those
    read; the table is then unchanged.
    """
    started = time.monotonic()
    table = Table(path)
    table.require()  # before `claim`, which would create the directory
    with table.claim():
        progress(Progress(step=Step.CLAIMED))
        table.make_whole()
        state = table.state()
        writing = WriteOptions(
            engine=engine,
            progress=progress,
            compression=options.compression,
            clock=options.clock,
        )
        transaction = Transaction.after(state, table, writing, Action.FORGET, state.layout)
        deletion = Deletion(
            search=_search(table, state.layout, options),
            copying=Copying.of(transaction),
            commit_id=transaction.commit_id,
        )
        progress(Progress(step=Step.WRITING))
        texts = engine.run(_tasks(table, options, deletion.write), no_tasks_shown)
        done = [Rewritten(**json.loads(one)) for one in texts]
        counts = _published(transaction, done, options) if done else {}
    return ForgetReport(
        table=table.address,
        commit_id=transaction.commit_id if done else None,
        counts=counts,
        files_replaced=len(done),
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What tasks look for; `columns` are those of the table, or of its quarantine."""

    table: str
    condition: str
    columns: "pa.Schema"

    def count(self, files: Sequence[_File]) -> list[str]:
        """How many rows match, by partition, as JSON."""
        store = open_store(self.table)
        counts: Counter[int] = Counter()
        for parts in files:
            found = self.matching(store, parts)
            counts.update({number: len(offsets) for number, offsets in found.items()})
        return [json.dumps(counts)]

    def matching(self, store: TableStore, parts: _File) -> "dict[int, np.ndarray[Any, Any]]":
        """The offsets of rows that match, by partition, each once and in order."""
        import numpy as np

        found = self._asked(_rows_of(store, parts, self.columns))
        partitions, offsets = (found[index].to_numpy() for index in range(2))
        return {
            int(number): np.unique(offsets[partitions == number])
            for number in np.unique(partitions).tolist()
        }

    def check(self) -> None:
        """Raises `UserError` for a condition that cannot be evaluated, or is none: a number is true
        unless it is 0, so that a column's name alone would delete about all rows.
        """
        rows = self.columns.empty_table()
        self._asked(rows)
        (kind,) = self._asked(rows, f"({self.condition})").schema.types
        if str(kind) != "bool":
            raise UserError(
                f"--where {self.condition!r} is {kind}, and not true or false: write a comparison, "
                f"such as value.customer = 7"
            )

    def _asked(self, rows: Any, columns: str | None = None) -> "pa.Table":
        """The places of the rows that match, or other columns of them."""
        with needed_for("ottla table forget"):
            import duckdb
        prefix = "_" if "_offset" in self.columns.names else ""
        with duckdb.connect() as connection:
            try:
                connection.execute("SET TimeZone = 'UTC'")
                # Else a table in a condition could be a variable here: the rows of one file.
                connection.execute("SET python_enable_replacements = false")
                found = connection.from_arrow(rows).filter(self.condition)
                place = found.project(columns or f'"{prefix}partition", "{prefix}offset"')
                return place.to_arrow_table()
            except duckdb.ParserException as error:
                line = str(error).splitlines()[0]
                raise UserError(
                    f'--where: {line}; columns that are called as words of SQL are quoted, "at"'
                ) from error
            except duckdb.BinderException as error:
                line = str(error).splitlines()[0].rstrip("!")
                raise UserError(
                    f"--where: {line}; the columns are {', '.join(self.columns.names)}, and their "
                    f"fields have dots, such as value.customer"
                ) from error
            except duckdb.CatalogException as error:
                line = str(error).splitlines()[0].rstrip("!")
                raise UserError(
                    f"--where: {line}; a condition is about the columns of one row"
                ) from error
            except duckdb.Error as error:
                raise UserError(f"--where: {str(error).splitlines()[0]}") from error


@dataclass(slots=True)
class Rewritten:
    """What became of a file: the files of the rows that stay, and that of the places forgotten."""

    path: str
    written: list[str]
    forgotten: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The task that rewrites the files that have rows to be deleted."""

    search: Search
    copying: Copying
    commit_id: int

    def write(self, files: Sequence[_File]) -> list[str]:
        """Returns a `Rewritten` as JSON for each file that had any."""
        store = open_store(self.search.table)
        found = ((parts, self.search.matching(store, parts)) for parts in files)
        return [self._rewritten(store, parts, some) for parts, some in found if some]

    def _rewritten(
        self, store: TableStore, parts: _File, found: "Mapping[int, np.ndarray[Any, Any]]"
    ) -> str:
        token = secrets.token_hex(4)
        keeps = partial(_is_not_among, found)
        written = self.copying.copy(store, parts, keeps, f"kept-{token}")
        if len(written) == 1:
            wanted = (rows for _, rows in kept_rows(store, parts, keeps))
            with open_parquet(store, written[0]) as opened:
                if first_unlike_rows(wanted, opened.iter_batches()) is not None:
                    raise wrong_rows(written[0])
        gone = {part.partition: _gone(store, part, found) for part in parts}
        forgotten = f"{forgotten_of(self.copying.directory)}/part-{token}.parquet"
        is_row = parts[0].role is FileRole.ROWS
        style = ParquetStyle(compression=self.copying.style.compression)
        with ParquetOutput(store, forgotten, style) as output:
            for number, offsets in gone.items():
                output.write(_places(number, offsets, is_row, self.commit_id), number)
        return json.dumps({"path": parts[0].path, "written": written, "forgotten": forgotten})


def _is_not_among(
    found: "Mapping[int, np.ndarray[Any, Any]]", partition: int, offsets: "pa.Array"
) -> Any:
    import numpy as np
    import pyarrow as pa

    gone = found.get(partition)
    if gone is None:
        return pa.array(np.ones(len(offsets), bool))
    return pa.array(~np.isin(offsets.to_numpy(), gone))


def _gone(
    store: TableStore, part: DataFile, found: "Mapping[int, np.ndarray[Any, Any]]"
) -> "np.ndarray[Any, Any]":
    """The offsets of the rows that are not kept, each as often as there are rows with it."""
    import numpy as np

    offsets = DataFiles(store).offsets(part)
    return offsets[np.isin(offsets, found.get(part.partition, []))]


def _places(
    partition: int, offsets: "np.ndarray[Any, Any]", is_row: bool, commit_id: int
) -> "pa.RecordBatch":
    import pyarrow as pa

    schema = forgotten_columns()
    columns = [
        pa.repeat(pa.scalar(partition, pa.int32()), len(offsets)),
        pa.array(offsets),
        pa.repeat(is_row, len(offsets)),
        pa.repeat(pa.scalar(commit_id, pa.int64()), len(offsets)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows_of(store: TableStore, parts: _File, columns: "pa.Schema") -> Any:
    """A dataset of one file, in the columns of the table."""
    return data_set(store, {parts[0].path: parts[0].kept}, columns, {})


def _search(table: Table, layout: TableLayout, options: ForgetOptions) -> Search:
    """Raises `UserError` for a condition that cannot be evaluated."""
    is_rows = options.role is FileRole.ROWS
    columns = columns_of(layout) if is_rows else quarantine_columns(with_bytes=True)
    search = Search(table=table.path, condition=options.condition, columns=columns)
    search.check()
    return search


def _tasks(
    table: Table, options: ForgetOptions, work: Callable[[Sequence[_File]], list[str]]
) -> list[Callable[[], list[str]]]:
    files = whole_files(of_role(table.current_files(), options.role))
    return [partial(work, some) for some in shared_out(files, total_size, BUNDLE_SIZE)]


def _published(
    transaction: Transaction, done: Sequence[Rewritten], options: ForgetOptions
) -> dict[int, int]:
    """Commits what tasks have written; raises `TaskError` if the counts do not add up."""
    paths = {one.path for one in done}
    replaced = [one for one in transaction.table.current_files() if one.path in paths]
    kept = transaction.written(path for one in done for path in one.written)
    places = transaction.written(one.forgotten for one in done)
    counts = _counts(places)
    if _counts(replaced) != _counts([*kept, *places]):
        raise wrong_rows(transaction.directory)
    merged = None
    if transaction.layout.is_latest:
        is_rows = options.role is FileRole.ROWS
        merged = MergeCounts(upserted=0, superseded=sum(counts.values()) if is_rows else 0)
    forgotten = _recorded(options)
    transaction.publish((*kept, *places), replaced, merged=merged, forgotten=forgotten)
    return counts


def _counts(parts: Sequence[DataFile]) -> dict[int, int]:
    counts: Counter[int] = Counter()
    for part in parts:
        counts[part.partition] += part.row_count
    return dict(sorted(counts.items()))


def _recorded(options: ForgetOptions) -> Forgotten:
    hashed = None
    if options.recorded is ConditionRecord.HASH:
        salt = secrets.token_hex(8)
        digest = hashlib.sha256(f"{salt}{options.condition}".encode()).hexdigest()
        hashed = f"sha256:{salt}:{digest}"
    return Forgotten(
        by=options.by,
        reason=options.reason,
        condition=options.condition if options.recorded is ConditionRecord.TEXT else None,
        condition_hash=hashed,
    )
