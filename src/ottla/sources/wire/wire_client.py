"""The interface of the clients that read a topic from a broker.

Our own client returns whole batches, which are decoded like those of files.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.base.errors import UserError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.client.reading import ListedOffset
from ottla.record.batch import Batch
from ottla.sources.log_source import Split
from ottla.sources.options import Isolation
from ottla.sources.stream.continuity import Position

if TYPE_CHECKING:
    import pyarrow as pa

ANSWER_SECONDS = 10.0
"""How long a metadata request may take; reading has its own limit."""


class GroupHasMembersError(UserError):
    """Offsets of a group can be committed from outside only while the group has no members."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"group {group} has members of its own; give each query another kafka.group.id"
        )


class WireClient(Protocol):
    """A client for one cluster. All methods raise `UserError`."""

    address: str
    """The address as the user gave it."""

    def topics(self) -> Collection[str]:
        """The names of all topics."""

    def partitions_of(self, topics: Collection[str]) -> dict[TopicPartition, Uuid | None]:
        """The existing partitions with the ids of their topics; `None` from brokers before 2.8."""

    def offsets(
        self, wanted: Mapping[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, ListedOffset]:
        """The first offset at or after a timestamp (ms), -1 if none; or `EARLIEST`, or `LATEST`."""

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        """See `LogSource`."""

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """See `LogSource`; does not check the topic id."""

    def batches(self, split: Split) -> Iterator[tuple[Batch, bool]] | None:
        """All batches of a split, each with whether a read_committed reader sees its records.

        `None` if the client has no access to batches.
        """

    def commit(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Commits the offsets; returns when the group's coordinator has stored them.

        A stream's group has no members: offsets are committed as by tools that reset them, and
        every Kafka tool shows the progress. Kafka: `Admin.alterConsumerGroupOffsets`. Raises
        `GroupHasMembersError`.
        """
