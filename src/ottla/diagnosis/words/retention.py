"""Text about retention: when a segment is deleted, what keeps it, and how to change that."""

from ottla.base.times import second_text
from ottla.config.contradictions import idle_tier_settings
from ottla.config.topic import TopicConfig
from ottla.diagnosis.words.setting_commands import Setting
from ottla.storage.diagnosis.retention_explanation import ExplainedLog, ExplainedSegment
from ottla.storage.files.filenames import log_file_name
from ottla.storage.retention.retention import Blocker, LogFacts

LATER = {Blocker.BEING_CLEANED, Blocker.HIGH_WATERMARK}


def when_text(segment: ExplainedSegment, now_ms: int) -> str:
    """When a segment is deleted, short enough for a column."""
    verdict = segment.verdict
    if verdict.goes:
        return "at the next check"
    if Blocker.EMPTY_ACTIVE in verdict.blockers:
        return "never: the log's last segment"
    if not LATER.isdisjoint(verdict.blockers):
        return "later"
    if Blocker.NOT_IN_TIER in verdict.blockers and verdict.rule is not None:
        return "when the tier has it"
    parts = []
    if verdict.due_ms is not None:
        is_due = verdict.due_ms <= now_ms
        parts.append("with those before it" if is_due else second_text(verdict.due_ms))
    if verdict.bytes_left:
        parts.append(f"after {verdict.bytes_left:,} more bytes")
    return " or ".join(parts) or "never"


def why_text(segment: ExplainedSegment, explained: ExplainedLog) -> str:
    """The rule that deletes a segment, or what keeps it."""
    verdict = segment.verdict
    if verdict.goes:
        assert verdict.rule is not None
        return verdict.rule.name_in(explained.facts.config)
    return "; ".join(_reason(one, explained) for one in verdict.blockers)


def _reason(blocker: Blocker, explained: ExplainedLog) -> str:
    config = explained.facts.config
    match blocker:
        case Blocker.BEING_CLEANED:
            return "the cleaner is working on this log"
        case Blocker.EMPTY_ACTIVE:
            return "is empty, and a log always has a segment"
        case Blocker.HIGH_WATERMARK:
            return f"reaches above the high watermark {explained.facts.high_watermark}"
        case Blocker.NOT_IN_TIER:
            return "not in the tier yet"
        case Blocker.POLICY:
            policy = ",".join(config.cleanup_policy)
            return f"cleanup.policy={policy}: only segments before the log start are deleted"
        case Blocker.NO_LIMIT:
            names = config.local_limit_name("ms"), config.local_limit_name("bytes")
            return "{}=-1 and {}=-1 keep everything".format(*names)
        case Blocker.FUTURE_TIMESTAMP:
            name = config.local_limit_name("ms")
            return f"its timestamp is in the future, and {name} counts from it"
        case Blocker.NOT_YET:
            limits = [config.local_limit_name("ms")] if config.local_limit_ms >= 0 else []
            limits += [config.local_limit_name("bytes")] if config.local_limit_bytes >= 0 else []
            return f"within {' and '.join(limits)}"
        case Blocker.OLDER_SEGMENT:
            return f"after segment {_first_that_stays(explained)}, which is kept"


def _first_that_stays(explained: ExplainedLog) -> int:
    return next(one.verdict.base_offset for one in explained.segments if not one.verdict.goes)


def changes(
    segment: ExplainedSegment, explained: ExplainedLog, setting: Setting, now_ms: int
) -> list[str]:
    """The settings and commands that let retention delete a segment; empty if it is deleted.

    For a segment after one that is kept, they apply once the earlier segment is deleted.
    """
    verdict = segment.verdict
    found: list[str] = []
    for blocker in verdict.blockers:
        found += _changes(blocker, segment, explained, setting, now_ms)
    if verdict.is_active and found and Blocker.EMPTY_ACTIVE not in verdict.blockers:
        found.append(
            "stop appending, and wait: each append moves the active segment's largest timestamp"
        )
    return found


def _changes(
    blocker: Blocker,
    segment: ExplainedSegment,
    explained: ExplainedLog,
    setting: Setting,
    now_ms: int,
) -> list[str]:
    facts = explained.facts
    match blocker:
        case Blocker.BEING_CLEANED:
            return ["wait: retention retries when the cleaner has finished"]
        case Blocker.HIGH_WATERMARK:
            return ["wait for the replicas: the high watermark moves when they have the records"]
        case Blocker.NOT_IN_TIER:
            return ["wait: a broker with the tier copies the segment once it is rolled"]
        case Blocker.POLICY:
            return [setting.command("cleanup.policy=compact,delete")]
        case Blocker.FUTURE_TIMESTAMP:
            return [
                f"ottla delete-records {setting.target} {setting.topic} "
                f"-p {explained.partition} --before {segment.verdict.next_offset}",
                *_limits(segment, facts, setting, now_ms),
                "to refuse such timestamps: "
                + setting.command("message.timestamp.after.max.ms=3600000"),
            ]
        case Blocker.NO_LIMIT | Blocker.NOT_YET:
            return _limits(segment, facts, setting, now_ms)
        case Blocker.EMPTY_ACTIVE | Blocker.OLDER_SEGMENT:
            return []


