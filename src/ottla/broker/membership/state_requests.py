"""What leaders of partitions and group coordinators ask of share coordinators."""

from typing import NamedTuple

from ottla.coordinator.share.coordinator import StateWrite
from ottla.coordinator.share.persisted_state import SharePartitionKey


class InitializeState(NamedTuple):
    """Begins a state anew (API 83); a start offset of -1 leaves the start to the leader."""

    key: SharePartitionKey
    state_epoch: int
    start_offset: int


class ReadState(NamedTuple):
    """Reads the state for a new leader, and fences those before it (API 84)."""

    key: SharePartitionKey
    leader_epoch: int


class WriteState(NamedTuple):
    """Merges what a leader says into the state (API 85)."""

    key: SharePartitionKey
    change: StateWrite


class DeleteState(NamedTuple):
    """Deletes a state, if there is one (API 86)."""

    key: SharePartitionKey


class SummarizeState(NamedTuple):
    """Reads the state and fences nobody (API 87); without a state its start offset is -1."""

    key: SharePartitionKey
    leader_epoch: int = -1


StateRequest = InitializeState | ReadState | WriteState | DeleteState | SummarizeState


class ShareStateRequest(NamedTuple):
    """Requests of one kind about one group, for the share coordinator on another broker; the answer
    has the same number.
    """

    number: int
    broker: int
    requests: tuple[StateRequest, ...]
