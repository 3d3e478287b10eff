"""Copies rows that a rerun keeps out of the files that it replaces."""

from collections.abc import Mapping, Sequence

from ottla.base.partitions import OffsetRange
from ottla.loading.job import LoadJob, LoadPlan
from ottla.loading.writing import WrittenFiles
from ottla.tables.data_files import part_batches
from ottla.tables.ledger_entries import DataFile, place_like
from ottla.tables.parquet_files import ParquetOutput, ParquetStyle, open_parquet, read_footer
from ottla.tables.store import TableStore

NOTHING = OffsetRange(from_offset=0, until_offset=0)


def carry_all(job: LoadJob, plan: LoadPlan, written: WrittenFiles) -> tuple[DataFile, ...]:
    """Copies the rows of replaced files that are outside the plan's ranges.

    Each copy is at the same place in the new commit's directory (`data/load-…/day=…/`).
    """
    if not plan.replaced:
        return ()
    ranges = {one.partition: one.offsets for one in plan.ranges}
    style = written.style(job.options.compression)
    carried: list[DataFile] = []
    by_path: dict[str, list[DataFile]] = {}
    for part in plan.replaced:
        by_path.setdefault(part.path, []).append(part)
    for number, parts in enumerate(by_path.values()):
        if all(_is_within(part, ranges.get(part.partition, NOTHING)) for part in parts):
            continue
        target = f"{place_like(parts[0], written.directory)}/part-carried-{number:05d}.parquet"
        carried += carry(job.table.store, parts, ranges, target, style)
    return tuple(carried)


def carry(
    store: TableStore,
    parts: Sequence[DataFile],
    replaced: Mapping[int, OffsetRange],
    target: str,
    style: ParquetStyle,
) -> list[DataFile]:
    """Copies the rows of a file except those at replaced offsets; no file if no row is left.

    `target` is relative to the table. The columns are unchanged.
    """
    import pyarrow.compute as pc

    with (
        open_parquet(store, parts[0].path) as opened,
        ParquetOutput(store, target, style) as output,
    ):
        for part in parts:
            one = replaced.get(part.partition, NOTHING)
            for batch in part_batches(opened, part):
                offsets = batch.column(batch.schema.get_field_index("offset"))
                is_kept = pc.or_(
                    pc.less(offsets, one.from_offset), pc.greater_equal(offsets, one.until_offset)
                )
                output.write(batch.filter(is_kept), part.partition)
        if not output.close():
            return []
    return read_footer(store, target)


def _is_within(part: DataFile, wanted: OffsetRange) -> bool:
    return wanted.from_offset <= part.first_offset and part.last_offset < wanted.until_offset
