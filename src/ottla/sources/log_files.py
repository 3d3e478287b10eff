"""Reads topics from the segment files of data directories, also while a broker runs on them.

Records are offered up to the high watermark (`offered_ends`).
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, OttlaError, UserError
from ottla.base.files import FileSystem
from ottla.base.ids import uuid_text
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.broker.topics.offered_ends import StableEnds, replicated_end
from ottla.record import columns as arrow_columns
from ottla.record.batch import InvalidBatchError, kept_runs
from ottla.record.batch_notes import BatchNotes, RangeNotes
from ottla.record.batch_roll_up import BatchRollUp, count_in, roll_up
from ottla.sources.log_source import ANY_TASKS, LogPartition, OffsetsGoneError, OnUnreadable, Split
from ottla.sources.options import Isolation
from ottla.sources.splits import OffsetSpan, SplitOptions, split_ranges
from ottla.sources.topic_choice import TopicChoice
from ottla.storage.findings import Finding
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.reading.index_marks import index_marks
from ottla.storage.reading.locating import locate, locate_partition
from ottla.storage.reading.opening import TierPlace, open_directories
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_directory import LostPartitionError, ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.reading.region_groups import region_groups
from ottla.storage.reading.time_search import first_offset_at
from ottla.storage.segment.aborted_ranges import AbortedRanges

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.storage.reading.tier_share import TierShare
    from ottla.storage.segment.partition_files import ListedSegmentFiles, SegmentFiles
    from ottla.storage.segment.segment_reader import Region

logger = logging.getLogger(__name__)

MIN_TASK_SIZE = 4 * 1024 * 1024
"""Bytes of the log below which a separate task costs more than it saves."""

MAX_TASK_SIZE = 128 * 1024 * 1024
"""The approximate maximum of bytes of the log that a task reads, and so of a Parquet file."""

MIN_MARKED_SIZE = 64 * 1024
"""Segments below this size are not divided among tasks, and share a span with their neighbours."""

MARK_COUNT = 64
"""The number of spans per segment, by which tasks are cut by bytes rather than by offsets."""


class LogFiles:
    """See `LogSource`. Looks up a partition's directory at each access, because partitions move.

    Several threads may read at once.
    """

    looks_by_reading = False

    def __init__(
        self,
        paths: Sequence[str],
        choice: TopicChoice,
        isolation: Isolation = Isolation.READ_COMMITTED,
        *,
        file_system: FileSystem | None = None,
        skip_damaged: bool = False,
        tier: TierPlace | None = None,
    ) -> None:
        """With `skip_damaged` reads skip damaged batches and log each of them."""
        self._again = partial(
            LogFiles,
            tuple(paths),
            choice,
            isolation,
            file_system=file_system,
            skip_damaged=skip_damaged,
            tier=tier,
        )
        self._paths = tuple(paths)
        self._file_system = file_system
        self._tier = tier
        self._choice = choice
        self._on_damage = _log_skipped if skip_damaged else None
        self._is_committed = isolation is Isolation.READ_COMMITTED
        self._stable = StableEnds()
        self._listed: dict[TopicPartition, ReadOnlyLog] = {}
        self._notes: dict[TopicPartition, BatchNotes] | None = None

    def note_batches(self) -> None:
        """From now on reads note what `roll_up` needs, which then tells of what was read, once.

        Of ten thousand short segments, opening each again would cost as much as reading them.
        """
        self._notes = {}

    def __reduce__(self) -> "tuple[partial[LogFiles], tuple[()]]":
        """Another process opens the directories itself."""
        return self._again, ()

    @cached_property
    def _directories(self) -> list[ReadOnlyLogDirectory]:
        return self._open()

    def _open(self, share: "TierShare | None" = None) -> list[ReadOnlyLogDirectory]:
        return open_directories(
            self._paths,
            self._file_system,
            on_damage=self._on_damage,
            tier=self._tier,
            share=share,
        )

    def partitions(
        self, *, allow_missing: bool = False, on_unreadable: OnUnreadable | None = None
    ) -> list[LogPartition]:
        there = self._places()
        if not allow_missing:
            self._check_there(there)
        offered = []
        self._listed = {}
        for place in sorted(there):
            try:
                log, found = ask_log(
                    partial(there[place].partition, *place),
                    lambda log: (log, self._offered(log)),
                )
                offered.append(found)
                self._listed[place] = log
            except (OttlaError, OSError) as error:
                if self._has_left(place, error):
                    if not allow_missing:
                        raise
                elif on_unreadable is None:
                    raise
                else:
                    on_unreadable(place, error)
        return offered

    def _has_left(self, place: TopicPartition, error: Exception) -> bool:
        """Whether a partition was deleted, or moved to another directory, after it was listed."""
        is_lost = isinstance(error, LostPartitionError) and not self._holds(place)
        return isinstance(error, UserError) and not is_lost

    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        return {
            place: ask_log(
                partial(self._log, place), partial(first_offset_at, timestamp_ms=timestamp_ms)
            )
            for place, timestamp_ms in wanted.items()
        }

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        log = self._log(place)
        found = log.leader_epochs.end_offset_for(epoch, log.log_end_offset)
        return found[1] if found is not None and found[1] < position else None

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetRange], options: SplitOptions = ANY_TASKS
    ) -> list[Split]:
        rule = options.rule(min_size=MIN_TASK_SIZE, max_size=MAX_TASK_SIZE)
        logs = {place: self._reaching(place, ranges[place]) for place in ranges}
        spans = {place: _spans(logs[place], ranges[place]) for place in ranges}
        return [
            Split(
                place=place,
                from_offset=part.from_offset,
                until_offset=part.until_offset,
                topic_id=logs[place].topic_id,
                aborted=tuple(self._aborted(logs[place], part)),
                tier=logs[place].directory.tier_share(*place, part.from_offset, part.until_offset),
            )
            for place, part in split_ranges(spans, rule)
        ]

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        if split.tier is None:
            log = self._with_files_listed(split.place, split.until_offset)
        else:
            self._take(split.tier)  # which changes the files that are listed
            log = self._log(split.place)
        _check_same_topic(split, log)
        aborted = AbortedRanges(split.aborted)
        offset = split.from_offset
        notes, is_noted = RangeNotes(split), self._notes is not None
        try:
            size = arrow_columns.SCAN_SIZE
            regions = log.batches.regions(offset, split.until_offset, size=size)
            # What is noted is a load, which reads all.
            for group in region_groups(regions, first_size=size if is_noted else 0):
                yield from _decoded(log, group, split, columns, aborted)
                offset = group[-1].next_offset
                if is_noted:
                    notes.take([region.data for region in group])
                del group
        except ApiError as error:
            again = self._log(split.place)
            _check_same_topic(split, again)
            if again.log_start_offset <= offset:
                raise UserError(
                    f"{split.place}: the log was cut at {again.log_end_offset}, below the "
                    f"offsets that were to be read; run it again"
                ) from error
            raise OffsetsGoneError(split.place, offset, again.log_start_offset) from error
        if self._notes is not None:
            self._notes.setdefault(split.place, BatchNotes()).add(split, notes)

    def _take(self, share: "TierShare") -> None:
        """Goes by the plan of a task, instead of looking for uploads."""
        if "_directories" not in self.__dict__:
            self._directories = self._open(share)
        for directory in self._directories:
            directory.take_tier_share(share)

    def count_records(self, place: TopicPartition, wanted: OffsetRange) -> int:
        """Counts from the batches' headers; decodes records only of batches that the range cuts."""
        log = self._log(place)
        try:
            aborted = AbortedRanges(self._aborted(log, wanted))
            return sum(
                count_in(batch, wanted)
                for batch in log.batches.read(wanted.from_offset, wanted.until_offset)
                if not batch.is_control and not aborted.covers(batch)
            )
        except ApiError as error:
            raise self._gone(place, wanted) from error

    def roll_up(self, place: TopicPartition, wanted: OffsetRange) -> BatchRollUp:
        """Computed from the batches' headers; the CRCs are verified when records are read."""
        notes = self._notes.pop(place, None) if self._notes else None
        noted = None if notes is None else notes.take_roll_up(wanted)
        if noted is not None:
            return noted
        try:
            return roll_up(
                self._with_files_listed(place, wanted.until_offset).batches.headers(
                    wanted.from_offset, wanted.until_offset
                )
            )
        except ApiError as error:
            raise self._gone(place, wanted) from error

    def _gone(self, place: TopicPartition, wanted: OffsetRange) -> OffsetsGoneError:
        return OffsetsGoneError(place, wanted.from_offset, self._log(place).log_start_offset)

    def _places(self) -> dict[TopicPartition, ReadOnlyLogDirectory]:
        """The chosen partitions that exist or are lost, with their directories."""
        if self._choice.assigned:
            asked = {
                place: locate_partition(self._directories, *place)
                for place in self._choice.assigned
            }
            return {place: directory for place, directory in asked.items() if directory is not None}
        located = locate(
            self._directories, lambda *place: self._choice.takes(TopicPartition(*place))
        )
        return {
            TopicPartition(topic, number): directory
            for topic, here in located.items()
            for number, directory in here.items()
        }

    def _check_there(self, there: Mapping[TopicPartition, ReadOnlyLogDirectory]) -> None:
        topics = {place.topic for place in there}
        for topic in self._choice.named or ():
            if topic not in topics and not self._has_others(topic):
                raise self._unknown(TopicPartition(topic, 0))

    def _has_others(self, topic: str) -> bool:
        """Whether the topic has only partitions that are not assigned."""
        return bool(self._choice.assigned) and any(
            topic in one.topics() for one in self._directories
        )

    def _holds(self, place: TopicPartition) -> bool:
        return any(directory.holds(*place) for directory in self._directories)

    def _log(self, place: TopicPartition) -> ReadOnlyLog:
        for directory in self._directories:
            try:
                return directory.partition(*place)
            except UserError:
                continue
        raise self._unknown(place)

    def _with_files_listed(self, place: TopicPartition, until_offset: int) -> ReadOnlyLog:
        """The log as it is now, with the files that were listed last if they reach an offset."""
        listed = self._listed.get(place)
        if (
            listed is not None
            and listed.log_end_offset >= until_offset
            and listed.directory.holds(*place)
        ):
            return listed.directory.partition(*place, listed.files)
        self._listed[place] = found = self._log(place)
        return found

    def _reaching(self, place: TopicPartition, wanted: OffsetRange) -> ReadOnlyLog:
        """The log as last listed, if it contains the range; a new listing is slow.

        Tasks open the log again; this log is only used to locate and divide the range.
        """
        listed = self._listed.get(place)
        if listed is not None and listed.log_end_offset >= wanted.until_offset:
            return listed
        self._listed[place] = found = self._log(place)
        return found

    def _unknown(self, place: TopicPartition) -> UserError:
        """The error for a missing partition, naming the existing topics."""
        faults = []
        for directory in self._directories:
            try:
                directory.partition(*place)
            except LostPartitionError as error:
                return error
            except UserError as error:
                faults.append(str(error))
        return UserError("; ".join(faults) or f"{place} has just been created; run it again")

    def _offered(self, log: ReadOnlyLog) -> LogPartition:
        return LogPartition(
            topic=log.topic,
            topic_id=log.topic_id,
            partition=log.partition,
            start_offset=log.log_start_offset,
            end_offset=max(log.log_start_offset, self._end(log)),
            log_end_offset=log.log_end_offset,
            leader_epoch=log.leader_epochs.latest_epoch,
            first_segment_offset=log.segments[0].base_offset if log.segments else None,
        )

    def _end(self, log: ReadOnlyLog) -> int:
        return self._stable.committed_end(log) if self._is_committed else replicated_end(log)

    def _aborted(self, log: ReadOnlyLog, part: OffsetRange) -> list[AbortedTransaction]:
        if not self._is_committed:
            return []
        wanted = part.from_offset, part.until_offset
        try:
            return log.transactions.aborted(*wanted)
        except ApiError:
            find = partial(self._log, TopicPartition(log.topic, log.partition))
            return ask_log(find, lambda now: now.transactions.aborted(*wanted))


