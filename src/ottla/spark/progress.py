"""What a query reads and its lag, from Spark's own progress reports.

Spark's Kafka source reports this itself; PySpark has no such interface for Python sources, and
calls each one `PythonMicroBatchStream`. So it is computed from the offsets in the report.
"""

import json
from collections.abc import Mapping
from typing import Protocol

from ottla.base.partitions import TopicPartition
from ottla.sources.stream.stream_offset import parse_stream_offset


class SourceProgress(Protocol):
    """One of `query.lastProgress.sources`."""

    endOffset: str | None  # noqa: N815
    latestOffset: str | None  # noqa: N815


def description(source: SourceProgress) -> str:
    """What a source reads, such as `ottla[orders, users]`; `ottla` before the first batch."""
    topics = sorted({place.topic for place in _offsets(source.endOffset or "{}")})
    return f"ottla[{', '.join(topics)}]" if topics else "ottla"


def offsets_behind_latest(source: SourceProgress) -> dict[str, float]:
    """`minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest`, over the
    partitions that the query reads; empty before the first batch.

    Raises `UserError` for the progress of another source.
    """
    if not source.endOffset or not source.latestOffset:
        return {}
    ends = _offsets(source.endOffset)
    latest = _offsets(source.latestOffset)
    behind = [max(0, latest[place] - end) for place, end in ends.items() if place in latest]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": float(min(behind)),
        "maxOffsetsBehindLatest": float(max(behind)),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def _offsets(text: str) -> Mapping[TopicPartition, int]:
    positions = parse_stream_offset(json.loads(text)).positions
    return {place: one.offset for place, one in positions.items()}
