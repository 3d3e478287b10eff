"""The source of a mirror: topics, bounds, batches as bytes, and committed offsets of groups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Protocol

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import Committed
from ottla.record.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """A topic of a source.

    `overrides` are the topic's own settings; `None` if the source does not have them.
    """

    name: str
    topic_id: Uuid | None
    partition_count: int
    overrides: Mapping[str, str] | None = None

    @property
    def is_compacted(self) -> bool:
        """Whether compaction may have changed earlier records."""
        return self.overrides is None or "compact" in self.overrides.get("cleanup.policy", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The readable offsets [start, end) of a partition; `stable` is the last stable offset.

    `first_batch` is the base offset of the batch with the start, which may be before the start.
    """

    start: int
    end: int
    stable: int
    first_batch: int


class Source(Protocol):
    """A log to read; its methods raise `ApiError`, `CorruptionError` and `UserError`."""

    name: str

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster that wrote the log; `None` if it is not known."""

    def topics(self, selection: "Selection") -> list[SourceTopic]:
        """The selected topics without internal ones, ordered by name."""

    def bounds(self, topic: str, partition: int) -> Bounds:
        """The partition's current bounds; all 0 for a partition that does not exist."""

    def batches(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[memoryview]:
        """The whole batches that overlap with a range, some at a time, as stored.

        Offsets of the range are only missing if the log has no records for them.
        """

    def committed_records(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[Record]:
        """The records in a range, as for a `read_committed` consumer."""

    def committed_offsets(self) -> list[Committed]:
        """The committed offsets of all groups."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects topics by patterns with `*`, `?` and `[...]`; without patterns, all topics."""

    topics: Sequence[str] = field(default=())
    exclude: Sequence[str] = field(default=())

    def takes(self, name: str) -> bool:
        is_wanted = not self.topics or any(fnmatchcase(name, one) for one in self.topics)
        return is_wanted and not any(fnmatchcase(name, one) for one in self.exclude)


def is_internal(name: str) -> bool:
    """Whether only brokers write the topic, about themselves, so that it is not mirrored: records
    of a tier, above all, would let the copy's broker delete the objects of its source.
    """
    return name in INTERNAL


INTERNAL = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
