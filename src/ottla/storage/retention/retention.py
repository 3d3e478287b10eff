"""Decides which of a log's oldest segments are deleted, and begins the deletion.

`judge` is the only place that decides. The broker's job carries out its verdicts (`plan_retention`,
`begin_retention`), and `ottla explain retention` prints them, so the two cannot disagree.

Deletion takes three steps: `begin_retention` moves the log start, the caller's checkpoint makes
that durable, and `LogMaintenance.delete_segments_below_start` deletes the files. After a crash
between two steps, no deleted record becomes readable again.

While segments are copied to a remote tier, the limits are those of local retention, and what the
tier has goes from the disk only: the local start moves, and the log start stays.

Kafka's counterparts: `UnifiedLog.deleteOldSegments`, `deletableSegments`, `deleteSegments`,
`isSegmentEligibleForDeletion`. Kafka
walks the log once per rule. Each walk ends at the first segment that its rule keeps, so one walk
that checks all three rules deletes the same segments.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import Enum
from typing import Protocol

from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment.segment import Segment

CLOCK_SLACK_MS = 60_000
"""A timestamp counts as in the future if it is later than the broker's clock by more than this."""


class Rule(Enum):
    """Why a segment is deleted, in the order of Kafka's checks; values appear in messages."""

    LOG_START = "log start"
    SIZE = "retention.bytes"
    TIME = "retention.ms"

    def name_in(self, config: TopicConfig) -> str:
        """The rule by the name of the setting that applies."""
        match self:
            case Rule.LOG_START:
                return str(self.value)
            case Rule.SIZE:
                return config.local_limit_name("bytes")
            case Rule.TIME:
                return config.local_limit_name("ms")


class Blocker(Enum):
    """Why a segment is kept; the value is the name in `--json`."""

    BEING_CLEANED = "being_cleaned"
    """The cleaner is working on the log; retention retries later."""
    EMPTY_ACTIVE = "empty_active"
    """The active segment is empty, and a log always has one segment."""
    HIGH_WATERMARK = "high_watermark"
    """The segment holds offsets at or above the high watermark."""
    NOT_IN_TIER = "not_in_tier"
    """The segment is not known to be in the remote tier, where it is to be copied first."""
    POLICY = "policy"
    """`cleanup.policy` is without `delete`: only segments below the log start are deleted."""
    NO_LIMIT = "no_limit"
    """Neither `retention.ms` nor `retention.bytes` limits the log."""
    FUTURE_TIMESTAMP = "future_timestamp"
    """The segment's largest timestamp is later than now by more than `CLOCK_SLACK_MS`."""
    NOT_YET = "not_yet"
    """The log is too small and the segment too young."""
    OLDER_SEGMENT = "older_segment"
    """An older segment is kept, and segments are deleted in order."""


@dataclass(frozen=True, slots=True)
class SegmentTime:
    """The time from which a segment's age counts: its largest timestamp.

    If no record has a timestamp (message format v0, or no records), `is_of_records` is false and
    the time is the file's modification time.
    """

    timestamp_ms: int
    is_of_records: bool


