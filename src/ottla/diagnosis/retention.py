"""Judges retention by offsets and settings alone, for logs on another machine."""

from collections.abc import Mapping

from ottla.base.values import dataclass
from ottla.storage.retention.retention import CLOCK_SLACK_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRetention:
    """The state of retention for one partition; `None` means no limit."""

    all_gone_by_ms: int | None
    bytes_over_limit: int | None
    has_future_timestamp: bool


def judge_remote(
    settings: Mapping[str, str | None], size: int, largest_timestamp_ms: int, now_ms: int
) -> RemoteRetention:
    """Judges one partition; `largest_timestamp_ms` is -1 without timestamps."""
    retention_ms = int(settings["retention.ms"] or -1)
    limit = int(settings["retention.bytes"] or -1)
    is_deleted = "delete" in (settings["cleanup.policy"] or "")
    has_time = largest_timestamp_ms >= 0 and retention_ms >= 0 and is_deleted
    return RemoteRetention(
        all_gone_by_ms=largest_timestamp_ms + retention_ms + 1 if has_time else None,
        bytes_over_limit=max(0, size - limit) if limit >= 0 else None,
        has_future_timestamp=largest_timestamp_ms > now_ms + CLOCK_SLACK_MS,
    )
