"""What producers ask of the coordinator, and what it answers: plain values.

Handlers make them from requests of the wire and back; nothing here knows versions of messages.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Self

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.coordinator.transaction.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerClaim:
    """The identity that a producer gives."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """A producer begins, or with what it had (`expected`) continues after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerAnswer:
    """The id and epoch that a producer continues with."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Done, or why not."""

    error: ErrorCode = ErrorCode.NONE

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersToWrite:
    """What a transaction that is decided is yet to leave in each of its partitions."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id as administrators see it (KIP-664); `start_ms` is -1 before the first."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    topics: Mapping[str, list[int]] = field(default_factory=dict)