class JudgedSegment(Protocol):
    """The facts needed about a segment; `time` is only called if a rule needs it."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def time(self) -> SegmentTime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The facts needed about a log.

    `segments` ascend by base offset; `size` is their total in bytes.
    """

    config: TopicConfig
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size: int
    segments: Iterable[JudgedSegment]
    is_being_cleaned: bool = False
    local_start_offset: int = 0
    """What is below it is in the tier; if 0, the log start counts."""
    highest_remote_offset: int = -1
    """The last offset that is safe in the tier; -1 if none is known."""
    active: JudgedSegment | None = None
    """The last segment, where segments are copied to a tier."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    """Whether one segment is deleted, and why.

    `rule` is the first rule that applies, even if a blocker keeps the segment. `due_ms` is the wall
    time at which the limit of time deletes this segment and all older ones; `None` if time alone
    never does. `bytes_left` is how many bytes must be appended until the limit of size deletes the
    segment; `None` without that limit. Not frozen, for speed: each segment needs one.
    """

    base_offset: int
    next_offset: int
    size: int
    is_active: bool
    rule: Rule | None
    blockers: tuple[Blocker, ...]
    time: SegmentTime | None
    due_ms: int | None
    bytes_left: int | None

    @property
    def goes(self) -> bool:
        return self.rule is not None and not self.blockers


def judge(facts: LogFacts, now_ms: int) -> Iterator[Verdict]:
    """A verdict for each segment, the oldest first."""
    left = facts.size
    start = max(facts.log_start_offset, facts.local_start_offset)
    is_held = False
    due_ms: int | None = now_ms
    for segment, next_offset, is_active in _with_ends(facts):
        after = left - segment.size
        has_breach = not is_active and next_offset <= start
        time = None if has_breach else _time_that_counts(facts.config, segment)
        rule = Rule.LOG_START if has_breach else _rule(facts.config, after, time, now_ms)
        blockers = [
            *_holds(facts, segment, next_offset, is_active),
            *([] if rule else [_why_no_rule(facts.config, time, now_ms)]),
            *([Blocker.OLDER_SEGMENT] if is_held else []),
        ]
        due_ms = _later(due_ms, now_ms if rule else _due_ms(facts.config, time))
        yield Verdict(
            base_offset=segment.base_offset,
            next_offset=next_offset,
            size=segment.size,
            is_active=is_active,
            rule=rule,
            blockers=tuple(blockers),
            time=time,
            due_ms=due_ms,
            bytes_left=_bytes_left(facts.config, after),
        )
        is_held = is_held or bool(blockers)
        left = after


def _with_ends(facts: LogFacts) -> Iterator[tuple[JudgedSegment, int, bool]]:
    """Each segment with its end offset, and whether it is the active one."""
    before: JudgedSegment | None = None
    for segment in facts.segments:
        if before is not None:
            yield before, segment.base_offset, False
        before = segment
    if before is not None:
        yield before, facts.log_end_offset, True


def _rule(config: TopicConfig, after: int, time: SegmentTime | None, now_ms: int) -> Rule | None:
    """The rule that deletes a segment; `after` is the log's size in bytes without it."""
    if not config.deletes:
        return None
    if 0 <= config.local_limit_bytes <= after:
        return Rule.SIZE
    if time is not None and now_ms - time.timestamp_ms > config.local_limit_ms:
        return Rule.TIME
    return None


def _time_that_counts(config: TopicConfig, segment: JudgedSegment) -> SegmentTime | None:
    return segment.time() if config.deletes and config.local_limit_ms >= 0 else None


def _holds(
    facts: LogFacts, segment: JudgedSegment, next_offset: int, is_active: bool
) -> Iterator[Blocker]:
    """The blockers that keep a segment even if a rule applies."""
    if facts.is_being_cleaned:
        yield Blocker.BEING_CLEANED
    if is_active and segment.size == 0:
        yield Blocker.EMPTY_ACTIVE
    elif next_offset > facts.high_watermark:
        yield Blocker.HIGH_WATERMARK
    elif facts.config.copies_to_tier and not _is_safe(facts, next_offset):
        yield Blocker.NOT_IN_TIER


def _is_safe(facts: LogFacts, next_offset: int) -> bool:
    """Whether the tier has what a segment has, or nothing of it is in the log any more."""
    return next_offset - 1 <= facts.highest_remote_offset or next_offset <= facts.log_start_offset


def _why_no_rule(config: TopicConfig, time: SegmentTime | None, now_ms: int) -> Blocker:
    if not config.deletes:
        return Blocker.POLICY
    if time is None and config.local_limit_bytes < 0:
        return Blocker.NO_LIMIT
    if time is not None and time.timestamp_ms > now_ms + CLOCK_SLACK_MS:
        return Blocker.FUTURE_TIMESTAMP
    return Blocker.NOT_YET


def _due_ms(config: TopicConfig, time: SegmentTime | None) -> int | None:
    return None if time is None else time.timestamp_ms + config.local_limit_ms + 1


