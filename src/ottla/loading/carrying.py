"""Rows that a rerun leaves as they are, copied out of the files that it replaces."""

from ottla.base.partitions import OffsetRange
from ottla.tables.manifest import DataFile
from ottla.tables.parquet_files import ParquetOutput, open_parquet, read_footer
from ottla.tables.store import TableStore


def carry(
    store: TableStore, file: DataFile, replaced: OffsetRange, target: str, compression: str
) -> DataFile | None:
    """Copies a file's rows but those of the offsets replaced; `None` when no row is left.

    `target` is relative to the table. The columns stay as they are.
    """
    import pyarrow.compute as pc

    with (
        open_parquet(store, file.path) as opened,
        ParquetOutput(store, target, compression) as output,
    ):
        for batch in opened.iter_batches():
            offsets = batch.column(batch.schema.get_field_index("offset"))
            is_kept = pc.or_(
                pc.less(offsets, replaced.from_offset),
                pc.greater_equal(offsets, replaced.until_offset),
            )
            output.write(batch.filter(is_kept))
        if not output.close():
            return None
    return read_footer(store, target)