def _log_skipped(damage: Finding) -> None:
    logger.warning("skipped: %s", damage)


def _check_same_topic(split: Split, log: ReadOnlyLog) -> None:
    if None not in (split.topic_id, log.topic_id) and split.topic_id != log.topic_id:
        assert split.topic_id is not None
        raise UserError(
            f"{split.place}: the topic was re-created since the read was planned (its id was "
            f"{uuid_text(split.topic_id)}); run it again"
        )


def _spans(log: ReadOnlyLog, wanted: OffsetRange) -> list[OffsetSpan]:
    """Divides a range into spans with sizes; the spans cover its whole range.

    Offsets removed since the range was planned are a span too, and its task reports the loss.
    """
    spans = _log_spans(log, wanted)
    parts = [part for span in spans if (part := span.within(wanted)) is not None]
    gone_until = parts[0].from_offset if parts else wanted.until_offset
    if wanted.from_offset < gone_until:
        gone = OffsetSpan(from_offset=wanted.from_offset, until_offset=gone_until, size=1)
        return [gone, *parts]
    return parts


def _log_spans(log: ReadOnlyLog, wanted: OffsetRange) -> Iterator[OffsetSpan]:
    """The spans of the segments that overlap with a range."""
    segments = log.segments
    ends = [*segments.base_offsets[1:], log.log_end_offset]
    first = max(0, segments.index_of(wanted.from_offset))
    there = range(first, bisect_left(segments.base_offsets, wanted.until_offset))
    for is_short, run in groupby(there, lambda one: segments.sizes[one] < MIN_MARKED_SIZE):
        if is_short:
            yield from _short_spans(segments, ends, run)
        else:
            for index in run:
                yield from _segment_spans(log, segments[index], ends[index])


