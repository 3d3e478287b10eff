"""The interface of the clients that read a topic on the wire.

Without security it is our own, which hands over batches whole, to be decoded as those of files are.
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
"""How long the cluster may take over a question; reading has a patience of its own."""


class GroupHasMembersError(UserError):
    """Offsets are committed from outside, which brokers refuse while somebody is a member."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"group {group} has members of its own; give each query another kafka.group.id"
        )


class WireClient(Protocol):
    """All methods raise `UserError`."""

    address: str
    """As a person gave it."""

    def topics(self) -> Collection[str]:
        """The names of all."""

    def partitions_of(self, topics: Collection[str]) -> dict[TopicPartition, Uuid | None]:
        """Those that are there, with the ids of their topics; brokers before 2.8 send none."""

    def offsets(
        self, wanted: Mapping[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, ListedOffset]:
        """The first offset at a time (ms) or later, -1 without one; or `EARLIEST`, or `LATEST`."""

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        """As `LogSource` says."""

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """As `LogSource` says, of whatever topic has that name."""

    def batches(self, split: Split) -> Iterator[tuple[Batch, bool]] | None:
        """All batches that a split touches, and whether a committed reader sees their records.

        `None` from a client that hands over no batches.
        """

    def commit(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Returns when the group's coordinator has the offsets.

        A stream's group has no members: offsets are committed as tools do that reset them, and
        every Kafka tool shows how far it is. Kafka: `Admin.alterConsumerGroupOffsets`. Raises
        `GroupHasMembersError`.
        """
