"""One mirror: rounds that bring a target to where its source is, partition by partition.

A round asks the source for its topics, makes what is missing, copies each partition up to the end
it had when its turn came, follows the source's starts, and commits what groups had committed before
the first batch was copied (so no group is ahead of its records). What is refused for one partition
does not keep the others; `plan` says what is refused. Nothing is remembered between rounds, nor
between processes: the target's log ends are how far the mirror is.

Kafka's counterparts: `ReplicaFetcherThread`, as which this reads; `MirrorMaker`, whose job it does
without new offsets.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.values import dataclass
from ottla.client.groups import Committed
from ottla.config.topic import TopicConfig
from ottla.mirror.plan import (
    BulkCopy,
    Copy,
    Gap,
    Refusal,
    TargetState,
    check_identity,
    check_last,
    plan_copy,
)
from ottla.mirror.source import Bounds, Selection, Source, SourceTopic
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.record.batch import Batch, InvalidBatchError, iter_batches
from ottla.storage.index import time_index


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    selection: Selection = field(default_factory=Selection)
    allow_gaps: bool = False
    with_groups: bool = True


@dataclass(slots=True, kw_only=True)
class PartitionReport:
    """What a round did for one partition; offsets are [from, until), sizes bytes."""

    topic: str
    partition: int
    number: int = 1
    """Which of the round's partitions it is, from 1."""
    count: int = 1
    """How many partitions the round has."""
    from_offset: int = 0
    until_offset: int = 0
    source_end: int = 0
    size: int = 0
    gaps: list[Gap] = field(default_factory=list)
    refusal: str | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True, kw_only=True)
class RoundReport:
    """`unknown_settings` are the source's, by topic; `held_back` offsets that groups committed
    after what was copied, since the next round will have it."""

    partitions: list[PartitionReport] = field(default_factory=list)
    unknown_settings: dict[str, list[str]] = field(default_factory=dict)
    refused_topics: dict[str, str] = field(default_factory=dict)
    commit_count: int = 0
    held_back: int = 0

    @property
    def size(self) -> int:
        return sum(one.size for one in self.partitions)

    @property
    def refusals(self) -> dict[str, str]:
        """Why, by the name of a topic or a partition."""
        found = dict(self.refused_topics)
        found.update({one.name: one.refusal for one in self.partitions if one.refusal})
        return found


OnProgress = Callable[[PartitionReport], None]


def empty_reports(topics: Sequence[SourceTopic]) -> dict[str, list[PartitionReport]]:
    """A round's, by topic, before anything is copied."""
    count = sum(one.partition_count for one in topics)
    numbers = itertools.count(1)
    return {
        topic.name: [
            PartitionReport(topic=topic.name, partition=index, number=next(numbers), count=count)
            for index in range(topic.partition_count)
        ]
        for topic in topics
    }


