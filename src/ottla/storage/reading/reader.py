"""A log directory for those who only read: tools, Spark, and the curious, beside a live broker too.

Nothing is written and no lock is taken. A broker may append, roll, compact and delete meanwhile: a
`ReadOnlyLog` is the log as it was when it was asked for, and its reads find segments again that
were replaced under way. What a crash left unfinished is passed over, not mended: the log ends
before a torn batch. What no crash leaves is damage (`read_damage`): a batch that is bad below the
recovery point or after a clean stop, and a log that ends before its recovery point. Reads raise
there, or step over it where the directory was opened with `on_damage`.
Format pages: docs/format/README.md. Kafka has no counterpart.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cached_property

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.files import FileStatus, FileSystem, OsFileSystem, base_name, join
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.record import Record, read_records
from ottla.storage import scan
from ottla.storage.damage_scan import ScannedBatch
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA,
    LEADER_EPOCHS,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryState,
    parse_directory_name,
    partition_directory_name,
)
from ottla.storage.files.meta_properties import MetaProperties, read_meta_properties
from ottla.storage.files.partition_files import PartitionFiles, SegmentFiles, list_partition
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.files.witnessed_place import check_home, copied_start
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.transaction_tail import OpenTransaction, TransactionTail, overlapping
from ottla.storage.reading.aborted_reading import indexed_transactions, report_unindexed, unindexed
from ottla.storage.reading.read_damage import (
    Damage,
    KnownEnd,
    LogTail,
    SegmentPlace,
    damaged_tail,
    known_end,
    place_of,
    repair_hint,
    stretches,
    tail_at,
)
from ottla.storage.recovery.lost_offsets import Gaps, LostOffsetsError, lost_front
from ottla.storage.segment.aborted_ranges import AbortedRanges
from ottla.storage.segment.segment_reader import Region, SegmentReader

REPLACEMENTS_PER_SEGMENT = 100
"""How often a segment may be replaced by compaction just when it is to be opened."""

NAMES_SHOWN = 10


def open_for_reading(
    path: str,
    file_system: FileSystem | None = None,
    *,
    on_damage: Callable[[Damage], None] | None = None,
) -> "ReadOnlyLogDirectory":
    """The log directory at a path; raises `UserError` when there is none.

    With `on_damage` reads step over damage, and report each once.
    """
    file_system = file_system or OsFileSystem()
    directory = ReadOnlyLogDirectory(path, file_system, on_damage)
    try:
        names = file_system.list(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; name one of a broker's log directories") from None
    except NotADirectoryError:
        raise UserError(f"{path} is a file; name the log directory that it is in") from None
    except PermissionError:
        raise UserError(f"{path} may not be read; ask for the right to read it") from None
    if META_PROPERTIES in names or directory.topics():
        return directory
    if parse_directory_name(base_name(path)) and PARTITION_METADATA in names:
        raise UserError(f"{path} is a single partition; name the directory that it is in")
    raise UserError(
        f"{path} is no Kafka log directory: it has neither {META_PROPERTIES} nor a partition"
    )


class ReadOnlyLogDirectory:
    """One of a broker's `log.dirs`."""

    def __init__(
        self,
        path: str,
        file_system: FileSystem,
        on_damage: Callable[[Damage], None] | None = None,
    ) -> None:
        self.path = path
        self.file_system = file_system
        self._on_damage = on_damage
        self._reported: set[Damage] = set()
        self._checkpoints: dict[str, tuple[FileStatus | None, dict[TopicPartition, int]]] = {}

    @property
    def was_stopped_cleanly(self) -> bool:
        """Whether no broker uses the directory, or died using it."""
        return self.file_system.status(join(self.path, CLEAN_SHUTDOWN)) is not None

    @property
    def properties(self) -> MetaProperties | None:
        """Whose it is; raises `CorruptionError`."""
        return read_meta_properties(self.file_system, join(self.path, META_PROPERTIES))

    def topics(self) -> dict[str, list[int]]:
        """The partitions of each topic that have a directory here now, both sorted.

        The metadata log of a KRaft cluster is no topic's, and can be read by its name only.
        """
        found: dict[str, list[int]] = {}
        for name in self.file_system.list(self.path):
            parsed = parse_directory_name(name)
            if parsed is None or parsed.state is not DirectoryState.LIVE:
                continue
            if parsed.topic == CLUSTER_METADATA:
                continue
            status = self.file_system.status(join(self.path, name))
            if status is not None and status.is_directory:
                found.setdefault(parsed.topic, []).append(parsed.partition)
        return {topic: sorted(found[topic]) for topic in sorted(found)}

    def holds(self, topic: str, partition: int) -> bool:
        """Whether a partition has a directory here now."""
        path = join(self.path, partition_directory_name(topic, partition))
        status = self.file_system.status(path)
        return status is not None and status.is_directory

    def partition(self, topic: str, partition: int) -> "ReadOnlyLog":
        """The log as it is now; raises `UserError` when it is not here."""
        if partition < 0 or "/" in topic:
            raise self._unknown(topic, partition)
        directory = join(self.path, partition_directory_name(topic, partition))
        check_home(self.file_system, directory, TopicPartition(topic, partition))
        # Before the listing: a broker may write and flush more meanwhile.
        known = self.known_end(topic, partition)
        try:
            files = list_partition(self.file_system, directory)
        except (FileNotFoundError, NotADirectoryError):
            raise self._unknown(topic, partition) from None
        return ReadOnlyLog(self, topic, partition, files, known)

    def lost_partitions(self, topic: str) -> list[int]:
        """Those that a checkpoint names and that have no directory here now."""
        try:
            names = self.checkpointed(CHECKPOINT_RECOVERY_POINT)
        except CorruptionError:
            return []  # reading any partition says so
        named = sorted(partition for name, partition in names if name == topic)
        return [partition for partition in named if not self.holds(topic, partition)]

    def log_start(self, topic: str, partition: int) -> int:
        """The start that was recorded, from the copy with a checksum where that counts."""
        copied = copied_start(self.file_system, self.path, TopicPartition(topic, partition))
        if copied is not None:
            return copied
        return self.checkpointed(CHECKPOINT_LOG_START).get(TopicPartition(topic, partition), 0)

    def known_end(self, topic: str, partition: int) -> KnownEnd:
        """What is recorded of a log's end; raises `CorruptionError`."""
        key = TopicPartition(topic, partition)
        was_stopped_cleanly, recovery_point = self.was_stopped_cleanly, 0
        # Neither is ahead of the log; this one may be missing.
        high_watermark = self._high_watermarks_if_whole().get(key)
        try:
            recovery_point = self.checkpointed(CHECKPOINT_RECOVERY_POINT).get(key, 0)
        except CorruptionError as error:
            if not self.steps_over_damage:
                reason = f"{error.reason}; {repair_hint(self.path)}"
                raise CorruptionError(error.path, error.position, reason) from error
        return known_end(
            was_stopped_cleanly=was_stopped_cleanly,
            recovery_point=recovery_point,
            high_watermark=high_watermark,
        )

    def _high_watermarks_if_whole(self) -> dict[TopicPartition, int]:
        try:
            return self.checkpointed(CHECKPOINT_HIGH_WATERMARK)
        except CorruptionError:
            return {}

    @property
    def steps_over_damage(self) -> bool:
        return self._on_damage is not None

    def report(self, damage: Damage) -> None:
        """Takes note of damage that a read has stepped over."""
        if self._on_damage is not None and damage not in self._reported:
            self._reported.add(damage)
            self._on_damage(damage)

    def checkpointed(self, name: str) -> dict[TopicPartition, int]:
        """An offset checkpoint, read again when it has changed; raises `CorruptionError`."""
        path = join(self.path, name)
        status = self.file_system.status(path)
        known = self._checkpoints.get(name)
        if known is None or known[0] != status:
            known = (status, OffsetCheckpoint(self.file_system, path).read())
            self._checkpoints[name] = known
        return known[1]

    def _unknown(self, topic: str, partition: int) -> UserError:
        if partition in self.lost_partitions(topic):
            path = join(self.path, partition_directory_name(topic, partition))
            return UserError(
                f"{path} is not there, though {CHECKPOINT_RECOVERY_POINT} names it; put it back"
            )
        topics = self.topics()
        if topic in topics:
            have = _some(map(str, topics[topic]))
            return UserError(
                f"{self.path} has no partition {partition} of topic {topic}; it has {have}"
            )
        return UserError(f"{self.path} has no topic {topic}; it has {_some(topics)}")


