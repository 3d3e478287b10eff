"""Which nodes may be in a cluster, and which requests of theirs count."""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.brokers import SECURITY_PROTOCOLS, BrokerRegistration, Endpoint
from ottla.metadata.image import MetadataImage


def check_endpoints(endpoints: Sequence[Endpoint]) -> None:
    """Raises `ApiError`: INVALID_REGISTRATION unless a node can be reached at these."""
    if not endpoints:
        raise invalid_registration("No listeners specified in request")
    names = [one.listener for one in endpoints]
    for one in endpoints:
        if not one.listener or names.count(one.listener) > 1:
            raise invalid_registration(f"Listener '{one.listener}' needs a name of its own")
        if not one.host or not 0 < one.port < 1 << 16:
            raise invalid_registration(f"Listener {one.listener} needs a host and a port")
        if one.security_protocol not in SECURITY_PROTOCOLS:
            raise invalid_registration(
                f"Unknown security protocol {one.security_protocol} in listener {one.listener}"
            )


def invalid_registration(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGISTRATION, reason)


def check_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The registration of a broker that sends a request with its epoch.

    Raises `ApiError`: STALE_BROKER_EPOCH. Kafka's counterpart:
    `ClusterControlManager.checkBrokerEpoch`.
    """
    known = image.brokers.get(broker_id)
    if known is None:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}"
        )
    if known.epoch != epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {known.epoch}, but got broker epoch {epoch}",
        )
    return known
