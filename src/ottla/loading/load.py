"""One load: the records of a topic that a table does not have yet, into Parquet, exactly once.

The table is claimed and its state taken; then values flow from step to step: `plan_new` compares
the state with what the log holds (`LoadPlan`), `write_files` has tasks write files that no reader
sees (`WrittenFiles`), `verify_files` compares their footers with the log, and `publish` makes them
durable and puts them into one commit (`Commit`). Killed anywhere before that last step, the table
is as it was, and the next load begins again; killed after it, the load is done, and the
next one continues from its offsets.
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
from ottla.loading.commit import note_hour, publish
from ottla.loading.engine import Engine
from ottla.loading.job import (
    LoadJob,
    LoadOptions,
    LoadPlace,
    LoadPlan,
    OnProgress,
    Progress,
    Step,
    TableState,
)
from ottla.loading.plan import PlannedRange, plan_load
from ottla.loading.registered_schema import with_registered_schema
from ottla.loading.verification import LogChangedError, verify_files
from ottla.loading.writing import SHORT_LOAD, write_files
from ottla.sources.bounds import NoMatch
from ottla.sources.log_source import LogPartition, OffsetsGoneError
from ottla.sources.opening import open_log, topic_options
from ottla.sources.ranges import resolve_bound
from ottla.tables.completeness import begins_a_new_hour
from ottla.tables.layout import TableLayout, first_layout, next_layout
from ottla.tables.ledger_entries import DataFile, LoadedPartition, MergeCounts, total_size
from ottla.tables.table_directory import TableDirectory
from ottla.tables.transaction_log import CommitTakenError

ATTEMPTS = 3
"""How often a load begins again at the same offsets when the log changes while it is read.

