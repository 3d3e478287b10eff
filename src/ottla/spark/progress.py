"""What a query reads and its lag, from Spark's own progress reports.

Spark's Kafka source reports this itself; PySpark has no such interface for Python sources, and
calls each one `PythonMicroBatchStream`. So it is computed from the offsets in the report.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from ottla.base.partitions import TopicPartition
from ottla.sources.stream.stream_offset import OURS, parse_stream_offset

_OFFSETS = ("startOffset", "endOffset", "latestOffset")


class QueryProgress(Protocol):
    """`query.lastProgress`, or `event.progress` of a listener."""

    @property
    def json(self) -> str: ...


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


def readable(progress: QueryProgress) -> dict[str, Any]:
    """A query's progress as Spark's own Kafka source would appear in it, as a JSON object.

    Each source of Ottla has its topics as the description, offsets of topics only, and `metrics`.
    Other sources, and a source before its first batch, are as Spark reports them.
    """
    found: dict[str, Any] = json.loads(progress.json)
    found["sources"] = [_readable(one) for one in found["sources"]]
    return found


def _readable(source: dict[str, Any]) -> dict[str, Any]:
    if not any(name.startswith(OURS) for name in source.get("endOffset") or {}):
        return source
    texts = {name: source[name] and json.dumps(source[name]) for name in _OFFSETS}
    one = _Source(texts["endOffset"], texts["latestOffset"])
    shown = {
        name: value and {topic: ends for topic, ends in value.items() if not topic.startswith(OURS)}
        for name, value in ((name, source[name]) for name in _OFFSETS)
    }
    metrics = {name: str(value) for name, value in offsets_behind_latest(one).items()}
    return {**source, "description": description(one), **shown, "metrics": metrics}


class _Source:
    def __init__(self, end: str | None, latest: str | None) -> None:
        self.endOffset = end
        self.latestOffset = latest


def _offsets(text: str) -> Mapping[TopicPartition, int]:
    positions = parse_stream_offset(json.loads(text)).positions
    return {place: one.offset for place, one in positions.items()}
