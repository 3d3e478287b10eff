"""Retention on a running broker: every log in turn, in slices between which clients are served.

`storage.retention` decides which segments to delete. This job moves the log starts of many logs,
makes them durable with one checkpoint, and only then renames files; `removals` removes them later.

Kafka's counterpart: `LogManager.cleanupLogs`.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ottla.base.errors import OttlaError, StorageError
from ottla.base.events import OnEvent, pass_over
from ottla.base.failures import Failures
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.events import SegmentsGoing
from ottla.broker.log_jobs.log_access import LogAccess
from ottla.broker.topics.removals import SegmentRemovals
from ottla.storage.directory import log_checkpoints
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import log_file_name
from ottla.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.storage.retention.retention import RetentionPlan, Rule, Verdict

logger = logging.getLogger(__name__)

LOGS_PER_SLICE = 64
"""Retention may have to open a file of each log with records, which takes 0.06 ms."""
PLANNED_PER_SLICE = 500
SEGMENTS_PER_SLICE = 32
"""Each segment needs a few renames, during which clients wait."""
CHANGED_LOGS_PER_SLICE = 8
"""Each log needs a few fsyncs."""
CHANGED_LOGS_PER_CHECKPOINT = 256
"""A checkpoint has the starts of all logs of a directory, however few have moved."""


@dataclass(slots=True)
class RetentionTotals:
    """Totals since the start: the segments deleted by each rule, and the passes over all logs.

    `last_pass_ms` is when the last pass ended, in wall time.
    """

    segments: "Counter[Rule]" = field(default_factory=Counter)
    bytes: "Counter[Rule]" = field(default_factory=Counter)
    passes: int = 0
    last_pass_ms: int = 0


@dataclass(slots=True)
class _Leaving:
    """A log whose start has moved, and the number of its segments that are still to be deleted.

    `continues`: the same pass will move the start again and delete more segments.
    """

    directory: LogDirectory
    key: TopicPartition
    log: PartitionLog
    count: int
    continues: bool

    @property
    def is_there(self) -> bool:
        """Whether the log is still served; it may be deleted or moved between slices."""
        return not self.directory.is_offline and self.directory.logs.get(self.key) is self.log


class Retention:
    """One pass over all logs takes as many calls of `run_slice` as it needs.

    The starts of many logs move first; then they are written in one checkpoint, in steps if there
    are many logs; and then their segments are deleted, a few at a time. Segments that are left,
    since the broker stops or the cleaner begins, lie below the log start, so the next pass deletes
    them.
    """

    def __init__(
        self,
        directories: LogDirectories,
        access: LogAccess,
        removals: SegmentRemovals,
        on_event: OnEvent = pass_over,
    ) -> None:
        self._on_event = on_event
        self.totals = RetentionTotals()
        self._directories = directories
        self._access = access
        self._removals = removals
        self._to_do: deque[tuple[LogDirectory, TopicPartition]] = deque()
        self._begun: list[_Leaving] = []
        """Logs whose starts have moved, and are not durable."""
        self._keeping: Iterator[None] | None = None
        """The steps that make the starts of `_begun` durable."""
        self._leaving: deque[_Leaving] = deque()
        self._skipped = Failures()
        """By directory of the log."""
        self._warned: dict[str, int] = {}
        """By directory of the log: the segment for which a warning was already logged."""

    def run_slice(self, at: Timestamps) -> bool:
        """Continues the current pass, or begins one; returns whether the pass is unfinished."""
        if self._keeping is None and not self._leaving:
            self._begin_more(at.now_ms)
        if self._keeping is not None:
            self._keep_more()
        self._take_some(at)
        if self._to_do or self._keeping is not None or self._leaving:
            return True
        self.totals.passes += 1
        self.totals.last_pass_ms = at.now_ms
        return False

    def _begin_more(self, now_ms: int) -> None:
        """Moves the starts of some logs, until there are enough of them for a checkpoint."""
        if not self._to_do:
            self._to_do.extend((one, key) for one in self._directories for key in one.logs)
        self._begun += self._begin_some(now_ms)
        if self._begun and (
            not self._to_do
            or self._begun[-1].continues
            or len(self._begun) >= CHANGED_LOGS_PER_CHECKPOINT
        ):
            self._keeping = self._keep()

    def _keep_more(self) -> None:
        """Does the next step of the checkpoint, or all if they are short."""
        assert self._keeping is not None
        is_long = sum(len(one.logs) for one in self._directories) > log_checkpoints.LOGS_PER_STEP
        for _step in self._keeping:
            if is_long:
                return
        self._keeping = None

    def _begin_some(self, now_ms: int) -> list[_Leaving]:
        begun: list[_Leaving] = []
        left = PLANNED_PER_SLICE
        for _ in range(min(LOGS_PER_SLICE, len(self._to_do))):
            if left <= 0 or len(begun) == CHANGED_LOGS_PER_SLICE:
                break
            directory, key = self._to_do.popleft()
            log = directory.logs.get(key)
            if log is None or directory.is_offline or not self._access.may_retain(key.topic, log):
                continue
            if log.maintenance.go_on_with_snapshot():
                self._to_do.append((directory, key))
                break
            try:
                plan = self._begin(log, now_ms, left)
            except StorageError:
                continue  # logged where the directory went offline
            except Exception as error:  # it must not keep retention from the other logs
                self._note_skipped(log, error, now_ms)
                continue
            self._skipped.over(log.directory)
            if plan.is_cut_short:
                self._to_do.appendleft((directory, key))
            if plan.going:
                left -= len(plan.going)
                begun.append(_Leaving(directory, key, log, len(plan.going), plan.is_cut_short))
        return begun

    def _note_skipped(self, log: PartitionLog, error: Exception, now_ms: int) -> None:
        """Logs each cause once; the next pass tries again."""
        if self._skipped.note(log.directory, error, now_ms, 0):
            is_ours = not isinstance(error, OttlaError)
            logger.error(
                "%s: retention skips it: %s; ottla log check", log.name, error, exc_info=is_ours
            )

    def _begin(self, log: PartitionLog, now_ms: int, max_count: int) -> "RetentionPlan":
        # Lazy import: a log that a command opens deletes nothing.
        from ottla.storage.retention.retention import (
            begin_retention,
            facts_of,
            forget_former_tier,
            plan_retention,
        )

        forget_former_tier(log)
        with log.health.guarding():
            plan = plan_retention(facts_of(log), now_ms, max_count)
        if plan.staying is not None:
            self._warn_of_future(log, plan.staying)
        if plan.going or plan.needs_roll:
            begin_retention(log, plan, now_ms)
        if plan.going:
            for one in plan.going:
                assert one.rule is not None, "a segment that goes has a rule"
                self.totals.segments[one.rule] += 1
                self.totals.bytes[one.rule] += one.size
            named = (one.rule.name_in(log.config) for one in plan.going if one.rule is not None)
            rules = Counter(named)
            reason = ", ".join(f"{count} by {rule}" for rule, count in rules.items())
            self._on_event(
                SegmentsGoing(log=log.name, start_offset=plan.start_offset, reason=reason)
            )
        return plan

    def _keep(self) -> Iterator[None]:
        """Writes the new starts; only files of logs whose starts are durable may be deleted."""
        begun, self._begun = self._begun, []
        for directory in {one.directory.path: one.directory for one in begun}.values():
            with suppress(StorageError):  # logged where the directory went offline
                # If another state is written meanwhile, it was begun later: it has these starts.
                yield from directory.checkpoints.write_log_starts_in_steps()
                self._leaving += [one for one in begun if one.directory is directory]

    def _take_some(self, at: Timestamps) -> None:
        left = SEGMENTS_PER_SLICE
        while self._leaving and left > 0:
            one = self._leaving[0]
            count = min(left, one.count)
            taken = self._take(one, count, at)
            left -= taken
            one.count -= taken
            if not one.count or taken < count:
                self._leaving.popleft()

    def _take(self, one: _Leaving, max_count: int, at: Timestamps) -> int:
        """Deletes segments of a log; returns how many."""
        if not one.is_there or not self._access.may_retain(one.key.topic, one.log):
            return 0
        due_ms = at.monotonic_ms + one.log.config.file_delete_delay_ms
        try:
            is_last = max_count == one.count and not one.continues
            taken = one.log.maintenance.delete_segments_below_start(
                max_count=max_count, durably=is_last
            )
        except StorageError:
            return 0  # logged where the directory went offline
        except Exception as error:  # they lie below the log start: the next pass tries again
            self._note_skipped(one.log, error, at.now_ms)
            return 0
        for deleted in taken:
            self._removals.add(one.directory, deleted, due_ms)
        return len(taken)

    def _warn_of_future(self, log: PartitionLog, verdict: "Verdict") -> None:
        from ottla.storage.retention.retention import Blocker

        if Blocker.FUTURE_TIMESTAMP not in verdict.blockers or verdict.time is None:
            self._warned.pop(log.directory, None)
            return
        if self._warned.get(log.directory) == verdict.base_offset:
            return
        self._warned[log.directory] = verdict.base_offset
        until = verdict.time.timestamp_ms + log.config.local_limit_ms
        logger.warning(
            "%s: %s has a timestamp in the future, %s: it stays until %s, and all after it; "
            "delete its records (ottla delete-records, before offset %d) or set retention.bytes, "
            "and message.timestamp.after.max.ms so that none such comes again",
            log.name, log_file_name(verdict.base_offset), _time_text(verdict.time.timestamp_ms),
            _time_text(until), verdict.next_offset,
        )  # fmt: skip


def _time_text(timestamp_ms: int) -> str:
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