When retention has overtaken it, it begins later, and that it does as often as it is overtaken.
"""

Planner = Callable[[LoadJob, TableState], LoadPlan]


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
    """What became of the rows, where a table has the latest of each key."""
    write_seconds: float = 0.0
    """How much of that the tasks took to read the log and write Parquet."""
    start_seconds: float = 0.0
    """And how much the engine took before them, to get ready."""

    @property
    def nothing_new(self) -> bool:
        return self.commit_id is None

    @property
    def is_short(self) -> bool:
        """Whether it was so little that the engine's start counts."""
        return self.row_count < SHORT_LOAD

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)

    @property
    def quarantined_count(self) -> int:
        return sum(partition.quarantined_count for partition in self.partitions)

    @property
    def rescued_count(self) -> int:
        """Values and keys with something that their schema does not name; not those of a merge,
        whose files have the table's rows too."""
        return 0 if self.merged else sum(file.rescued_count for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of Parquet."""
        return total_size(self.files)


class Loaded(NamedTuple):
    """The result of a load, and the state for the next one."""

    report: LoadReport
    state: TableState


def load_job(
    place: LoadPlace,
    engine: Engine,
    progress: OnProgress = pass_over,
    options: LoadOptions | None = None,
) -> LoadJob:
    """Opens the log and the table; nothing is written yet. Raises `UserError`."""
    options = options or LoadOptions()
    read = topic_options(
        place.source, place.topic, skip_damaged=options.skip_damaged, client=options.client
    )
    return LoadJob(
        place=place,
        options=options,
        read=read,
        log=open_log(read),
        table=TableDirectory(place.into),
        engine=engine,
        progress=progress,
    )


def load(job: LoadJob) -> LoadReport:
    """Loads what is new in the topic.

    Raises `UserError` when the log cannot continue the table (`plan.plan_load`), when the directory
    is not one of ours (`TableDirectory.claim`), and for a value that cannot be decoded
    (`OnError.FAIL`); `CorruptionError` when the log or the ledger is damaged. The table is
    unchanged then.
    """
    with claimed(job) as state:
        return load_new(job, state).report


@contextmanager
def claimed(job: LoadJob) -> Iterator[TableState]:
    """Keeps other loads out; raises before the directory is touched where that can be known."""
    offered = job.log.partitions()
    with job.table.claim():
        state = table_state(job, offered)
        job.progress(Progress(step=Step.CLAIMED))
        yield state


def table_state(
    job: LoadJob,
    offered: Sequence[LogPartition],
    ends: Mapping[TopicPartition, int] | None = None,
) -> TableState:
    """The table now. The log is asked once where it ends: `latest` stays what it was (`ends`)."""
    starting, ending = job.options.starting, job.options.ending
    head = job.table.head()
    loaded = head.loaded
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
    return TableState(
        commit_id=head.commit_count,
        layout=_layout_now(job, head.layout, head.commit_count),
        loaded=loaded,
        row_size=head.row_size,
        asked_ms=head.asked_ms,
        starts=starts,
        ends=ends,
    )


def _layout_now(job: LoadJob, before: TableLayout, commit_id: int) -> TableLayout:
    asked = with_registered_schema(job.options.layout, before, job.place.topic)
    return next_layout(before, asked, commit_id) if commit_id else first_layout(asked)


def with_newest_schema(job: LoadJob, plan: LoadPlan) -> LoadPlan:
    """The plan of a table that grows with a registry's subject, with the versions of now."""
    state = plan.state
    has = state.layout.record_decoding
    grows = any(one is not None and one.subject for one in (has.value, has.key))
    if not grows or not plan.offset_count:
        return plan
    layout = _layout_now(job, state.layout, state.commit_id)
    return replace(plan, state=replace(state, layout=layout))


def plan_new(job: LoadJob, state: TableState) -> LoadPlan:
    """Plans what is new in the log now; raises `UserError` if the log cannot continue the table."""
    asked_ms = job.options.clock.now_ms()
    ranges = plan_load(state.loaded, job.log.partitions(), allow_gaps=job.options.allow_gaps)
    starts = None if state.loaded else _starts_now(job, state, ranges)
    return LoadPlan(state=state, ranges=bounded(ranges, starts, state.ends), asked_ms=asked_ms)


def _starts_now(
    job: LoadJob, state: TableState, ranges: Sequence[PlannedRange]
) -> Mapping[TopicPartition, int] | None:
    """The log's own start, and one found by time, move on when retention has passed them by."""
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


def load_new(job: LoadJob, state: TableState, planner: Planner = plan_new) -> Loaded:
    """Plans and loads."""
    return load_planned(job, planner(job, state), planner)


def load_planned(job: LoadJob, plan: LoadPlan, planner: Planner = plan_new) -> Loaded:
    """Loads what is planned; plans and tries again when the log changes under it.

    Also when another writer makes the commit before it: as often as that happens, since each
    time the table has come further.
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
            plan = planner(job, table_state(job, job.log.partitions(), plan.state.ends))


def carry_out(job: LoadJob, plan: LoadPlan) -> Loaded:
    """Writes, verifies and publishes the plan."""
    started = time.monotonic()
    job.progress(Progress(step=Step.PLANNED, offset_count=plan.offset_count))
    written = write_files(job, plan)
    partitions = verify_files(plan.ranges, written.files, job.log, job.table.store)
    state, commit_id, files, merged = plan.state, None, written.files, None
    if plan.is_news:
        commit = publish(job, plan, written, partitions)
        state, commit_id, partitions = commit.state, commit.entry.commit_id, commit.entry.partitions
        merged = commit.entry.merged
        files = files if merged is None else commit.entry.files
    elif begins_a_new_hour(state.asked_ms, plan.asked_ms):
        state = note_hour(job, plan, partitions).state
    report = LoadReport(
        topic=job.place.topic,
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


def _begins_later(plan: LoadPlan, before: LoadPlan) -> bool:
    """Whether retention has moved the start of what is to be loaded since it was planned before."""
    begins = {one.partition: one.from_offset for one in before.ranges}
    return any(one.from_offset > begins.get(one.partition, one.from_offset) for one in plan.ranges)


def _has_log_changed(error: LogChangedError | OffsetsGoneError | TaskError) -> bool:
    """Whether the load may find another log when it begins again."""
    return not isinstance(error, TaskError) or error.kind == OffsetsGoneError.__name__
