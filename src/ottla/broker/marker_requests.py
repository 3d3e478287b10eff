"""What ends transactions in the logs that other brokers lead: markers on their way."""

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
    """The marker of one transaction for partitions of one broker."""

    transactional_id: str
    marker: Marker
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MarkerRequest:
    """To be sent as one WriteTxnMarkers; the number comes with the answer."""

    number: int
    broker: int
    markers: tuple[SentMarker, ...]
