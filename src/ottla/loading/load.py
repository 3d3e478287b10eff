"""One load: writes the records of a topic that a table lacks to Parquet, exactly once.

The table is claimed and its state read. `plan_new` compares the state with the log (`LoadPlan`),
`write_files` begins a transaction, of which tasks write files that no reader sees (`WrittenFiles`),
`verify_files` compares their footers with the log, and `commit` syncs and commits them. A crash
before the commit leaves the table unchanged, and the next load starts again; after it the load is
complete, and the next load continues from its offsets.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from ottla.base.errors import TaskError, UserError
from ottla.base.events import pass_over
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.loading.bounds import bounded
from ottla.loading.continuation import check_continues
from ottla.loading.job import LoadJob, LoadOptions, LoadPlan, LoadRoute, LoadState
from ottla.loading.plan import PlannedRange, plan_load
from ottla.loading.quarantined import stays_aside
from ottla.loading.verification import (
    LeftOut,
    LogChangedError,
    nothing_left_out,
    verify_files,
)
from ottla.loading.writing import SHORT_LOAD, write_files
from ottla.sources.bounds import NoMatch
from ottla.sources.log_files import LogFiles
from ottla.sources.log_source import LogPartition, OffsetsGoneError
from ottla.sources.opening import open_log, topic_options
from ottla.sources.ranges import resolve_bound
from ottla.tables import (
    Action,
    CommitTakenError,
    DataFile,
    Engine,
    ForgottenPlaces,
    LoadedPartition,
    MergeCounts,
    OnProgress,
    Progress,
    ReadRanges,
    Step,
    Table,
    TableLayout,
    TableState,
    begins_a_new_hour,
    commit,
    requested_layout,
    total_size,
)

ATTEMPTS = 3
"""How often a load starts again at the same offsets when the log changes while it is read.

