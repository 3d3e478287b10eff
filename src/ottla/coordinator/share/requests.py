"""Requests of members to share groups, and the responses."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.coordinator.consumer.partitions import Assignment, TopicIdPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatRequest:
    """A heartbeat. `None` means that a value has not changed. `epoch` is 0 to join, -1 to leave."""

    group_id: str
    member_id: str
    epoch: int = 0
    rack_id: str | None = None
    topic_names: frozenset[str] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it is of a member that joins, or that missed a response."""
        return self.epoch == 0 or self.topic_names is not None


class PartitionToInitialize(NamedTuple):
    """A partition whose state is to begin at the offset; -1 leaves that to its leader."""

    topic_id: Uuid
    topic_name: str
    partition: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatAnswer:
    """`assigned` is `None` if the member's assignment has not changed. The caller initializes the
    states of `to_initialize` with `state_epoch`, and reports those that it could.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: Assignment | None = None
    to_initialize: Sequence[PartitionToInitialize] = ()
    state_epoch: int = 0

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesToChange:
    """What the caller asks of the share coordinators: to begin or to delete the states of
    partitions. A state begins with `state_epoch`.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    partitions: Sequence[TopicIdPartition] = ()
    state_epoch: int = 0

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberDescription:
    member_id: str
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topic_names: Sequence[str]
    assigned: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    """`state` is the name of the state."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    members: tuple[ShareMemberDescription, ...]
