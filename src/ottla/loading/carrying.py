"""Rows that a rerun leaves as they are, copied out of the files that it replaces."""

from dataclasses import replace

from ottla.base.partitions import OffsetRange
from ottla.loading.job import LoadJob, LoadPlan
from ottla.tables.manifest import DataFile, inner_place
from ottla.tables.parquet_files import ParquetOutput, open_parquet, read_footer
from ottla.tables.store import TableStore


def carry_all(job: LoadJob, plan: LoadPlan, directory: str) -> tuple[DataFile, ...]:
    """Copies what the plan's replaced files have of other offsets, beside the rows read again.

    Each copy lies in the same place of the new commit's directory (`data/load-…/day=…/`).
    """
    ranges = {one.partition: one.offsets for one in plan.ranges}
    carried = []
    for number, file in enumerate(plan.replaced):
        wanted = ranges[file.partition]
        if wanted.from_offset <= file.first_offset and file.last_offset < wanted.until_offset:
            continue
        inner = inner_place(file)
        name = f"part-carried-{number:05d}.parquet"
        target = "/".join(one for one in (directory, inner, name) if one)
        kept = carry(job.table.store, file, wanted, target, job.options.compression)
        if kept is not None:
            carried.append(replace(kept, role=file.role, values=file.values))
    return tuple(carried)


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
