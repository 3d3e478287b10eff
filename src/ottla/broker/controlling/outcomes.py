"""What becomes of changes of a cluster's metadata, whichever controller makes them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.config.topic import TopicConfig

if TYPE_CHECKING:
    from ottla.metadata.altered_isr import AlteredIsr
    from ottla.metadata.assignments import ReplicaAssignment
    from ottla.metadata.image import PartitionImage
    from ottla.zookeeper.topics import PartitionState

Outcome = ApiError | None
"""The error of a change, or `None` if it was made."""

NOT_YET: Final = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
"""Clients ask again."""


class ByPartition(NamedTuple):
    """The error of a whole request, and the outcomes of its partitions."""

    error: Outcome
    outcomes: Mapping[TopicPartition, Outcome]


class Reassignments(NamedTuple):
    """The error of the request, and the replicas of the partitions that are being moved."""

    error: Outcome
    moves: "Mapping[TopicPartition, ReplicaAssignment]"


class CreatedTopic(NamedTuple):
    """A topic as it was created, or would be; `topic_id` is zero if nothing was created."""

    topic_id: Uuid
    partition_count: int
    replication_factor: int
    config: TopicConfig
    overrides: Mapping[str, str]


class IsrAnswered(Protocol):
    """What became of the ISR that a leader has asked for."""

    @property
    def change(self) -> "AlteredIsr": ...

    @property
    def error(self) -> ErrorCode: ...

    @property
    def state(self) -> "PartitionImage | PartitionState | None":
        """What it is now, if that is known."""

    @property
    def partition_epoch(self) -> int: ...


class AlteredIsrs(NamedTuple):
    """The error of the request, and an answer for each change."""

    error: Outcome
    answers: Sequence[IsrAnswered]


class UpdatedFeatures(NamedTuple):
    """The error of the request, and the outcome of each update."""

    error: Outcome
    outcomes: Sequence[Outcome]