def _later(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _bytes_left(config: TopicConfig, after: int) -> int | None:
    limit = config.local_limit_bytes
    return max(0, limit - after) if config.deletes and limit >= 0 else None


# Deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The segments to delete now, oldest first.

    `staying` is the first segment that is kept, or `None` if the walk did not reach it.
    `is_cut_short` says that more segments could be deleted than `max_count`, and `active_is_due`
    that the active segment would go if it were in the tier: only then is it rolled and copied.
    """

    going: list[Verdict] = field(default_factory=list)
    staying: Verdict | None = None
    is_cut_short: bool = False
    active_is_due: bool = False

    @property
    def needs_roll(self) -> bool:
        """Whether the active segment goes, or is to be copied, so that the log is rolled first."""
        return self.active_is_due or (bool(self.going) and self.going[-1].is_active)

    @property
    def start_offset(self) -> int:
        """Where the log's segments begin after the deletion; needs a segment in `going`."""
        return self.going[-1].next_offset


def plan_retention(facts: LogFacts, now_ms: int, max_count: int) -> RetentionPlan:
    """Plans the deletion of up to `max_count` segments; judges one segment more than it deletes."""
    going: list[Verdict] = []
    is_due = _is_active_due(facts, now_ms)
    for verdict in judge(facts, now_ms):
        if not verdict.goes:
            return RetentionPlan(going=going, staying=verdict, active_is_due=is_due)
        if len(going) == max_count:
            return RetentionPlan(going=going, is_cut_short=True, active_is_due=is_due)
        going.append(verdict)
    return RetentionPlan(going=going)


def _is_active_due(facts: LogFacts, now_ms: int) -> bool:
    """Whether the active segment of a log that is copied to a tier breaches a limit itself."""
    config, active = facts.config, facts.active
    if active is None or not active.size or not config.copies_to_tier:
        return False
    return _rule(config, 0, _time_that_counts(config, active), now_ms) is not None


def begin_retention(log: PartitionLog, plan: RetentionPlan, now_ms: int) -> None:
    """Moves the start after the segments to delete; their files are kept.

    While segments are copied to a tier it is the local start, otherwise the log start. The caller
    makes the log start durable before it calls `delete_segments_below_start`. Raises
    `StorageError`.
    """
    if plan.needs_roll:
        log.writer.roll(now_ms)
    if not plan.going:
        return
    if log.config.copies_to_tier:
        log.maintenance.leave_to_tier(plan.start_offset)
    elif plan.start_offset > log.log_start_offset:
        log.maintenance.delete_records_before(plan.start_offset)


def forget_former_tier(log: PartitionLog) -> None:
    """Moves the log start to the local start in a log that has no tier.

    Such a log was opened while it was not known whether it has one, as by a member that has not
    heard from the controller yet. Only retention asks for it, a pass later, and not whoever learns
    the settings: those may be wrong for a moment, a start that has moved does not come back, and
    until then a fetch below the local start is an error, not the end of the log. Raises
    `StorageError`.
    """
    if not log.config.remote_storage_enable and log.log_start_offset < log.local_start_offset:
        log.maintenance.delete_records_before(log.local_start_offset)


class _LogSegment:
    """A segment of an open log as `JudgedSegment`."""

    __slots__ = ("_segment", "base_offset", "size")

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.base_offset = segment.base_offset
        self.size = segment.size

    def time(self) -> SegmentTime:
        largest_ms = self._segment.largest.timestamp_ms
        if largest_ms >= 0:
            return SegmentTime(largest_ms, True)
        return SegmentTime(self._segment.largest_timestamp_ms(), False)


def facts_of(log: PartitionLog) -> LogFacts:
    """The facts about an open log; timestamps are read only if a rule needs them."""
    offsets = log.offsets
    copies = log.config.copies_to_tier
    return LogFacts(
        config=log.config,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        size=log.size,
        segments=map(_LogSegment, log.segments.values),
        local_start_offset=log.local_start_offset,
        # What is not flushed stays: a power failure could leave a log without local segments, that
        # would then give offsets of the tier to other records.
        highest_remote_offset=min(offsets.highest_remote_offset, offsets.recovery_point - 1),
        active=_LogSegment(log.segments.active) if copies else None,
    )
