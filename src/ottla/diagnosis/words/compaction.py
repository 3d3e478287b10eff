"""Text about why a log is compacted or not, and which setting or command changes that."""

from ottla.base.times import second_text
from ottla.diagnosis.compaction import CompactionStatus
from ottla.diagnosis.words.setting_commands import Setting
from ottla.storage.compaction.cleanable import Bound
from ottla.storage.diagnosis.compaction_explanation import (
    ExplainedSegment,
    SegmentState,
    Waits,
)
from ottla.storage.files.filenames import log_file_name

FOREVER_MS = 1 << 62


def verdict_text(status: CompactionStatus) -> str:
    """Whether a pass begins now, and if not, why."""
    explanation, range_ = status.explanation, status.explanation.range
    config = explanation.config
    if explanation.waits is Waits.POLICY:
        return f"is never compacted: cleanup.policy={','.join(config.cleanup_policy)}"
    if not status.broker.log_cleaner_enable:
        return "is not compacted: log.cleaner.enable=false"
    if status.retry_ms is not None:
        return f"is retried after {second_text(status.retry_ms)}: {status.trouble.reason}"
    if explanation.waits is Waits.NOTHING_DIRTY:
        return f"has nothing to compact now: {bound_text(status)}"
    if explanation.waits is Waits.RATIO:
        return (
            f"waits: the dirty ratio {range_.ratio:.3f} is not above "
            f"min.cleanable.dirty.ratio={config.min_cleanable_dirty_ratio:g}"
        )
    why = "max.compaction.lag.ms has passed" if range_.overdue_ms > 0 else "the ratio is reached"
    return f"is compacted when a cleaner thread is next free: {why}"


def bound_text(status: CompactionStatus) -> str:
    """The end of a pass that begins now, and the reason."""
    explanation = status.explanation
    range_ = explanation.range
    match range_.bound:
        case Bound.ACTIVE_SEGMENT:
            why = "where the active segment begins, which is never compacted"
        case Bound.LAST_STABLE_OFFSET:
            why = f"the last stable offset is {explanation.log.last_stable_offset}"
            if status.open_transaction is not None:
                producer_id, first_offset = status.open_transaction
                why += f": producer {producer_id} has a transaction open from {first_offset}"
        case Bound.MIN_COMPACTION_LAG:
            until_ms = min(
                (one.waits_until_ms for one in explanation.segments if one.waits_until_ms),
                default=status.now_ms,
            )
            lag_ms = explanation.config.min_compaction_lag_ms
            why = f"min.compaction.lag.ms={lag_ms} passes at {second_text(until_ms)}"
        case Bound.NOT_FLUSHED:
            why = "before a segment that is being flushed"
        case Bound.DAMAGED:
            why = "before a segment that cannot be read"
    return f"a pass ends at {range_.end_offset}, {why}"


def forced_text(status: CompactionStatus) -> str | None:
    """When `max.compaction.lag.ms` starts a pass at any ratio."""
    forced_ms = status.explanation.range.forced_ms
    if forced_ms is None or forced_ms >= FOREVER_MS:
        return None
    if forced_ms < status.now_ms:
        return f"max.compaction.lag.ms has passed since {second_text(forced_ms)}"
    return f"max.compaction.lag.ms passes at {second_text(forced_ms)}"


def changes(status: CompactionStatus, setting: Setting) -> list[str]:
    """The settings and commands that make a pass begin or reach further."""
    explanation = status.explanation
    if explanation.waits is Waits.POLICY:
        return [setting.command("cleanup.policy=compact")]
    found = []
    if not status.broker.log_cleaner_enable:
        found.append("log.cleaner.enable=true in server.properties, and a restart")
    if explanation.waits is Waits.RATIO:
        found += _changes_of_ratio(status, setting)
    if explanation.range.end_offset < explanation.log.log_end_offset:
        found += _changes_of_bound(status, setting)
    for one in status.trouble.damaged:
        found.append(
            f"the segment at {one.base_offset} is skipped until its file changes: "
            f"ottla log check {status.directory}, then, with the broker stopped, "
            f"ottla log repair --in-place {status.directory}"
        )
    return found


def _changes_of_ratio(status: CompactionStatus, setting: Setting) -> list[str]:
    range_ = status.explanation.range
    lower = int(range_.ratio * 1000 - 1e-9) / 1000
    found = [setting.command(f"min.cleanable.dirty.ratio={lower:g}")] if range_.ratio else []
    if range_.forced_ms is not None:
        config = status.explanation.config
        age_ms = status.now_ms - (range_.forced_ms - config.max_compaction_lag_ms)
        if age_ms > max(1, config.min_compaction_lag_ms):
            found.append(setting.command(f"max.compaction.lag.ms={age_ms - 1}"))
    missing = status.explanation.bytes_missing
    return [*found, f"{missing:,} more bytes in segments that are not active"]


