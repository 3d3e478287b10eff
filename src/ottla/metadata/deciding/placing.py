"""Which brokers of a KRaft cluster get new replicas.

Kafka's counterparts: `ClusterControlManager.usableBrokers`,
`ReplicationControlManager.validateManualPartitionAssignment`.
"""

from collections.abc import Iterator, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding.partition_changes import is_live
from ottla.metadata.deciding.placement import Racks
from ottla.metadata.image import MetadataImage


def live_racks(image: MetadataImage) -> Racks:
    """The racks of the brokers that get replicas, and may lead them."""
    return {broker: rack for broker, rack in _racks(image) if is_live(image, broker)}


def fenced_racks(image: MetadataImage) -> Racks:
    """Those of brokers that get replicas where the others do not suffice."""
    return {broker: rack for broker, rack in _racks(image) if not is_live(image, broker)}


def _racks(image: MetadataImage) -> Iterator[tuple[int, str | None]]:
    for broker_id, broker in sorted(image.brokers.items()):
        if not _is_cordoned(broker):
            yield broker_id, broker.rack


def _is_cordoned(broker: BrokerRegistration) -> bool:
    """Whether none of its directories gets new replicas (KIP-1066)."""
    return bool(broker.directories) and set(broker.directories) <= set(broker.cordoned)


def check_registered(image: MetadataImage, replicas: Sequence[int]) -> None:
    """Raises `ApiError` unless these are one broker or more of the cluster, each once."""
    reason = ""
    if not replicas:
        reason = "an empty replica list."
    for broker_id in replicas:
        broker = image.brokers.get(broker_id)
        if broker is None:
            reason = f"broker {broker_id}, but no such broker is registered."
        elif _is_cordoned(broker):
            reason = f"broker {broker_id}, but all its log directories are cordoned."
        elif replicas.count(broker_id) > 1:
            reason = f"the broker {broker_id} more than once."
    if reason:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes {reason}",
        )
