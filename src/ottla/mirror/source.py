"""Where a mirror reads: topics, bounds, batches as bytes, and what groups have committed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Protocol

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.client.groups import Committed
from ottla.record.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """A topic as its source describes it.

    `overrides` are the settings that are its own; `None` where the source does not know them.
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
    """The offsets of a partition that can be read: [start, end), committed up to `stable`.

    `first_batch` is where the batch begins that holds the start: a log may start in the middle.
    """

    start: int
    end: int
    stable: int
    first_batch: int


class Source(Protocol):
    """Raises `ApiError`, `CorruptionError` and `UserError` (`UnreachableError`) as it reads."""

    name: str

    def topics(self, selection: "Selection") -> list[SourceTopic]:
        """The topics that are wanted but internal ones, in order of name."""

    def bounds(self, topic: str, partition: int) -> Bounds:
        """The partition's bounds now; those of one that is not here are all 0."""

    def batches(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[memoryview]:
        """Whole batches with offsets in a range, some at a time, as they are kept.

        The first one may begin before the range, the last one end after it. There may be less than
        the range only where the log has nothing.
        """

    def committed_records(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[Record]:
        """The records of a range for a read_committed consumer."""

    def committed_offsets(self) -> list[Committed]:
        """How far every group has read."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which topics are wanted, by patterns with `*`, `?` and `[...]`; no pattern wants all."""

    topics: Sequence[str] = field(default=())
    exclude: Sequence[str] = field(default=())

    def takes(self, name: str) -> bool:
        is_wanted = not self.topics or any(fnmatchcase(name, one) for one in self.topics)
        return is_wanted and not any(fnmatchcase(name, one) for one in self.exclude)


def is_internal(name: str) -> bool:
    """Whether only coordinators or controllers write the topic, so that it is not mirrored."""
    return name in INTERNAL


INTERNAL = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
