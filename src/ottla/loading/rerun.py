"""A rerun: reads ranges of the log again and replaces the table's rows of these ranges.

A rerun repairs a table that differs from its log, or decodes values in another way. The steps are
those of a load with another plan. Files with rows of a range are replaced, and their rows at other
offsets copied (`tables/writing/copied_rows.py`). One commit replaces the old files with the new
ones, so readers see either all old or all new rows. Old files stay on the disk until `ottla table
vacuum`.
"""

from collections.abc import Mapping, Sequence

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.job import LoadJob, LoadPlan, LoadState
from ottla.loading.load import LoadReport, claimed, load_new
from ottla.loading.plan import check_same_topic
from ottla.loading.rerun_plan import RerunRange, plan_rerun
from ottla.sources.bounds import EARLIEST, LATEST, Bound, BoundKind
from ottla.sources.log_source import LogSource
from ottla.tables import Action, FileRole, Piece, by_partition, covered, of_role


def rerun(job: LoadJob, wanted: RerunRange) -> LoadReport:
    """Reads a range of a table's topic again.

    Raises `UserError` if there is no table, if the log lacks part of the range, or if the table has
    no rows there; the table is then unchanged.
    """
    job.table.require()  # before `claimed`, which would create the directory
    with claimed(job) as state:
        return load_new(job, state, lambda job, state: plan_again(job, state, wanted)).report


def redrive(job: LoadJob) -> LoadReport | None:
    """Reads the records in quarantine again, as the table and the options decode them now; those
    that the dead-letter topic names instead, if the job has one.

    Of each partition it reads from the first of them to the last, and in a table of the latest rows
    up to where the table ends. Returns `None` if there are none; raises as `rerun` does.
    """
    job.table.require()
    with claimed(job) as state:
        ranges = _ranges_aside(job)
        if not ranges:
            return None
        wanted = _range_of(ranges, is_latest=state.layout.is_latest)
        return load_new(job, state, lambda job, state: plan_again(job, state, wanted)).report


def _ranges_aside(job: LoadJob) -> dict[TopicPartition, OffsetRange]:
    """From the first record that is set aside to the last, by partition."""
    topic = job.route.topic
    if job.options.dead_letters is not None:
        return job.options.dead_letters.places(topic)
    files = of_role(job.table.current_files(), FileRole.QUARANTINE)
    return {
        TopicPartition(topic, number): OffsetRange(
            from_offset=min(one.first_offset for one in some),
            until_offset=max(one.last_offset for one in some) + 1,
        )
        for number, some in by_partition(files).items()
    }


def _range_of(ranges: Mapping[TopicPartition, OffsetRange], *, is_latest: bool) -> RerunRange:
    firsts = {place: one.from_offset for place, one in ranges.items()}
    ends = {place: one.until_offset for place, one in ranges.items()}
    return RerunRange(
        begin=Bound(option="--redrive", for_each=firsts),
        end=None if is_latest else Bound(option="--redrive", for_each=ends),
    )


def plan_again(job: LoadJob, state: LoadState, wanted: RerunRange) -> LoadPlan:
    """Plans the offsets to read again and the files to replace."""
    asked_ms = job.options.clock.now_ms()
    offered = job.log.partitions()
    for before in state.loaded.values():
        check_same_topic(before, offered)
    pieces = covered(job.table.entries())
    if state.layout.is_latest and wanted.end is not None:
        raise UserError(
            "the table has the latest row of each key, so a rerun reads up to where the table "
            "ends: leave --to out"
        )
    ranges = {
        number: _range(job.log, TopicPartition(job.route.topic, number), some, wanted)
        for number, some in pieces.items()
        if some and wanted.names(TopicPartition(job.route.topic, number))
    }
    # A range is empty if it ends before it begins, such as when no record is as late as requested.
    ranges = {number: one for number, one in ranges.items() if not one.is_empty}
    plan = plan_rerun(ranges, pieces, offered)
    return LoadPlan(state=state, ranges=plan, asked_ms=asked_ms, action=Action.RERUN)


def _range(
    log: LogSource, place: TopicPartition, pieces: Sequence[Piece], wanted: RerunRange
) -> OffsetRange:
    start, end = pieces[0].from_offset, pieces[-1].until_offset

    def offset(bound: Bound) -> int:
        if bound.kind is BoundKind.TIMES:
            found = log.offsets_for_times({place: bound.of(place)})[place]
            return end if found is None else found
        return {EARLIEST: start, LATEST: end}.get(bound.of(place), bound.of(place))

    return OffsetRange(
        from_offset=start if wanted.begin is None else offset(wanted.begin),
        until_offset=end if wanted.end is None else offset(wanted.end),
    )
