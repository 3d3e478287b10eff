"""A rerun: ranges that a table has are read from the log again, and take the place of their rows.

Why one would: the table was found to differ, or values are to be decoded another way. The steps are
those of a load. Files that hold rows of the range are replaced whole; their rows of other offsets
are copied. One manifest entry takes the old files out and brings the new ones in, so readers see
all of the old rows or all of the new ones. Old files stay on the disk until `ottla table vacuum`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.carrying import carry
from ottla.loading.load import (
    LoadOptions,
    LoadPlace,
    LoadReport,
    Progress,
    Sessions,
    TableLoad,
    ignore,
)
from ottla.loading.plan import PlannedRange, check_same_topic
from ottla.loading.rerun_plan import AtTime, RerunRange, plan_rerun, touched_files
from ottla.sources.log_source import LogSource
from ottla.tables.coverage import Piece, covered
from ottla.tables.manifest import Action, DataFile, LoadedPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rerun(
    place: LoadPlace,
    wanted: RerunRange,
    *,
    spark: "SparkSession | None" = None,
    progress: Callable[[Progress], None] = ignore,
    options: LoadOptions | None = None,
) -> LoadReport:
    """Reads a range of a table's topic again; arguments as in `load.load`.

    Raises `UserError` where there is no table, when the log lacks part of the range, and when the
    table has nothing there; the table is unchanged then.
    """
    options = options or LoadOptions()
    with Sessions(spark, options.session) as sessions:
        return Rerun(place, sessions, progress, options).run_range(wanted)


class Rerun(TableLoad):
    """A load of what is there already; made as a load is."""

    action = Action.RERUN
    _wanted = RerunRange()
    _plan: Sequence[PlannedRange] = ()
    _read: tuple[LoadedPartition, ...] = ()

    def run_range(self, wanted: RerunRange) -> LoadReport:
        """Reads a range again; raises as `rerun` does."""
        self._wanted = wanted
        self._table.entries()  # Before anything is claimed: where there is no table, none is made.
        with self.claimed():
            report = self.load_new()
        return replace(report, partitions=self._read)

    def plan(self) -> tuple[PlannedRange, ...]:
        self._asked_ms = self._options.clock.now_ms()
        log = self._open_log()
        offered = log.partitions()
        for before in self._loaded.values():
            check_same_topic(before, offered)
        pieces = covered(self._table.entries())
        wanted = {
            number: self._range(number, some, log)
            for number, some in pieces.items()
            if some and self._wanted.names(number)
        }
        self._plan = plan_rerun(_ordered(wanted), pieces, offered)
        return self._plan

    def _publish(self, partitions: tuple[LoadedPartition, ...], files: tuple[DataFile, ...]) -> int:
        carried = self._carry()
        counts: dict[int, int] = {}
        for file in carried:
            counts[file.partition] = counts.get(file.partition, 0) + file.row_count
        self._read = tuple(
            replace(one, carried_count=counts.get(one.partition, 0))
            for one in partitions
            if one.from_offset < one.until_offset
        )
        return super()._publish(self._read, (*files, *carried))

    def _range(self, partition: int, pieces: Sequence[Piece], log: LogSource) -> OffsetRange:
        start, end = pieces[0].from_offset, pieces[-1].until_offset
        ends = []
        for bound, none_given in ((self._wanted.begin, start), (self._wanted.end, end)):
            match bound:
                case None:
                    ends.append(none_given)
                case int():
                    ends.append(bound)
                case AtTime():
                    place = TopicPartition(self.topic, partition)
                    found = log.offsets_for_times({place: bound.timestamp_ms})[place]
                    ends.append(end if found is None else found)
                case Mapping():
                    ends.append(bound[partition])
        return OffsetRange(from_offset=ends[0], until_offset=ends[1])

    def _carry(self) -> list[DataFile]:
        """Copies what the replaced files have of other offsets, beside the rows read again."""
        ranges = {
            one.partition: OffsetRange(from_offset=one.from_offset, until_offset=one.until_offset)
            for one in self._plan
        }
        carried, replaced = [], []
        for number, file in enumerate(touched_files(self._table.current_files(), self._plan)):
            wanted = ranges[file.partition]
            replaced.append(file.path)
            if wanted.from_offset <= file.first_offset and file.last_offset < wanted.until_offset:
                continue
            target = _beside(file.path, self._directory, f"part-carried-{number:05d}.parquet")
            kept = carry(self._table.store, file, wanted, target, self._options.compression)
            if kept is not None:
                carried.append(replace(kept, role=file.role, values=file.values))
        self._replaces = tuple(replaced)
        return carried


def _ordered(wanted: Mapping[int, OffsetRange]) -> dict[int, OffsetRange]:
    """Without the ranges that end before they begin, as when no record is that late."""
    return {number: one for number, one in wanted.items() if one.from_offset < one.until_offset}


def _beside(path: str, directory: str, name: str) -> str:
    """A new file in the same place of another commit's directory (`data/load-…/day=…/`)."""
    inner = path.split("/")[2:-1]
    return "/".join((directory, *inner, name))