class Mirror:
    """`on_progress` hears of a partition's report whenever some more of it is copied."""

    def __init__(
        self,
        source: Source,
        target: Target,
        options: MirrorOptions,
        *,
        throttle: Throttle,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._throttle = throttle
        self._on_progress = on_progress

    def run_round(self, *, with_groups: bool = True) -> RoundReport:
        """Raises `UserError` and `StorageError` for what concerns all partitions.

        To ask for all that groups have committed takes long; a round may leave it to another.
        """
        report = RoundReport()
        with_groups = with_groups and self._options.with_groups
        committed = self._source.committed_offsets() if with_groups else []
        topics = self._source.topics(self._options.selection)
        reports = empty_reports(topics)
        for topic in topics:
            if self._prepare(topic, report):
                for one in reports[topic.name]:
                    self._copy_partition(topic, one)
                    report.partitions.append(one)
        self._commit(committed, report)
        self._target.checkpoint()
        return report

    def _prepare(self, topic: SourceTopic, report: RoundReport) -> bool:
        """Makes a topic, and returns whether it can be copied."""
        known = self._target.topic(topic.name)
        refusal = check_identity(topic.topic_id, known.topic_id if known else None)
        if refusal is not None:
            report.refused_topics[topic.name] = refusal.reason
            return False
        try:
            unknown = self._target.prepare(topic)
        except ApiError as error:
            report.refused_topics[topic.name] = error.message
            return False
        if unknown:
            report.unknown_settings[topic.name] = unknown
        return True

    def plan_bulk(self) -> list[BulkCopy]:
        """What of a first round others may copy, into files that the target then adopts.

        Topics are made, and logs that begin later are begun. What is refused, or missing, is left
        to a round, which says so.
        """
        report = RoundReport()
        found = []
        for topic in self._source.topics(self._options.selection):
            if self._prepare(topic, report):
                for index in range(topic.partition_count):
                    with contextlib.suppress(ApiError, CorruptionError, InvalidBatchError):
                        found += self._plan_bulk_partition(topic, index)
        return found

    def _plan_bulk_partition(self, topic: SourceTopic, index: int) -> list[BulkCopy]:
        bounds = self._source.bounds(topic.name, index)
        plan = self._plan(topic, index, bounds)
        if isinstance(plan, Refusal) or plan.gap or plan.from_offset >= plan.until_offset:
            return []
        if plan.begins:
            self._target.begin(topic.name, index, bounds.first_batch)
        log = self._target.log(topic.name, index)
        return [
            BulkCopy(
                topic=topic.name,
                partition=index,
                from_offset=plan.from_offset,
                until_offset=plan.until_offset,
                target_end=log.log_end_offset,
                segment_size=segment_size(log.config),
            )
        ]

    # One partition

    def _copy_partition(self, topic: SourceTopic, report: PartitionReport) -> None:
        index = report.partition
        report.from_offset = report.until_offset = self._target.log(
            topic.name, index
        ).log_end_offset
        start, is_later = -1, False
        while True:
            try:
                bounds = self._source.bounds(topic.name, index)
                is_later, start = bounds.start > start, bounds.start
                self._bring_up(topic, report, bounds)
                break
            except ApiError as error:
                # Overtaken by retention, it is planned again as often as the source starts later.
                is_overtaken = error.code is ErrorCode.OFFSET_OUT_OF_RANGE
                if not is_overtaken or not is_later:
                    report.refusal = error.message
                    break
            except (CorruptionError, InvalidBatchError) as error:
                report.refusal = str(error)
                break

    def _bring_up(self, topic: SourceTopic, report: PartitionReport, bounds: Bounds) -> None:
        report.source_end = bounds.end
        plan = self._plan(topic, report.partition, bounds)
        if isinstance(plan, Refusal):
            report.refusal = plan.reason
            return
        self._carry_out(plan, report)
        self._target.follow_start(topic.name, report.partition, bounds.start)

    def _plan(self, topic: SourceTopic, index: int, bounds: Bounds) -> Copy | Refusal:
        state = self._target.state(topic.name, index)
        plan = plan_copy(bounds, state, allow_gaps=self._options.allow_gaps)
        if isinstance(plan, Refusal) or plan.begins or state.last is None:
            return plan
        return self._check_last(topic, index, state, bounds) or plan

    def _check_last(
        self, topic: SourceTopic, index: int, state: TargetState, bounds: Bounds
    ) -> Refusal | None:
        """Holds the target's last batch against the source, as far as that still has it."""
        assert state.last is not None
        start = max(state.last.base_offset, bounds.start)
        if start > state.last.last_offset:
            return None
        found = batches_in(self._source, topic.name, index, (start, state.last.last_offset + 1))
        return check_last(state.last, found, may_be_compacted=topic.is_compacted)

    def _carry_out(self, plan: Copy, report: PartitionReport) -> None:
        topic, index = report.topic, report.partition
        begins = plan.begins
        chunks = self._source.batches(topic, index, plan.from_offset, plan.until_offset)
        for records in chunks:
            if begins:
                first = next(iter_batches(records)).base_offset
                self._begin(plan, min(first, plan.from_offset), report)
                begins = False
            self._target.append(topic, index, records)
            report.size += len(records)
            report.until_offset = self._target.log(topic, index).log_end_offset
            self._on_progress(report)
            self._throttle.take(len(records))
        if begins:
            self._begin(plan, plan.from_offset, report)
        if self._target.log(topic, index).log_end_offset < plan.until_offset:
            self._target.skip_to(topic, index, plan.until_offset)
        report.until_offset = self._target.log(topic, index).log_end_offset

    def _begin(self, plan: Copy, offset: int, report: PartitionReport) -> None:
        self._target.begin(report.topic, report.partition, offset)
        if plan.gap is not None:
            report.gaps.append(plan.gap)

    # Groups

    def _commit(self, committed: Iterable[Committed], report: RoundReport) -> None:
        ends = {
            (one.topic, one.partition): one.until_offset
            for one in report.partitions
            if one.refusal is None
        }
        wanted = [one for one in committed if (one.topic, one.partition) in ends]
        covered = [one for one in wanted if one.offset <= ends[one.topic, one.partition]]
        report.held_back = len(wanted) - len(covered)
        report.commit_count = self._target.commit(covered)


def segment_size(config: TopicConfig) -> int:
    """What a segment may hold so that its time index, of one entry an interval, has room."""
    entries = config.segment_index_bytes // time_index.ENTRY.size - 1
    return min(config.segment_bytes, entries * config.index_interval_bytes)


def batches_in(source: Source, topic: str, partition: int, offsets: tuple[int, int]) -> list[Batch]:
    """The batches that reach into [offsets[0], offsets[1])."""
    found: list[Batch] = []
    for records in source.batches(topic, partition, *offsets):
        for batch in iter_batches(records):
            if batch.base_offset >= offsets[1]:
                return found
            if batch.last_offset >= offsets[0]:
                found.append(batch)
    return found
