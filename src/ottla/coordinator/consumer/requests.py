"""Requests of members and administrators to consumer groups, and the responses."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Self

from ottla.base.error_codes import ErrorCode
from ottla.base.values import dataclass
from ottla.coordinator.consumer.partitions import Assignment


class VisibleTopics(NamedTuple):
    """The topics that a client may describe; `revision` rises when they may have changed."""

    may_describe: Callable[[str], bool]
    revision: int


EVERY_TOPIC: Final = VisibleTopics(lambda _: True, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A heartbeat. `None`, and -1 for the timeout, mean that the value has not changed.

    `epoch` is 0 to join, -1 to leave, -2 to leave and return as the same static member. `owned` are
    the member's partitions. `must_bring_id`: the client chooses its member id (KIP-1082).
    """

    group_id: str
    member_id: str = ""
    epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""
    must_bring_id: bool = True
    visible: VisibleTopics = EVERY_TOPIC

    @property
    def is_full(self) -> bool:
        """Whether all fields are set, as by a member that joins or that missed a response."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.epoch == 0 or (
            self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """`assigned` is `None` if the member's assignment has not changed."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: Assignment | None = None

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberDescription:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topic_names: Iterable[str]
    topic_regex: str | None
    assigned: Assignment
    target: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescription:
    """`state` is the name of the state."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]