def _short_spans(
    segments: "ListedSegmentFiles", ends: Sequence[int], run: Iterable[int]
) -> Iterator[OffsetSpan]:
    """Short segments that follow each other, together: there may be ten thousand."""
    begin = end = size = 0
    for index in run:
        begin = begin if size else segments.base_offsets[index]
        size += segments.sizes[index] or 1
        end = ends[index]
        if size >= MIN_MARKED_SIZE:
            yield OffsetSpan(from_offset=begin, until_offset=end, size=size)
            size = 0
    if size:
        yield OffsetSpan(from_offset=begin, until_offset=end, size=size)


def _segment_spans(
    log: ReadOnlyLog, segment: "SegmentFiles", until_offset: int
) -> Iterator[OffsetSpan]:
    """A segment in spans that begin at entries of the offset index."""
    offset, position = segment.base_offset, 0
    marks = index_marks(log.directory.file_system, segment, MARK_COUNT)
    for next_offset, next_position in [*marks, (until_offset, segment.size)]:
        if offset < next_offset <= until_offset and next_position > position:
            size = next_position - position
            yield OffsetSpan(from_offset=offset, until_offset=next_offset, size=size)
            offset, position = next_offset, next_position
    if offset < until_offset:
        yield OffsetSpan(from_offset=offset, until_offset=until_offset, size=1)


