"""Troubles that keep the cleaner from compacting logs, stored for users and the next start.

Format page: docs/format/ottla-cleaner.md. One small file per log directory, which Kafka ignores; it
is replaced as a whole, so a crash leaves the old content or the new. Kafka marks a log uncleanable
until a restart, and reports it only as a metric.
"""

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from ottla.base.failures import wait_after
from ottla.base.files import FileSystem, join, remove_if_present
from ottla.base.json_files import check_version, read_json_file, write_json_file
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass

TROUBLES_FILE_NAME = "ottla-cleaner.json"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedSegment:
    """A segment that the cleaner skips until its file's `modified_ms` or `size` changes."""

    base_offset: int
    reason: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One log's consecutive failures, the reason and time of the last one, and its damaged
    segments.
    """

    failure_count: int = 0
    reason: str = ""
    failed_ms: int = 0
    damaged: tuple[DamagedSegment, ...] = field(default=())

    @property
    def is_over(self) -> bool:
        return not self.failure_count and not self.damaged

    def retry_ms(self, backoff_ms: int, now_ms: int) -> int | None:
        """Returns when to retry the log, twice as long after each failure; `None` if it is due.

        A failure time in the future, after the clock was set back, delays nothing.
        """
        if not self.failure_count:
            return None
        retry_ms = self.failed_ms + int(wait_after(self.failure_count, backoff_ms))
        return retry_ms if self.failed_ms <= now_ms < retry_ms else None


def read_troubles(file_system: FileSystem, directory: str) -> dict[TopicPartition, Trouble]:
    """Returns all troubles of a directory, none without a file; raises `CorruptionError`."""
    path = join(directory, TROUBLES_FILE_NAME)
    return read_json_file(file_system, path, _parse_all, "a list of troubles") or {}


def write_troubles(
    file_system: FileSystem, directory: str, troubles: Mapping[TopicPartition, Trouble]
) -> None:
    """Replaces the file, or removes it if there are no troubles."""
    path = join(directory, TROUBLES_FILE_NAME)
    found = [
        {"topic": topic, "partition": partition, **asdict(trouble)}
        for (topic, partition), trouble in sorted(troubles.items())
        if not trouble.is_over
    ]
    if not found:
        remove_if_present(file_system, path)
        return
    write_json_file(file_system, path, {"version": FORMAT_VERSION, "troubles": found})


def _parse_all(content: Any) -> dict[TopicPartition, Trouble]:
    check_version(content["version"], FORMAT_VERSION)
    return dict(map(_parse, content["troubles"]))


def _parse(fields: dict[str, object]) -> tuple[TopicPartition, Trouble]:
    topic, partition = fields.pop("topic"), fields.pop("partition")
    damaged = fields.pop("damaged")
    if not isinstance(topic, str) or not isinstance(partition, int):
        raise TypeError("a partition has a topic and a number")
    if not isinstance(damaged, list):
        raise TypeError("damaged segments are a list")
    segments = tuple(DamagedSegment(**one) for one in damaged)
    return TopicPartition(topic, partition), Trouble(**fields, damaged=segments)  # type: ignore[arg-type]