def _limits(segment: ExplainedSegment, facts: LogFacts, setting: Setting, now_ms: int) -> list[str]:
    """The largest limits that would delete the segment now."""
    age_ms = now_ms - segment.time.timestamp_ms
    later_size = sum(
        one.size for one in facts.segments if one.base_offset > segment.verdict.base_offset
    )
    prefix = "local." if facts.config.copies_to_tier else ""
    found = [setting.command(f"{prefix}retention.ms={age_ms - 1}")] if age_ms > 0 else []
    return [*found, setting.command(f"{prefix}retention.bytes={later_size}")]


def settings_text(explained: ExplainedLog) -> str:
    """The settings that the verdicts depend on."""
    config = explained.facts.config
    text = (
        f"cleanup.policy={','.join(config.cleanup_policy)} retention.ms={config.retention_ms} "
        f"retention.bytes={config.retention_bytes}"
    )
    return " ".join([text, *(f"{name}={value}" for name, value in _tier_settings(config).items())])


def _tier_settings(config: TopicConfig) -> dict[str, object]:
    """The settings of a tiered topic that decide about its local segments."""
    if not config.remote_storage_enable:
        return {}
    return {
        "remote.storage.enable": "true",
        "remote.log.copy.disable": str(config.remote_log_copy_disable).lower(),
        "local.retention.ms": config.local_retention_ms,
        "local.retention.bytes": config.local_retention_bytes,
    }


def facts_that_surprise(explained: ExplainedLog) -> list[str]:
    """Notes about a log in addition to its segments."""
    config = explained.facts.config
    found = _tier_facts(explained.facts) if config.remote_storage_enable else []
    if explained.waiting_count:
        found.append(
            f"{explained.waiting_count} files of {explained.waiting_size:,} bytes are deleted from "
            f"the log, and removed file.delete.delay.ms={config.file_delete_delay_ms} later, or at "
            "the next start"
        )
    found += [
        f"{name}={text} has no effect without remote.storage.enable=true"
        for name, text in idle_tier_settings(config)
    ]
    return found


def _tier_facts(facts: LogFacts) -> list[str]:
    config, start, local_start = facts.config, facts.log_start_offset, facts.local_start_offset
    found = []
    if start < local_start:
        found.append(
            f"offsets {start} to {local_start - 1} are in the tier only, where "
            f"retention.ms={config.retention_ms} and retention.bytes={config.retention_bytes} "
            "count for tier and disk together"
        )
    if config.remote_log_copy_disable:
        found.append(
            "remote.log.copy.disable=true: nothing more is copied, and retention.ms and "
            "retention.bytes count for the local segments too"
        )
    elif facts.highest_remote_offset < 0:
        found.append("it is not known here what the tier has: no segment goes before that is")
    else:
        found.append(f"the tier has the offsets up to {facts.highest_remote_offset}")
    return found


def segment_fields(
    segment: ExplainedSegment, explained: ExplainedLog, setting: Setting, now_ms: int
) -> dict[str, object]:
    """The object for a segment in `--json`."""
    verdict = segment.verdict
    return {
        "type": "segment",
        "topic": explained.topic,
        "partition": explained.partition,
        "file": f"{explained.path}/{log_file_name(verdict.base_offset)}",
        "base_offset": verdict.base_offset,
        "next_offset": verdict.next_offset,
        "size": verdict.size,
        "is_active": verdict.is_active,
        "timestamp_ms": segment.time.timestamp_ms,
        "timestamp_from": "records" if segment.time.is_of_records else "file",
        "goes": verdict.goes,
        "rule": verdict.rule.name_in(explained.facts.config) if verdict.rule else None,
        "blockers": [one.value for one in verdict.blockers],
        "due_ms": verdict.due_ms,
        "bytes_left": verdict.bytes_left,
        "why": why_text(segment, explained),
        "changes": changes(segment, explained, setting, now_ms),
    }


def partition_fields(explained: ExplainedLog, source: str) -> dict[str, object]:
    """The object for a partition in `--json`."""
    facts = explained.facts
    config = facts.config
    return {
        "type": "partition",
        "topic": explained.topic,
        "partition": explained.partition,
        "directory": explained.path,
        "log_start_offset": facts.log_start_offset,
        "local_start_offset": max(facts.log_start_offset, facts.local_start_offset),
        "highest_remote_offset": facts.highest_remote_offset,
        "high_watermark": facts.high_watermark,
        "log_end_offset": facts.log_end_offset,
        "size": facts.size,
        "segments": len(explained.segments),
        "segments_that_go": sum(one.verdict.goes for one in explained.segments),
        "waiting_files": explained.waiting_count,
        "waiting_size": explained.waiting_size,
        "settings": {
            "cleanup.policy": ",".join(config.cleanup_policy),
            "retention.ms": config.retention_ms,
            "retention.bytes": config.retention_bytes,
            "segment.ms": config.segment_ms,
            "segment.bytes": config.segment_bytes,
            "file.delete.delay.ms": config.file_delete_delay_ms,
            **_tier_settings(config),
        },
        "settings_from": source,
        "notes": facts_that_surprise(explained),
    }