def _decoded(
    log: ReadOnlyLog,
    group: "list[Region]",
    split: Split,
    columns: Sequence[str],
    aborted: AbortedRanges,
) -> "Iterator[pa.RecordBatch]":
    if len(group) == 1:
        yield from _decoded_region(log, group[0], split, columns, aborted)
        return
    try:
        runs = [run for one in group for run in _runs(one, split, aborted)]
        wanted = split.from_offset, split.until_offset
        found = list(arrow_columns.iter_columns(b"".join(runs), columns, *wanted))
    except InvalidBatchError:
        for one in group:  # Raises, or reports, the damage of the one that has it.
            yield from _decoded_region(log, one, split, columns, aborted)
    else:
        yield from found


def _runs(region: "Region", split: Split, aborted: AbortedRanges) -> Iterable[memoryview]:
    return kept_runs(region.data, aborted.covers) if split.aborted else [region.data]


def _decoded_region(
    log: ReadOnlyLog,
    region: "Region",
    split: Split,
    columns: Sequence[str],
    aborted: AbortedRanges,
) -> "Iterator[pa.RecordBatch]":
    try:
        for data in _runs(region, split, aborted):
            yield from arrow_columns.iter_columns(
                data, columns, split.from_offset, split.until_offset
            )
    except InvalidBatchError as error:
        damage = log.batches.undecodable(region, str(error))
        if not log.directory.steps_over_damage:
            raise damage.error() from error
        log.directory.report(damage)  # a region is one batch then
