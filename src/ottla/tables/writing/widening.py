"""Rewrites existing files with wider numbers before a load changes a column from `int` to `bigint`.

This is a commit of its own, like an optimization: it replaces the narrower files with copies and
pins the layout. After a crash before the commit, the next load with the wider type starts again. So
no reader finds a file that is narrower than its column, except after a crash between Delta's two
transactions, until the next command that writes to the table (`formats/delta.py`). In formats whose
readers widen values (Iceberg) nothing is rewritten.

Delta Lake marks files of a narrower type by a feature that its library cannot set. Readers that do
not support this feature may omit rows: Spark before 3.5.1 and 3.4.2 compares the bounds of `int`
with a `bigint` truncated to 32 bits (SPARK-46092).
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.events import pass_over
from ottla.base.values import dataclass
from ottla.tables.entries import (
    Action,
    DataFile,
    directory_like,
    rows_only,
    total_size,
    whole_files,
)
from ottla.tables.files.column_types import is_narrower, widened_schema
from ottla.tables.files.data_files import DataFiles, part_batches
from ottla.tables.files.parquet_files import (
    ParquetOutput,
    ParquetStyle,
    open_parquet,
    read_footer,
    sorted_column,
)
from ottla.tables.layout import TableLayout
from ottla.tables.ledger.ledger import TableState
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.table import Table, columns_of
from ottla.tables.writing.engine import shared_out
from ottla.tables.writing.progress import Progress, Step
from ottla.tables.writing.transaction import Transaction, WriteOptions, wrong_rows

if TYPE_CHECKING:
    import pyarrow as pa

BUNDLE_SIZE = 64 * 1024 * 1024
"""Bytes of small files that one task rewrites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """The values that each task needs. `directory` is relative to the table."""

    table: str
    directory: str
    columns: "pa.Schema"
    style: ParquetStyle

    def write(self, files: Sequence[DataFile]) -> list[str]:
        """Rewrites the narrower files; returns pairs of a file's path and the path of its copy."""
        store = open_store(self.table)
        done: list[str] = []
        for file in files:
            name = f"part-{file.partition}-{file.first_offset}-{secrets.token_hex(4)}.parquet"
            target = f"{directory_like(file, self.directory)}/{name}"
            if widen_file(store, file.path, target, self.columns, self.style):
                done += [file.path, target]
        return done


def widen_files(
    table: Table, state: TableState, layout: TableLayout, options: WriteOptions
) -> bool:
    """Rewrites files that are narrower than `layout`; returns whether it committed, so that the
    next commit continues another state.
    """
    is_new = bool(layout.decodings) and layout.decodings[-1].since_commit == state.commit_count > 0
    if not is_new or table.log.is_widened_by_readers:
        return False
    columns = columns_of(layout)
    if not is_narrower(columns_of(table.layout()), columns):
        return False
    files = rows_only(table.current_files())
    # Its steps are not those of the load that waits for it.
    own = replace(options, progress=pass_over)
    transaction = Transaction.after(state, table, own, Action.OPTIMIZE, layout)
    done = _rewritten(transaction, files, options)
    if not done:
        return False
    old = [part for part in files if part.path in done]
    new = transaction.written(done.values())
    if _extents(old) != _extents(new):
        raise wrong_rows(transaction.directory)
    transaction.publish(new, old)
    return True


def _rewritten(
    transaction: Transaction, files: Sequence[DataFile], options: WriteOptions
) -> dict[str, str]:
    """The paths of narrower files, with the paths of their copies."""
    widening = Widening(
        table=transaction.table.path,
        directory=transaction.directory,
        columns=transaction.layout.columns,
        style=transaction.style,
    )
    row_count = sum(file.row_count for file in files)
    progress = Progress(step=Step.WRITING, offset_count=row_count, is_widening=True)
    options.progress(progress)
    options.engine.start(is_short=total_size(files) < BUNDLE_SIZE)
    # Each file is represented by its first part.
    firsts = [parts[0] for parts in whole_files(files)]
    found = options.engine.run(
        [
            partial(widening.write, some)
            for some in shared_out(firsts, lambda file: file.size, BUNDLE_SIZE)
        ],
        lambda done, count: options.progress(replace(progress, tasks_done=done, task_count=count)),
    )
    return dict(zip(found[::2], found[1::2], strict=True))


def _extents(files: Iterable[DataFile]) -> list[tuple[int, int, int, int]]:
    return sorted(
        (file.partition, file.first_offset, file.last_offset, file.row_count) for file in files
    )


def widen_file(
    store: TableStore, path: str, target: str, wanted: "pa.Schema", style: ParquetStyle
) -> bool:
    """Copies a file with wider types, in order; returns `False` if no column is narrower."""
    parts = read_footer(store, path)
    has = DataFiles(store).columns(parts[0])
    wider = widened_schema(has, wanted)
    if wider == has:
        return False
    with open_parquet(store, path) as opened:
        order = sorted_column(opened)
        with ParquetOutput(store, target, style, sorted_by=order) as output:
            for part in parts:
                for batch in part_batches(opened, part):
                    output.write(batch.cast(wider), part.partition)
    return True