class ReadOnlyLog:
    """A partition's log as it was when it was asked for.

    Reads raise `CorruptionError` for damage, with the commands that help,
    `ApiError(OFFSET_OUT_OF_RANGE)` for offsets outside the log, also when retention removes them
    under way (`overtaking.ask_log` then asks again), and `UserError` when the whole partition is
    removed.
    """

    def __init__(
        self,
        directory: ReadOnlyLogDirectory,
        topic: str,
        partition: int,
        files: PartitionFiles,
        known: KnownEnd,
    ) -> None:
        self.directory = directory
        self._known = known
        self._file_system = directory.file_system
        self.topic = topic
        self.partition = partition
        self.path = join(directory.path, partition_directory_name(topic, partition))
        self._gaps = Gaps(self._file_system, self.path, self._cleaned_until)
        self._files = files

    @property
    def segments(self) -> list[SegmentFiles]:
        """Ascending; the log may begin in the first one and end before the last one's size."""
        return self._files.segments

    @cached_property
    def topic_id(self) -> Uuid | None:
        """`None` in a directory of a Kafka before 2.8."""
        return read_topic_id(self._file_system, join(self.path, PARTITION_METADATA))

    @cached_property
    def leader_epochs(self) -> LeaderEpochs:
        """Which leader epoch began where, as the broker wrote it down; raises `CorruptionError`."""
        return LeaderEpochs.read(self._file_system, join(self.path, LEADER_EPOCHS))

    @property
    def recovery_point(self) -> int:
        """Up to where files are sure to be as they were written; after a clean stop, to the end."""
        if self.directory.was_stopped_cleanly:
            return self.log_end_offset
        return min(self.log_end_offset, self._checkpointed(CHECKPOINT_RECOVERY_POINT))

    @cached_property
    def log_start_offset(self) -> int:
        lost = self._lost_front()
        return lost.from_offset if lost else max(self._first_offset, self._recorded_start)

    @property
    def _first_offset(self) -> int:
        return self.segments[0].base_offset if self.segments else 0

    def _lost_front(self) -> Damage | None:
        first = self._first_offset
        return lost_front(self._file_system, self.path, first, self._recorded_start)

    @cached_property
    def _recorded_start(self) -> int:
        return self.directory.log_start(self.topic, self.partition)

    @property
    def log_end_offset(self) -> int:
        """Where the log ends, which is after the last batch that it must hold, read or not."""
        return self._tail.end_offset

    @property
    def readable_end_offset(self) -> int:
        """Before `log_end_offset` where damage hides the end of the log."""
        damage = self._tail.damage
        return self.log_end_offset if damage is None else damage.from_offset

    @cached_property
    def _tail(self) -> LogTail:
        tail = self._look_at_tail()
        if tail.damage is not None:
            # A broker may have started, or the partition been made anew, since it was listed.
            self._known = self.directory.known_end(self.topic, self.partition)
            self._files = self._listed(None)
            tail = self._look_at_tail()
        return tail

    def _look_at_tail(self) -> LogTail:
        known = self._known
        for _ in range(REPLACEMENTS_PER_SEGMENT):
            if not self.segments:
                return tail_at(self.log_start_offset, known, self.path, 0)
            try:
                reader = SegmentReader(self._file_system, self.segments[-1])
            except FileNotFoundError:
                # Retention takes a last segment too, once a new one is made behind it.
                self._list_again()
                continue
            with closing(reader):
                tail = reader.tail()
                if known.is_contradicted_by(tail):
                    return damaged_tail(reader, self._place(reader.files), self.log_start_offset)
                least = max(self.log_start_offset, self._files.least_end_offset)
                return tail_at(max(tail.end_offset, least), known, reader.log.path, reader.log.size)
        raise self._unsteady()

    def _place(self, segment: SegmentFiles) -> SegmentPlace:
        return place_of(segment, self._files, self._known)

    @cached_property
    def high_watermark(self) -> int:
        """Up to where the log is replicated: after a clean stop the end, otherwise a lower bound.

        A broker writes its high watermarks to the disk every five seconds, so those of one that is
        running, or was killed, lag; of a log that was never replicated everything up to
        `log_end_offset` counts.
        """
        if self.directory.was_stopped_cleanly:
            return self.log_end_offset
        checkpointed = self._checkpointed(CHECKPOINT_HIGH_WATERMARK)
        return min(max(self.log_start_offset, checkpointed), self.log_end_offset)

    @cached_property
    def last_stable_offset(self) -> int:
        """Where the oldest open transaction begins, or the log's end."""
        first_open = self._transactions.first_open_offset
        return self.log_end_offset if first_open is None else first_open

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """Those without a marker, the oldest first; none may be read as committed behind it."""
        return self._transactions.open_transactions

    @cached_property
    def _transactions(self) -> TransactionTail:
        """The transactions behind the point up to which the indexes are sure to be complete."""
        while True:
            start = self.log_start_offset
            try:
                return self._transaction_tail()
            except ApiError:
                # Retention took batches that were still to be walked: again, from the new start.
                self._list_again()
                del self.log_start_offset
                if not start < self.log_start_offset <= self.log_end_offset:
                    raise

    def _transaction_tail(self) -> TransactionTail:
        tail = TransactionTail.from_snapshot(
            self._file_system,
            self._files.snapshots,
            log_start_offset=self.log_start_offset,
            until_offset=self.recovery_point,
        )
        for batch in self._headers(tail.next_offset):
            tail.take(batch)
        return tail

    def _headers(self, from_offset: int) -> Iterator[Batch]:
        """Every batch to the log's end, of which only the control batches have their payload."""
        if self.directory.steps_over_damage:
            yield from self.batches(from_offset)
            return
        offset, end = from_offset, self.log_end_offset
        reader = self._open_next(None, offset, end)
        while reader is not None:
            with closing(reader):
                try:
                    for position, header in scan.headers(reader.log, reader.search_start(offset)):
                        if header.last_offset >= offset:
                            is_control = header.is_control
                            yield scan.sound_batch(reader.log, position) if is_control else header
                            offset = header.last_offset + 1
                        if offset >= end:
                            return
                except CorruptionError as error:
                    raise self._located(error, reader) from error
            reader = self._open_next(reader, offset, end)
        self._check_reached(end)

    def headers(self, from_offset: int, until_offset: int) -> Iterator[Batch]:
        """The headers of the batches that `batches` would check; most payloads are not there."""
        if not self.log_start_offset <= from_offset <= self.log_end_offset:
            raise self._out_of_range(from_offset)
        for batch in self._headers(from_offset):
            if batch.base_offset >= until_offset:
                return
            yield batch

    def regions(
        self, from_offset: int, until_offset: int | None = None, *, size: int | None = None
    ) -> Iterator[Region]:
        """As `batches`, but about `size` bytes of them (a megabyte), as they are in the file."""
        end = self.log_end_offset
        until = end if until_offset is None else min(until_offset, end)
        if not self.log_start_offset <= from_offset <= end:
            raise self._out_of_range(from_offset)
        return self._regions(from_offset, until, size)

    def _regions(self, from_offset: int, until_offset: int, size: int | None) -> Iterator[Region]:
        if self.directory.steps_over_damage:
            yield from self._sound_regions(from_offset, until_offset)
            return
        offset = from_offset
        reader = self._open_next(None, offset, until_offset)
        while reader is not None:
            is_replaced = False
            with closing(reader):
                limit = self._place(reader.files).limit
                try:
                    for region in reader.regions(
                        offset, until_offset, size, limit=limit, on_gap=self._gaps.check
                    ):
                        yield region
                        offset = region.next_offset
                except CorruptionError as error:
                    is_replaced = self._was_replaced()
                    if not is_replaced and isinstance(error, LostOffsetsError):
                        raise
                    if not is_replaced:
                        raise self._located(error, reader) from error
            reader = self._open_next(None if is_replaced else reader, offset, until_offset)
        self._check_reached(until_offset)
        self._gaps.check(*self._end_of_files, (offset, until_offset))

    def _was_replaced(self) -> bool:
        """Whether compaction has changed which segments there are, since they were listed."""
        listed = [one.log_path for one in self.segments]
        self._list_again()
        return [one.log_path for one in self.segments] != listed

    def _check_reached(self, until_offset: int) -> None:
        """Raises `CorruptionError` where the log's end cannot be read, but was to be."""
        damage = self._tail.damage
        if damage is not None and until_offset >= damage.from_offset:
            raise damage.error()

    def _sound_regions(self, from_offset: int, until_offset: int) -> Iterator[Region]:
        """One for each sound batch; reports what lies between them and cannot be read."""
        lost = self._lost_front()
        if lost is not None and from_offset < lost.until_offset:
            self.directory.report(lost)
            from_offset = lost.until_offset
        offset = due = from_offset
        reader = self._open_next(None, offset, until_offset)
        while reader is not None:
            with closing(reader):
                for one in stretches(reader, self._place(reader.files)):
                    if isinstance(one, Damage):
                        if one.from_offset < until_offset and one.until_offset > from_offset:
                            self.directory.report(one)
                        due = max(due, one.until_offset)
                    elif one.batch.last_offset >= offset and one.batch.base_offset < until_offset:
                        self._report_gap(reader.log.path, one, due)
                        due = offset = one.batch.last_offset + 1
                        data = one.batch.bytes_view()
                        yield Region(reader.log.path, one.position, data, offset)
            reader = self._open_next(reader, offset, until_offset)
        damage = self._tail.damage
        if damage is not None and (not self.segments or until_offset >= damage.from_offset):
            self.directory.report(damage)

    def _report_gap(self, path: str, found: ScannedBatch, due_offset: int) -> None:
        batch = found.batch
        if batch.magic < 2 or batch.base_offset <= due_offset:
            return
        damage = self._gaps.damage(path, found.position, (due_offset, batch.base_offset))
        if damage is not None:
            self.directory.report(damage)

    @property
    def _end_of_files(self) -> tuple[str, int]:
        last = self.segments[-1] if self.segments else None
        return (last.log_path, last.size) if last else (self.path, 0)

    def damage_at(self, path: str, position: int, reason: str) -> CorruptionError:
        """What to raise for a batch of `regions` that turned out to be bad."""
        error = CorruptionError(path, position, reason)
        for segment in self.segments:
            if segment.log_path == path:
                try:
                    with closing(SegmentReader(self._file_system, segment)) as reader:
                        return self._located(error, reader)
                except FileNotFoundError:
                    return error
        return error

    def _located(self, error: CorruptionError, reader: SegmentReader) -> CorruptionError:
        """The error, with the offsets that cannot be read and the commands that help."""
        for one in stretches(reader, self._place(reader.files)):
            if isinstance(one, Damage) and one.end > error.position:
                return one.error()
        reason = f"{error.reason}; {repair_hint(self.directory.path)}"
        return CorruptionError(error.path, error.position, reason)

    def batches(self, from_offset: int, until_offset: int | None = None) -> Iterator[Batch]:
        """The batches with offsets in [from_offset, until_offset), each checked.

        The first one may begin before the range and the last one end behind it; the range ends at
        the log's end at the latest.
        """
        regions = self.regions(from_offset, until_offset)
        return (batch for region in regions for _, batch in self.checked_batches(region))

    def checked_batches(self, region: Region) -> Iterator[tuple[int, Batch]]:
        """The batches of one of `regions`, each with its position; raises `CorruptionError`."""
        checks = (scan.checksum,)
        try:
            yield from scan.batches(region.data, region.path, region.position, checks=checks)
        except CorruptionError as error:
            raise self.damage_at(error.path, error.position, error.reason) from error

    def records(
        self, from_offset: int, until_offset: int | None = None, *, read_committed: bool = False
    ) -> Iterator[Record]:
        """The records with offsets in [from_offset, until_offset), but none of control batches.

        With `read_committed`, as a consumer with that isolation level sees them: up to the last
        stable offset, and none of aborted transactions.
        """
        end = self.last_stable_offset if read_committed else self.log_end_offset
        until = end if until_offset is None else min(until_offset, end)
        aborted = self.aborted_transactions(from_offset, until) if read_committed else []
        return self._records(self.regions(from_offset, until), (from_offset, until), aborted)

    def _records(
        self,
        regions: Iterable[Region],
        offsets: tuple[int, int],
        aborted: list[AbortedTransaction],
    ) -> Iterator[Record]:
        ranges = AbortedRanges(aborted)
        for region in regions:
            for position, batch in self.checked_batches(region):
                if batch.is_control or ranges.covers(batch):
                    continue
                try:
                    for record in read_records(batch):
                        if offsets[0] <= record.offset < offsets[1]:
                            yield record
                except InvalidBatchError as error:
                    damage = self._unreadable(region.path, position, batch, str(error))
                    if not self.directory.steps_over_damage:
                        raise damage.error() from error
                    self.directory.report(damage)

    def _unreadable(self, path: str, position: int, batch: Batch, reason: str) -> Damage:
        """A batch whose checksum is right, and whose records are not."""
        return Damage(
            path=path,
            position=position,
            end=position + batch.size,
            reason=reason,
            from_offset=batch.base_offset,
            until_offset=batch.last_offset + 1,
        )

    def aborted_transactions(self, from_offset: int, until_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap with a range, in the order in which they ended.

        Complete up to the last stable offset: whatever is open there has no outcome yet.
        """
        found = list(self._transactions.aborted)
        before: list[str] | None = None
        while self._files.has_transaction_index and before != (
            listed := [segment.log_path for segment in self.segments]
        ):
            # An index that went with its segment while the others were read counts as empty.
            before = listed
            segments = self._segments_from(from_offset)
            found += indexed_transactions(self._file_system, segments, (from_offset, until_offset))
            self._list_again()
        headers, is_told = self._headers(from_offset), self.directory.steps_over_damage
        offsets = from_offset, until_offset
        missing = unindexed(self._file_system, self.segments, headers, found, offsets)
        report_unindexed(missing, self.segments, is_told=is_told)
        return overlapping([*missing, *found], *offsets)

    def _segments_from(self, offset: int) -> list[SegmentFiles]:
        return self.segments[max(0, bisect_right(self.segments, offset, key=_base_offset) - 1) :]

    def _open_next(
        self, previous: SegmentReader | None, offset: int, until_offset: int
    ) -> SegmentReader | None:
        """Opens the segment that holds an offset, or the first one behind the one read before.

        When its file has gone, compaction or retention took it: the offset is looked for in a new
        listing. Raises `ApiError(OFFSET_OUT_OF_RANGE)` when it is not there either.
        """
        last_base_offset = previous.files.base_offset if previous else -1
        for _ in range(REPLACEMENTS_PER_SEGMENT):
            if offset < until_offset and self.segments and self.segments[0].base_offset > offset:
                lost = self._lost_front()
                if lost is not None and offset >= lost.from_offset:
                    raise lost.error()
                # Whichever listing has shown it: retention came by.
                raise self._out_of_range(offset)
            segment = self._next_segment(last_base_offset, offset)
            if offset >= until_offset or segment is None or segment.base_offset >= until_offset:
                return None
            try:
                return SegmentReader(self._file_system, segment)
            except FileNotFoundError:
                self._list_again()
            if not self.segments:
                raise self._out_of_range(offset)
            last_base_offset = -1
        raise self._unsteady()

    def _next_segment(self, last_base_offset: int, offset: int) -> SegmentFiles | None:
        holding = bisect_right(self.segments, offset, key=_base_offset) - 1
        behind = bisect_right(self.segments, last_base_offset, key=_base_offset)
        index = max(holding, behind)
        return self.segments[index] if index < len(self.segments) else None

    def _list_again(self) -> None:
        self._files = self._listed(self._files)

    def _listed(self, before: PartitionFiles | None) -> PartitionFiles:
        try:
            return list_partition(self._file_system, self.path, before)
        except FileNotFoundError:
            raise UserError(f"{self.path} was removed; read another partition") from None

    def _unsteady(self) -> CorruptionError:
        return CorruptionError(self.path, 0, "its files change faster than they can be opened")

    def _cleaned_until(self) -> int:
        return self._checkpointed(CHECKPOINT_CLEANER)

    def _checkpointed(self, name: str) -> int:
        return self.directory.checkpointed(name).get(TopicPartition(self.topic, self.partition), 0)

    def _out_of_range(self, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not in {self.path}, which has "
            f"{max(self._first_offset, self.log_start_offset)} to {self.log_end_offset}",
        )


def _base_offset(segment: SegmentFiles) -> int:
    return segment.base_offset


def _some(names: Iterable[str]) -> str:
    """A list for people, which may be long."""
    every = list(names)
    shown = ", ".join(every[:NAMES_SHOWN]) or "none"
    more = len(every) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
