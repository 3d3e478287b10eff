"""Transaction markers to be sent to the brokers that lead their partitions."""

from collections.abc import Mapping
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass

NO_LEADER: Final = -1

MarkerErrors = Mapping[tuple[int, TopicPartition], ErrorCode]
"""A broker's answer to a request, by producer id and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """`coordinator_epoch` is the leader epoch of the transaction's partition of the state topic."""

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int = 0
    client_version: int = 0


@dataclass(frozen=True, slots=True)
class SentMarker:
    """The marker of one transaction, and the partitions of one broker that need it.

    `is_repeated`: some of them may have it already.
    """

    transactional_id: str
    marker: Marker
    partitions: tuple[TopicPartition, ...]
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class MarkerRequest:
    """The content of one WriteTxnMarkers request; the response carries the same number."""

    number: int
    broker: int
    markers: tuple[SentMarker, ...]
