"""Explains retention of a log from a directory's files, without its lock.

A broker may be using the directory. Kafka has no counterpart.
"""

from collections.abc import Iterator
from contextlib import closing

from ottla.base.files import FileSystem, join
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.files.filenames import FileSuffix, parse_file_names
from ottla.storage.index.time_index import NO_TIMESTAMP
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.retention.retention import LogFacts, SegmentTime, Verdict, judge
from ottla.storage.segment.partition_files import SegmentFiles
from ottla.storage.segment.segment_reader import SegmentReader


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSegment:
    """A verdict, and the segment's time, which is also read if no rule needs it."""

    verdict: Verdict
    time: SegmentTime


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLog:
    """One partition: its facts, a verdict for each segment, and the files to be deleted."""

    topic: str
    partition: int
    path: str
    facts: LogFacts
    segments: list[ExplainedSegment]
    waiting_count: int
    """The number of `.deleted` files, which are still on the disk."""
    waiting_size: int
    """The size of the `.deleted` files in bytes."""


def explain_log(
    log: ReadOnlyLog,
    config: TopicConfig,
    now_ms: int,
    file_system: FileSystem,
    *,
    highest_remote_offset: int = -1,
) -> ExplainedLog:
    """Explains what retention does with a log at a time.

    `highest_remote_offset` is the last offset that is known to be in the tier of a tiered topic.

    For a replicated log the checkpointed high watermark is used, which lags; for a log with one
    replica, its end. Raises `OSError` and `UserError`.
    """
    segments = [
        SegmentOnDisk(file_system, files, is_active=files == log.segments[-1])
        for files in log.segments
    ]
    end, start = log.log_end_offset, log.log_start_offset
    if config.remote_storage_enable:
        start = min(start, log.recorded_start)
    facts = LogFacts(
        config=config,
        log_start_offset=start,
        local_start_offset=log.log_start_offset,
        highest_remote_offset=highest_remote_offset,
        high_watermark=log.offsets.high_watermark if log.directory.is_replicated else end,
        log_end_offset=end,
        size=sum(one.size for one in segments),
        segments=segments,
    )
    waiting = list(_waiting_sizes(file_system, log.path))
    return ExplainedLog(
        topic=log.topic,
        partition=log.partition,
        path=log.path,
        facts=facts,
        segments=[
            ExplainedSegment(verdict=verdict, time=segment.time())
            for verdict, segment in zip(judge(facts, now_ms), segments, strict=True)
        ],
        waiting_count=len(waiting),
        waiting_size=sum(waiting),
    )


def _waiting_sizes(file_system: FileSystem, path: str) -> Iterator[int]:
    for one in parse_file_names(file_system.list(path), suffixes=[FileSuffix.DELETED]):
        status = file_system.status(join(path, one.text))
        if status is not None:
            yield status.size


class SegmentOnDisk:
    """A segment's files as `JudgedSegment`; the time is read once."""

    def __init__(self, file_system: FileSystem, files: SegmentFiles, *, is_active: bool) -> None:
        self._file_system = file_system
        self._files = files
        self._is_active = is_active
        self._time: SegmentTime | None = None
        self.base_offset = files.base_offset
        self.size = files.size

    def time(self) -> SegmentTime:
        if self._time is None:
            largest_ms = self._largest_timestamp_ms()
            if largest_ms >= 0:
                self._time = SegmentTime(largest_ms, True)
            else:
                status = self._file_system.status(self._files.log_path)
                self._time = SegmentTime(status.modified_ms if status else 0, False)
        return self._time

    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch, from which `max.compaction.lag.ms` counts."""
        try:
            with closing(SegmentReader(self._file_system, self._files)) as reader:
                return reader.first_timestamp_ms
        except FileNotFoundError:
            return NO_TIMESTAMP

    def _largest_timestamp_ms(self) -> int:
        """The segment's largest timestamp; -1 if there is none or the segment was deleted."""
        # The last time index entry of an inactive segment. In the active one, the batches after
        # that entry are read.
        try:
            with closing(SegmentReader(self._file_system, self._files)) as reader:
                largest = reader.largest
                if self._is_active or largest.timestamp_ms < 0:
                    largest = reader.largest_to_end()
                return largest.timestamp_ms
        except FileNotFoundError:
            return NO_TIMESTAMP  # deleted by retention meanwhile
