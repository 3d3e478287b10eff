"""Rows that a rerun leaves as they are, copied out of the files that it replaces."""

import os

from ottla.spark.loading.parquet_job import read_footer
from ottla.spark.tables.manifest import DataFile, OffsetRange


def carry(
    table_path: str, file: DataFile, replaced: OffsetRange, target: str, compression: str
) -> DataFile | None:
    """Copies a file's rows but those of the offsets replaced; `None` when no row is left.

    `target` is relative to the table. The schema stays as it is, Spark's notes on it included.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path = os.path.join(table_path, target)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with (
        # As one file: a dataset would take columns from the directories' names.
        pq.ParquetFile(os.path.join(table_path, file.path)) as opened,
        pq.ParquetWriter(path, opened.schema_arrow, compression=compression) as writer,
    ):
        for batch in opened.iter_batches():
            offsets = batch.column(batch.schema.get_field_index("offset"))
            is_kept = pc.or_(
                pc.less(offsets, replaced.from_offset),
                pc.greater_equal(offsets, replaced.until_offset),
            )
            kept = batch.filter(is_kept)
            if kept.num_rows:
                writer.write_table(pa.Table.from_batches([kept]))
    carried = read_footer(table_path, target)
    if carried is None:
        os.remove(path)
    return carried
