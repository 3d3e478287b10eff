"""A rerun: reads ranges of the log again and replaces the table's rows of these ranges.

A rerun repairs a table that differs from its log, or decodes values in another way. The steps are
those of a load with another plan. Files with rows of a range are replaced, and their rows at other
offsets copied (`tables/writing/copied_rows.py`). One commit replaces the old files with the new
ones, so readers see either all old or all new rows. Old files stay on the disk until `ottla table
vacuum`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.dead_letters import set_aside
from ottla.loading.job import LoadJob, LoadPlan, LoadState
from ottla.loading.letter_check import without_wrong
from ottla.loading.letter_source import Letters, LetterSource
from ottla.loading.load import Loaded, LoadReport, claimed, load_new
from ottla.loading.plan import check_same_topic
from ottla.loading.quarantined import kept_before, quarantined_files, quarantined_ranges
from ottla.loading.rerun_plan import RerunRange, plan_rerun
from ottla.sources.bounds import EARLIEST, LATEST, Bound, BoundKind
from ottla.sources.log_source import LogSource
from ottla.tables import Action, Piece, TableLayout, covered, parts_of


def rerun(job: LoadJob, wanted: RerunRange) -> LoadReport:
    """Reads a range of a table's topic again.

    Raises `UserError` if there is no table, if the log lacks part of the range, or if the table has
    no rows there; the table is then unchanged.
    """
    job.table.require()  # before `claimed`, which would create the directory
    with claimed(job) as state:
        return load_new(job, state, lambda job, state: plan_again(job, state, wanted)).report


def redrive(job: LoadJob) -> list[LoadReport]:
    """Reads the records in quarantine again, as the table and the options decode them now; those
    that the dead-letter topic names instead, if the job has one.

    Of each partition it reads from the first of them to the last, and in a table of the latest rows
    up to where the table ends. Records in quarantine that the log no longer has are taken from
    there, or from the dead-letter topic, in a commit before. Returns the report of each commit,
    none if there are no such records, or all of them stay there; raises as `rerun` does.
    """
    job.table.require()
    with claimed(job) as state:
        there, lost = _where_they_are(job, state.layout)
        if state.layout.is_latest:
            if lost.rows:
                raise UserError(_late(job, lost))
            return _made([_read_again(job, state, there).report] if there else [])
        of_letters = replace(job, log=LetterSource(job.log, lost))
        work = [(of_letters, one) for one in _loaded_parts(job, _spans(lost))]
        work += [(job, one) for one in _loaded_parts(job, there)]
        reports = []
        for source, ranges in work:
            done = _read_again(source, state, ranges)
            state = done.state
            reports.append(done.report)
        return _made(reports)


def _made(reports: Sequence[LoadReport]) -> list[LoadReport]:
    return [one for one in reports if not one.nothing_new]


def _read_again(
    job: LoadJob, state: LoadState, ranges: Mapping[TopicPartition, OffsetRange]
) -> Loaded:
    wanted = _range_of(ranges, is_latest=state.layout.is_latest)
    return load_new(job, state, lambda job, state: plan_again(job, state, wanted))


def _where_they_are(
    job: LoadJob, layout: TableLayout
) -> tuple[dict[TopicPartition, OffsetRange], Letters]:
    """The ranges of the records to read again that the log still has; and those that it has not."""
    starts = {one.place: one.start_offset for one in job.log.partitions()}
    lost = kept_before(job.table, job.route.topic, starts)
    if job.options.dead_letters is not None:
        letters = job.options.dead_letters.letters(job.route.topic, lost)
        there, sent = _by_where_they_are(job, letters, starts)
        return there, without_wrong(job, layout, sent, lost)
    there = quarantined_ranges(job.table, job.route.topic, starts)
    if not there and not lost.rows and (files := quarantined_files(job.table)):
        raise UserError(
            f"{job.table.address}: the log no longer has offset {files[0].last_offset} of "
            f"partition {files[0].partition}, and the quarantine has places and reasons alone, as "
            f"of --on-error skip"
        )
    return there, lost


def _by_where_they_are(
    job: LoadJob, letters: Letters, starts: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, OffsetRange], Letters]:
    """From the first letter whose record the log still has to the last, by partition; and the
    letters in quarantine whose record it has not.
    """
    there, lost = {}, {}
    for place in letters.rows:
        start = starts.get(place, 0)
        runs = [one for one in letters.runs(place) if one.until_offset > start]
        if runs:
            first = max(start, runs[0].from_offset)
            there[place] = OffsetRange(from_offset=first, until_offset=runs[-1].until_offset)
        before = letters.within(place, OffsetRange(from_offset=0, until_offset=start))
        if before.num_rows:
            lost[place] = before
    return there, set_aside(job.table, Letters(lost))


def _spans(letters: Letters) -> dict[TopicPartition, OffsetRange]:
    """From the first letter to the last, by partition."""
    runs = {place: letters.runs(place) for place in letters.rows}
    return {
        place: OffsetRange(from_offset=some[0].from_offset, until_offset=some[-1].until_offset)
        for place, some in runs.items()
    }


def _loaded_parts(
    job: LoadJob, ranges: Mapping[TopicPartition, OffsetRange]
) -> list[dict[TopicPartition, OffsetRange]]:
    """The parts of ranges between the offsets that no load had, of all partitions that have another
    one.
    """
    pieces = covered(job.table.entries())
    parts = [
        [(place, one) for one in parts_of(pieces.get(place.partition, ()), wanted)]
        for place, wanted in ranges.items()
    ]
    return [dict(filter(None, some)) for some in zip_longest(*parts)]


def _late(job: LoadJob, lost: Letters) -> str:
    place = min(lost.rows)
    starts = ",".join(f"{one.partition}:{one.start_offset}" for one in job.log.partitions())
    return (
        f"{place}: the log no longer has offset {lost.runs(place)[0].from_offset}, and in "
        f"{job.table.address}, which has the latest row of each key, a record without the later "
        f"ones may be older than a row or its deletion; send it to the topic again, and read what "
        f"the log has with --rerun --from {starts}"
    )


def _range_of(ranges: Mapping[TopicPartition, OffsetRange], *, is_latest: bool) -> RerunRange:
    firsts = {place: one.from_offset for place, one in ranges.items()}
    ends = {place: one.until_offset for place, one in ranges.items()}
    return RerunRange(
        begin=Bound(option="--redrive", for_each=firsts),
        end=None if is_latest else Bound(option="--redrive", for_each=ends),
        keeps_unread=True,
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
    return LoadPlan(
        state=state,
        ranges=plan,
        asked_ms=asked_ms,
        action=Action.RERUN,
        keeps_unread=wanted.keeps_unread,
    )


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
