"""A mirror: rounds that copy a source to a target, partition by partition.

A round reads the groups' committed offsets and the source's topics, creates missing topics, copies
each partition up to its current end, follows the source's log starts, and then commits the offsets
that it read first, so that no group is ahead of its records. If one partition is refused (see
`plan`), the others are still copied. No state is kept between rounds or processes: the target's log
ends say how far the mirror is.

Kafka's counterparts: `ReplicaFetcherThread`, which reads in the same way, and `MirrorMaker`, which
does not keep offsets.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import Committed
from ottla.config.topic import TopicConfig
from ottla.mirror.plan import (
    BulkCopy,
    Copy,
    Gap,
    Refusal,
    TargetState,
    check_emptied,
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
    """The topics to mirror; whether to accept gaps, and to commit groups' offsets."""

    selection: Selection = field(default_factory=Selection)
    allow_gaps: bool = False
    with_groups: bool = True


@dataclass(slots=True, kw_only=True)
class PartitionReport:
    """The result of a round for one partition.

    The offsets [from_offset, until_offset) were copied, with `size` bytes.
    """

    topic: str
    partition: int
    number: int = 1
    """The number of the partition in the round, from 1."""
    count: int = 1
    """The number of partitions in the round."""
    from_offset: int = 0
    until_offset: int = 0
    source_end: int = 0
    size: int = 0
    gaps: list[Gap] = field(default_factory=list)
    refusal: str | None = None
    note: str | None = None
    """What a user should know of a partition that was not refused."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True, kw_only=True)
class RoundReport:
    """The result of a round.

    `unknown_settings` are settings of the source that Ottla does not have, by topic. `held_back` is
    the number of committed offsets that are after the copied records, and so are left to the next
    round.
    """

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
        """The reasons of refusals by topic or partition name."""
        found = dict(self.refused_topics)
        found.update({one.name: one.refusal for one in self.partitions if one.refusal})
        return found


OnProgress = Callable[[PartitionReport], None]


def empty_reports(topics: Sequence[SourceTopic]) -> dict[str, list[PartitionReport]]:
    """The reports of a round by topic, before anything is copied."""
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
    """Copies a source to a target.

    `on_progress` is called with a partition's report after each copied part.
    """

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
        """Runs one round; raises `UserError` and `StorageError` for errors of the whole round.

        A round may run without groups, as reading all committed offsets takes long.
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
        """Creates or updates a topic; returns whether it can be copied."""
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
        """Plans the copies of a first round that other tasks may write, as files to be adopted.

        Creates topics, and sets the start of logs that do not begin at offset 0. Refused and
        missing partitions are left to a round, which reports them.
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
                # Retention has deleted records meanwhile: retry as long as the start moves.
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
        if isinstance(plan, Refusal) or plan.begins:
            return plan
        if state.last is None:
            return check_emptied(topic.topic_id, bounds, state) or plan
        return self._check_last(topic, index, state, bounds) or plan

    def _check_last(
        self, topic: SourceTopic, index: int, state: TargetState, bounds: Bounds
    ) -> Refusal | None:
        """Compares the target's last batch with the source, if the source still has it."""
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
    """The largest segment in bytes whose time index, with one entry per interval, is not full."""
    entries = config.segment_index_bytes // time_index.ENTRY.size - 1
    return min(config.segment_bytes, entries * config.index_interval_bytes)


def batches_in(source: Source, topic: str, partition: int, offsets: tuple[int, int]) -> list[Batch]:
    """The batches that overlap with [offsets[0], offsets[1])."""
    found: list[Batch] = []
    for records in source.batches(topic, partition, *offsets):
        for batch in iter_batches(records):
            if batch.base_offset >= offsets[1]:
                return found
            if batch.last_offset >= offsets[0]:
                found.append(batch)
    return found
