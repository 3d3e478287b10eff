"""Decides about registrations of brokers: who may be a broker of the cluster, and as what.

Kafka's counterparts: `ClusterControlManager.registerBroker`,
`ReplicationControlManager.unregisterBroker`.
"""

from typing import NamedTuple

from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord

NO_EPOCH = -1


class RegistrationRequest(NamedTuple):
    """A broker makes itself known; `broker` is what it says of itself, without an epoch.

    `previous_epoch` is the epoch with which it stopped cleanly, or -1.
    """

    broker_id: int
    cluster_id: str
    broker: BrokerRegistration
    previous_epoch: int = NO_EPOCH


def register_broker(
    image: MetadataImage,
    cluster_id: str,
    request: RegistrationRequest,
    *,
    end_offset: int,
    is_live: bool,
) -> tuple[list[VersionedRecord], int]:
    """Returns the records that register a broker, and its epoch.

    The epoch of a new incarnation is `end_offset`, which is that of the first record. `is_live`
    says whether the broker's present incarnation has a session (`BrokerSessions.is_live`). Raises
    `ApiError`: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, UNSUPPORTED_VERSION,
    INVALID_REGISTRATION.
    """
    raise NotImplementedError


def unregister_broker(image: MetadataImage, broker_id: int) -> list[VersionedRecord]:
    """Returns the records that remove a broker; its replicas stay assigned.

    Raises `ApiError`: BROKER_ID_NOT_REGISTERED.
    """
    raise NotImplementedError


def check_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The registration of a broker that sends a request with its epoch.

    Raises `ApiError`: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
    """
    raise NotImplementedError
