"""Requests of producers and the coordinator's responses, as plain values.

Handlers convert them from and to wire messages. Nothing here depends on message versions.
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
    """The identity that a producer claims."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """A request for a producer id; `expected` is the id and epoch to continue with (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerAnswer:
    """The id and epoch with which the producer continues."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A response with only an error code."""

    error: ErrorCode = ErrorCode.NONE

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersToWrite:
    """The markers of a decided transaction that are still to be written."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id as administrators see it (KIP-664); `start_ms` is -1 without a
    transaction.
    """

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    topics: Mapping[str, list[int]] = field(default_factory=dict)
