"""Questions for coordinators of transactions about partitions that other brokers lead (KIP-890)."""

from typing import NamedTuple

from ottla.base.partitions import TopicPartition
from ottla.coordinator.transaction.requests import ProducerClaim


class AskedPartitions(NamedTuple):
    """What a producer is about to write to. `can_add`: the partitions are added to its transaction;
    otherwise they must have been.
    """

    claim: ProducerClaim
    partitions: tuple[TopicPartition, ...]
    can_add: bool


class AdmissionRequest(NamedTuple):
    """The content of one AddPartitionsToTxn request; no two questions are about one transactional
    id. The answer has the same number.
    """

    number: int
    broker: int
    asked: tuple[AskedPartitions, ...]