def _changes_of_bound(status: CompactionStatus, setting: Setting) -> list[str]:
    match status.explanation.range.bound:
        case Bound.ACTIVE_SEGMENT:
            return [
                "so that the active segment is rolled earlier: "
                + setting.command("segment.ms=600000")
            ]
        case Bound.MIN_COMPACTION_LAG:
            return [setting.command("min.compaction.lag.ms=0")]
        case Bound.LAST_STABLE_OFFSET if status.open_transaction is not None:
            return [
                f"ottla transactions abort {setting.target} --topic "
                f"{status.topic} --partition {status.partition} --start-offset "
                f"{status.open_transaction[1]}, if its producer will not return"
            ]
        case _:
            return []


def notes(status: CompactionStatus) -> list[str]:
    """Notes in addition to the verdict."""
    config, range_ = status.explanation.config, status.explanation.range
    found = []
    if range_.is_checkpoint_wrong:
        found.append("the cleaner's checkpoint does not match the log, so the whole log is dirty")
    if status.is_at_work:
        found.append("there are files of a pass: one is running, or was when the broker crashed")
    if status.trouble.failure_count:
        count = _tries(status.trouble.failure_count)
        at = second_text(status.trouble.failed_ms)
        found.append(f"{count} failed, the last at {at}: {status.trouble.reason}")
    found += [
        f"the segment at {one.base_offset} is set aside: {one.reason}"
        for one in status.trouble.damaged
    ]
    if config.is_compacted:
        found.append(
            f"a tombstone is removed delete.retention.ms={config.delete_retention_ms} after the "
            "first pass that retains it as the last record of its key"
        )
    return found


def _tries(count: int) -> str:
    return "the last try" if count == 1 else f"{count} tries in a row"


STATE_TEXTS = {
    SegmentState.CLEAN: "compacted",
    SegmentState.DIRTY: "would be compacted by a pass now",
    SegmentState.UNCLEANABLE: "cannot be compacted yet",
    SegmentState.ACTIVE: "active, which is never compacted",
}


def state_text(segment: ExplainedSegment, status: CompactionStatus) -> str:
    if any(one.base_offset == segment.view.base_offset for one in status.trouble.damaged):
        return "set aside: it cannot be read"
    until_ms = segment.waits_until_ms
    if until_ms is not None:
        return f"cannot be compacted before {second_text(until_ms)}"
    return STATE_TEXTS[segment.state]


def settings_text(status: CompactionStatus) -> str:
    """The settings that the verdict depends on."""
    return " ".join(f"{name}={value}" for name, value in _settings(status).items())


def _settings(status: CompactionStatus) -> dict[str, object]:
    config = status.explanation.config
    return {
        "cleanup.policy": ",".join(config.cleanup_policy),
        "min.cleanable.dirty.ratio": config.min_cleanable_dirty_ratio,
        "min.compaction.lag.ms": config.min_compaction_lag_ms,
        "max.compaction.lag.ms": config.max_compaction_lag_ms,
        "delete.retention.ms": config.delete_retention_ms,
    }


def partition_fields(status: CompactionStatus, setting: Setting, source: str) -> dict[str, object]:
    """The object for a partition in `--json`."""
    explanation, range_ = status.explanation, status.explanation.range
    transaction = status.open_transaction
    return {
        "type": "partition",
        "topic": status.topic,
        "partition": status.partition,
        "directory": status.path,
        "log_start_offset": explanation.log.log_start_offset,
        "log_end_offset": explanation.log.log_end_offset,
        "last_stable_offset": explanation.log.last_stable_offset,
        "cleaned_until": explanation.log.cleaned_until,
        "first_dirty_offset": range_.first_dirty_offset,
        "end_offset": range_.end_offset,
        "bound": range_.bound.name.lower(),
        "open_transaction": transaction
        and {"producer_id": transaction[0], "first_offset": transaction[1]},
        "clean_bytes": range_.clean_bytes,
        "cleanable_bytes": range_.cleanable_bytes,
        "ratio": round(range_.ratio, 6),
        "forced_ms": range_.forced_ms,
        "will_be_compacted": status.will_be,
        "waits": explanation.waits.value if explanation.waits else None,
        "retry_ms": status.retry_ms,
        "failures": status.trouble.failure_count,
        "reason": status.trouble.reason or None,
        "set_aside": [one.base_offset for one in status.trouble.damaged],
        "settings": _settings(status),
        "settings_from": source,
        "verdict": verdict_text(status),
        "notes": notes(status),
        "changes": changes(status, setting),
    }


def segment_fields(segment: ExplainedSegment, status: CompactionStatus) -> dict[str, object]:
    """The object for a segment in `--json`."""
    view = segment.view
    return {
        "type": "segment",
        "topic": status.topic,
        "partition": status.partition,
        "file": f"{status.path}/{log_file_name(view.base_offset)}",
        "base_offset": view.base_offset,
        "next_offset": segment.next_offset,
        "size": view.size,
        "state": segment.state.value,
        "first_timestamp_ms": view.first_timestamp_ms,
        "largest_timestamp_ms": view.largest_timestamp_ms,
        "waits_until_ms": segment.waits_until_ms,
    }
