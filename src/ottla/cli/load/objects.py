"""What `ottla load --json` prints: an object for each commit, and one for each change of lag."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.loading.follow import FollowStatus
    from ottla.loading.load import LoadReport


def report_object(report: "LoadReport") -> dict[str, Any]:
    """A load, or one commit of those that follow each other."""
    return {
        "event": "nothing new" if report.nothing_new else "commit",
        "topic": report.topic,
        "table": report.into,
        "commit": report.commit_id,
        "rows": report.row_count,
        "quarantined": report.quarantined_count,
        "files": len({file.path for file in report.files}),
        "bytes": report.size,
        "seconds": round(report.seconds, 3),
        "engine_start_seconds": round(report.start_seconds, 3),
        "partitions": [
            {
                "partition": one.partition,
                "from_offset": one.from_offset,
                "until_offset": one.until_offset,
                "rows": one.row_count,
            }
            for one in report.partitions
        ],
    }


def status_object(status: "FollowStatus", now_ms: int) -> dict[str, Any]:
    """The state of a followed table."""
    if status.is_elsewhere:
        return {"event": "elsewhere", "topic": status.topic, "table": status.into}
    return {
        "event": "lag",
        "topic": status.topic,
        "table": status.into,
        "lag_records": status.lag_records,
        "lag_seconds": status.lag_s(now_ms),
        "complete_ms": status.complete_ms,
        "commits": status.commits,
        "rows": status.rows,
        "errors": status.errors,
        "error": status.error,
    }
