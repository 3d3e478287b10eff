"""Which of a log's oldest segments are deleted, why the others stay, and the first step of the
deletion. `judge` is the only place that decides. The broker's job carries its verdicts out
(`plan_retention`, `begin_retention`), and `ottla explain retention` prints it, so the two cannot
disagree.

The deed has two steps with the caller's checkpoint between them: `begin_retention` moves the log's
start, the checkpoint makes that durable, and `LogMaintenance.delete_segments_below_start` takes the
files. A crash after any of them shows no record again that was out of the log once.

Kafka's counterparts: `UnifiedLog.deleteOldSegments`, `deletableSegments`, `deleteSegments`. Kafka
goes through the log once per rule; since no rule begins to hold again after a segment where it did
not, one walk that asks all three finds the same.
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
"""How far the clocks of a producer and of its broker may differ before a timestamp is odd."""


class Rule(Enum):
    """Why a segment is deleted, in the order in which Kafka checks; values are for messages."""

    LOG_START = "log start"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class Blocker(Enum):
    """Why a segment stays; the value is the name in `--json`."""

    BEING_CLEANED = "being_cleaned"
    """The cleaner holds the log; retention comes by again."""
    EMPTY_ACTIVE = "empty_active"
    """A log always has a segment."""
    HIGH_WATERMARK = "high_watermark"
    """It holds offsets at or above the high watermark."""
    POLICY = "policy"
    """`cleanup.policy` is without `delete`: only what lies below the log's start goes."""
    NO_LIMIT = "no_limit"
    """Neither `retention.ms` nor `retention.bytes` limits the log."""
    FUTURE_TIMESTAMP = "future_timestamp"
    """Its largest timestamp is later than now, by more than clocks differ."""
    NOT_YET = "not_yet"
    """The log is too small and the segment too young."""
    OLDER_SEGMENT = "older_segment"
    """An older segment stays, and segments go in order."""


@dataclass(frozen=True, slots=True)
class SegmentTime:
    """What retention takes for a segment's age.

    `is_of_records` is false where no record has a timestamp (message format v0, or no record at
    all): then it is when the file was last written to.
    """

    timestamp_ms: int
    is_of_records: bool


class SegmentFacts(Protocol):
    """The facts needed about a segment; the timestamp only if a rule needs it."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def time(self) -> SegmentTime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The facts needed about a log; `segments` ascend, and `size` is their total in bytes."""

    config: TopicConfig
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size: int
    segments: Iterable[SegmentFacts]
    is_being_cleaned: bool = False


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What becomes of one segment, and why.

    `rule` is the first that applies, also where a blocker keeps the segment all the same.
    `due_ms` is the wall time from which `retention.ms` and the older segments let it go; `None`
    when time alone never does. `bytes_left` is how much must be appended until `retention.bytes`
    lets it go; `None` when that limits nothing.
    Not frozen, since one is made for each of many segments.
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
    is_held = False
    due_ms: int | None = now_ms
    for segment, next_offset, is_active in _with_ends(facts):
        after = left - segment.size
        has_breach = not is_active and next_offset <= facts.log_start_offset
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


def _with_ends(facts: LogFacts) -> Iterator[tuple[SegmentFacts, int, bool]]:
    """Each segment with the offset after it, and whether it is the last."""
    before: SegmentFacts | None = None
    for segment in facts.segments:
        if before is not None:
            yield before, segment.base_offset, False
        before = segment
    if before is not None:
        yield before, facts.log_end_offset, True


def _rule(config: TopicConfig, after: int, time: SegmentTime | None, now_ms: int) -> Rule | None:
    """Which rule lets a segment go that leaves `after` bytes of the log after it."""
    if not config.deletes:
        return None
    if 0 <= config.retention_bytes <= after:
        return Rule.SIZE
    if time is not None and now_ms - time.timestamp_ms > config.retention_ms:
        return Rule.TIME
    return None


def _time_that_counts(config: TopicConfig, segment: SegmentFacts) -> SegmentTime | None:
    return segment.time() if config.deletes and config.retention_ms >= 0 else None


def _holds(
    facts: LogFacts, segment: SegmentFacts, next_offset: int, is_active: bool
) -> Iterator[Blocker]:
    """What keeps a segment whatever the rules say."""
    if facts.is_being_cleaned:
        yield Blocker.BEING_CLEANED
    if is_active and segment.size == 0:
        yield Blocker.EMPTY_ACTIVE
    elif next_offset > facts.high_watermark:
        yield Blocker.HIGH_WATERMARK


def _why_no_rule(config: TopicConfig, time: SegmentTime | None, now_ms: int) -> Blocker:
    if not config.deletes:
        return Blocker.POLICY
    if time is None and config.retention_bytes < 0:
        return Blocker.NO_LIMIT
    if time is not None and time.timestamp_ms > now_ms + CLOCK_SLACK_MS:
        return Blocker.FUTURE_TIMESTAMP
    return Blocker.NOT_YET


def _due_ms(config: TopicConfig, time: SegmentTime | None) -> int | None:
    return None if time is None else time.timestamp_ms + config.retention_ms + 1


def _later(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _bytes_left(config: TopicConfig, after: int) -> int | None:
    if not config.deletes or config.retention_bytes < 0:
        return None
    return max(0, config.retention_bytes - after)


# The deed


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The segments that go now, the oldest first, and where the log starts without them.

    `is_cut_short`: there may be more of them than were asked for. `staying` is the first segment
    that does not go, if it was come to.
    """

    going: list[Verdict] = field(default_factory=list)
    staying: Verdict | None = None
    is_cut_short: bool = False

    @property
    def needs_roll(self) -> bool:
        """Whether the active segment goes too, so that another must be there first."""
        return bool(self.going) and self.going[-1].is_active

    @property
    def start_offset(self) -> int:
        return self.going[-1].next_offset


def plan_retention(facts: LogFacts, now_ms: int, max_count: int) -> RetentionPlan:
    """What goes now, `max_count` segments at the most; looks at one segment more than go."""
    going: list[Verdict] = []
    for verdict in judge(facts, now_ms):
        if not verdict.goes:
            return RetentionPlan(going=going, staying=verdict)
        if len(going) == max_count:
            return RetentionPlan(going=going, is_cut_short=True)
        going.append(verdict)
    return RetentionPlan(going=going)


def begin_retention(log: PartitionLog, plan: RetentionPlan, now_ms: int) -> None:
    """Moves the log's start after the segments that go; their files stay.

    The caller makes the start durable before it lets `delete_segments_below_start` take them.
    Raises `StorageError`.
    """
    if plan.needs_roll:
        log.writer.roll(now_ms)
    if plan.start_offset > log.log_start_offset:
        log.maintenance.delete_records_before(plan.start_offset)


class _LogSegment:
    """A segment of an open log as `SegmentFacts`."""

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
    """An open log's facts; nothing is read before a rule asks for it."""
    return LogFacts(
        config=log.config,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        size=log.size,
        segments=map(_LogSegment, log.segments.values),
    )