A load that retention overtakes begins later instead, without limit.
"""

Planner = Callable[[LoadJob, LoadState], LoadPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """The result of a load. `commit_id` is `None` if there was nothing new."""

    topic: str
    into: str
    commit_id: int | None
    partitions: tuple[LoadedPartition, ...]
    files: tuple[DataFile, ...]
    seconds: float
    merged: MergeCounts | None = None
    """The counts of the merge, for a table with the latest row of each key."""
    write_seconds: float = 0.0
    """The part of `seconds` in which tasks read the log and wrote Parquet."""
    start_seconds: float = 0.0
    """The part of `seconds` in which the engine started."""

    @property
    def nothing_new(self) -> bool:
        return self.commit_id is None

    @property
    def is_short(self) -> bool:
        """Whether the load was so short that the engine's start matters."""
        return self.row_count < SHORT_LOAD

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)

    @property
    def quarantined_count(self) -> int:
        return sum(partition.quarantined_count for partition in self.partitions)

    @property
    def rescued_count(self) -> int:
        """Values and keys with fields that their schema lacks; 0 after a merge, whose files also
        have rows of earlier loads.
        """
        return 0 if self.merged else sum(file.rescued_count for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of Parquet."""
        return total_size(self.files)


class Loaded(NamedTuple):
    """The result of a load, and the state for the next one."""

    report: LoadReport
    state: LoadState


def load_job(
    route: LoadRoute,
    engine: Engine,
    progress: OnProgress = pass_over,
    options: LoadOptions | None = None,
) -> LoadJob:
    """Opens the log and the table without writing anything. Raises `UserError`."""
    options = options or LoadOptions()
    if options.dead_letters is not None:
        options.dead_letters.check_apart(route.source, route.topic)
    read = topic_options(
        route.source,
        route.topic,
        skip_damaged=options.skip_damaged,
        client=options.client,
        tier=options.tier,
    )
    log = open_log(read)
    if isinstance(log, LogFiles):
        log.note_batches()
    return LoadJob(
        route=route,
        options=options,
        read=read,
        log=log,
        table=Table(route.into),
        engine=engine,
        progress=progress,
    )


def load(job: LoadJob) -> LoadReport:
    """Loads the new records of the topic.

    Raises `UserError` if the log cannot continue the table (`plan.plan_load`), if the directory is
    not a table of ours (`Table.claim`), and for a value that cannot be decoded
    (`OnError.FAIL`); `CorruptionError` if the log or the ledger is damaged. The table is then
    unchanged.
    """
    offer = offered_now(job)
    with _claimed(job, offer.partitions) as state:
        # A log of ten thousand segments is not listed again, unless the table is further by now.
        is_known = offer.reaches(state.loaded)
        plan = planned(job, state, offer) if is_known else plan_new(job, state)
        return load_planned(job, plan).report


class Offer(NamedTuple):
    """What the log offered at a time."""

    asked_ms: int
    partitions: Sequence[LogPartition]

    def reaches(self, loaded: Mapping[int, LoadedPartition]) -> bool:
        """Whether the log had all that a table has."""
        ends = {one.partition: one.end_offset for one in self.partitions}
        return all(ends.get(number, -1) >= one.until_offset for number, one in loaded.items())


def offered_now(job: LoadJob) -> Offer:
    """What the log offers."""
    return Offer(job.options.clock.now_ms(), job.log.partitions())


@contextmanager
def claimed(job: LoadJob) -> Iterator[LoadState]:
    """Claims the table exclusively and yields its state; checks the log first."""
    with _claimed(job, job.log.partitions()) as state:
        yield state


@contextmanager
def _claimed(job: LoadJob, offered: Sequence[LogPartition]) -> Iterator[LoadState]:
    with job.table.claim():
        state = load_state(job, offered)
        job.progress(Progress(step=Step.CLAIMED))
        yield state


def load_state(
    job: LoadJob,
    offered: Sequence[LogPartition],
    ends: Mapping[TopicPartition, int] | None = None,
) -> LoadState:
    """The current state of the table. `ends` keeps the end offsets that were resolved before."""
    starting, ending = job.options.starting, job.options.ending
    state = job.table.state()
    loaded = state.loaded
    if starting is not None and loaded:
        there = ", ".join(f"{one.until_offset:,}" for one in loaded.values())
        raise UserError(
            f"--from is for a table's first load; {job.table.address} has offsets below {there} "
            f"already, and continues from there: leave --from out"
        )
    starts = None
    if starting is not None:
        starts = resolve_bound(starting, job.log, offered, NoMatch.LATEST)
    if ending is not None and ends is None:
        ends = resolve_bound(ending, job.log, offered, NoMatch.LATEST)
    layout = _requested(job, state)
    if not state.commit_count:
        _check_order(layout, len(offered))
    return LoadState(
        commit_count=state.commit_count,
        layout=layout,
        loaded=loaded,
        row_size=state.row_size,
        asked_ms=state.asked_ms,
        starts=starts,
        ends=ends,
    )


def _requested(job: LoadJob, state: TableState) -> TableLayout:
    log = job.table.log
    asked = replace(job.options.layout, has_transforms=log.has_transforms)
    if asked.has_change_feed and not log.has_change_feed:
        raise UserError(
            f"{job.table.address}: --change-feed is for Delta tables, as Iceberg has no such feed; "
            f"leave it out"
        )
    return requested_layout(state, asked, job.route.topic)


def _check_order(layout: TableLayout, partition_count: int) -> None:
    """Raises `UserError` if records of one key may be in partitions between which none is later."""
    upsert = layout.upsert
    if upsert is not None and upsert.key and not upsert.version and partition_count > 1:
        raise UserError(
            f"--upsert-by {','.join(upsert.key)}: the topic has {partition_count} partitions, "
            f"between which no record is the later one: add --version-by with a field such as "
            f"value.updated_at, or timestamp; or --version-by offset, if all records of a key are "
            f"in one partition"
        )


def with_newest_schema(job: LoadJob, plan: LoadPlan) -> LoadPlan:
    """The plan with the registry's current schema, for a table that grows with a subject."""
    state = plan.state
    has = state.layout.record_decoding
    grows = any(one is not None and one.subject for one in (has.value, has.key))
    if not grows or not plan.offset_count:
        return plan
    layout = _requested(job, state)
    return replace(plan, state=replace(state, layout=layout))


def plan_new(job: LoadJob, state: LoadState) -> LoadPlan:
    """Plans all new records; raises `UserError` if the log cannot continue the table."""
    return planned(job, state, offered_now(job))


def planned(job: LoadJob, state: LoadState, offer: Offer) -> LoadPlan:
    """As `plan_new`, by what the log offered."""
    ranges = plan_load(state.loaded, offer.partitions, allow_gaps=job.options.allow_gaps)
    starts = None if state.loaded else _starts_now(job, state, ranges)
    ranges = bounded(ranges, starts, state.ends)
    return LoadPlan(state=state, ranges=ranges, asked_ms=offer.asked_ms)


def _starts_now(
    job: LoadJob, state: LoadState, ranges: Sequence[PlannedRange]
) -> Mapping[TopicPartition, int] | None:
    """The start offsets; those that follow from the log are raised if retention has passed them."""
    starting = job.options.starting
    if state.starts is None or starting is None:
        return None
    first = {one.place: one.from_offset for one in ranges}
    return {
        place: max(offset, first[place])
        if place in first and starting.moves_with_the_log(place)
        else offset
        for place, offset in state.starts.items()
    }


def load_new(job: LoadJob, state: LoadState, planner: Planner = plan_new) -> Loaded:
    """Plans and loads."""
    return load_planned(job, planner(job, state), planner)


def load_planned(job: LoadJob, plan: LoadPlan, planner: Planner = plan_new) -> Loaded:
    """Loads a plan; plans again if the log changes while it is read.

    Also plans again when another writer commits first, without limit, since the table advances each
    time.
    """
    changes = 0
    while True:
        try:
            return carry_out(job, plan)
        except (LogChangedError, OffsetsGoneError, TaskError) as error:
            if not _has_log_changed(error):
                raise
            again = planner(job, plan.state)
            changes += not _begins_later(again, plan)
            if changes == ATTEMPTS:
                raise
            plan = again
        except CommitTakenError:
            plan = planner(job, load_state(job, job.log.partitions(), plan.state.ends))


def carry_out(job: LoadJob, plan: LoadPlan) -> Loaded:
    """Writes, verifies and publishes the plan."""
    started = time.monotonic()
    login = job.options.layout.login
    check_continues(job.table, job.log, plan.state.loaded, plan.ranges, login)
    job.progress(Progress(step=Step.PLANNED, offset_count=plan.offset_count))
    written = write_files(job, plan)
    partitions = verify_files(
        plan.ranges, written.files, job.log, job.table.files, _left_out(job, plan)
    )
    state, commit_id, files, merged = plan.state, None, written.files, None
    read = ReadRanges(
        source=job.route.source,
        partitions=partitions,
        asked_ms=plan.asked_ms,
        keeps_unread=plan.keeps_unread,
    )
    layout = written.transaction.layout
    is_moot = plan.keeps_unread and stays_aside(job.table, layout, written.files)
    if job.options.dead_letters is not None:
        job.options.dead_letters.send(job.table, plan.action, written.files)
    if is_moot:
        job.table.remove_files([one.path for one in files])
        files = ()
    elif plan.is_news:
        entry = commit(written.transaction, written.files, read)
        state, commit_id, partitions = plan.state.after(entry), entry.commit_id, entry.partitions
        merged = entry.merged
        files = files if merged is None else entry.files
    elif begins_a_new_hour(state.asked_ms, plan.asked_ms):
        # Without rows: the table is complete for the hour that has ended.
        state = state.after(commit(written.transaction, (), read))
    report = LoadReport(
        topic=job.route.topic,
        into=job.table.address,
        commit_id=commit_id,
        partitions=partitions,
        files=files,
        merged=merged,
        seconds=time.monotonic() - started,
        write_seconds=written.seconds,
        start_seconds=written.start_seconds,
    )
    return Loaded(report, state)


def _left_out(job: LoadJob, plan: LoadPlan) -> LeftOut:
    if plan.action is not Action.RERUN:
        return nothing_left_out
    places = ForgottenPlaces(job.table.files, job.table.current_files())
    # In a table of the latest rows the others are changes that delete.
    return places.count_in_quarantine if plan.state.layout.is_latest else places.count


def _begins_later(plan: LoadPlan, before: LoadPlan) -> bool:
    """Whether retention has moved a start offset since the earlier plan."""
    begins = {one.partition: one.from_offset for one in before.ranges}
    return any(one.from_offset > begins.get(one.partition, one.from_offset) for one in plan.ranges)


def _has_log_changed(error: LogChangedError | OffsetsGoneError | TaskError) -> bool:
    """Whether a new attempt may succeed because the log has changed."""
    return not isinstance(error, TaskError) or error.kind == OffsetsGoneError.__name__
