"""Transaction markers to be sent to other brokers."""

from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass


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
    """The marker of one transaction, and the partitions of one broker that need it."""

    transactional_id: str
    marker: Marker
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MarkerRequest:
    """The content of one WriteTxnMarkers request; the response carries the same number."""

    number: int
    broker: int
    markers: tuple[SentMarker, ...]
