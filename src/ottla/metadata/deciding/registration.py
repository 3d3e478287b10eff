"""Decides about registrations of brokers: who may be a broker of the cluster, and as what.

Kafka's counterparts: `ClusterControlManager.registerBroker`,
`ReplicationControlManager.handleBrokerShutdown`, `unregisterBroker`.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import is_reserved, uuid_text
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding.node_rules import check_endpoints, invalid_registration
from ottla.metadata.deciding.partition_changes import (
    ALL_AT_ONCE,
    NO_DEFAULTS,
    Manner,
    TopicDefaults,
    directories_failed,
    leaving,
    stopped_uncleanly,
)
from ottla.metadata.image import (
    FIRST_WITH_CORDONED,
    FIRST_WITH_DIRECTORIES,
    METADATA_VERSION,
    MetadataImage,
)
from ottla.metadata.levels import ELR_VERSION
from ottla.metadata.record_versions import VersionedRecord, versioned
from ottla.metadata.records import UnregisterBrokerRecord
from ottla.metadata.values import broker_record

NO_EPOCH: Final = -1
ORIGINAL_LEVELS: Final = {"min_version": 1, "max_version": 1}
"""The levels of `metadata.version` that a broker supports that does not say so."""


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
    manner: Manner = ALL_AT_ONCE,
) -> tuple[list[VersionedRecord], int | None]:
    """Returns the records that register a broker, and its epoch. If as many partitions as `manner`
    allows change, it returns these without an epoch, and is to be called again: who registers leads
    none of them any more, whether it comes to be registered or not.

    The epoch of a new incarnation is `end_offset`, which is that of the first record. `is_live`
    says whether the broker's present incarnation has a session (`BrokerSessions.is_live`). Raises
    `ApiError`: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, UNSUPPORTED_VERSION,
    INVALID_REGISTRATION.
    """
    defaults, most = manner
    if request.cluster_id != cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}",
        )
    broker_id, known = request.broker_id, image.brokers.get(request.broker_id)
    is_same = known is not None and known.incarnation_id == request.broker.incarnation_id
    if known is not None and is_live and not is_same and not known.is_shutting_down:
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently "
            "restarted, this ends by itself when its earlier session does.",
        )
    wanted = _checked(image, broker_id, request.broker)
    if known is not None and is_same:
        wanted = replace(
            wanted,
            epoch=known.epoch,
            is_fenced=known.is_fenced,
            is_shutting_down=known.is_shutting_down,
        )
        records = [] if wanted == known else [_record(image, broker_id, wanted)]
        # The next heartbeat does not find them in the image any more.
        failed = {*known.directories} - {*wanted.directories}
        moved = list[VersionedRecord]()
        if failed:
            moved = directories_failed(image, broker_id, failed, defaults, most=most)
        return (moved, None) if len(moved) == most else ([*records, *moved], known.epoch)
    wanted = replace(wanted, epoch=end_offset, is_fenced=True, is_shutting_down=False)
    # The registration comes first, so that it is at the offset that is its epoch; readers apply the
    # records together.
    record = _record(image, broker_id, wanted)
    # A broker that was unregistered may still be an eligible leader.
    is_clean = known is not None and known.epoch == request.previous_epoch
    after_stop = leaving
    if not is_clean and image.features.get(ELR_VERSION):
        # It may have lost what was not synced, so that it is no eligible leader (KIP-966).
        after_stop = stopped_uncleanly
    moved = after_stop(image, broker_id, defaults, most=most)
    return (moved, None) if len(moved) == most else ([record, *moved], end_offset)


def _record(image: MetadataImage, broker_id: int, broker: BrokerRegistration) -> VersionedRecord:
    return versioned(broker_record(broker_id, broker), image.level)


# What a broker says of itself


def _checked(
    image: MetadataImage, broker_id: int, broker: BrokerRegistration
) -> BrokerRegistration:
    """What a registration is to be recorded as; raises `ApiError`."""
    check_endpoints(broker.endpoints)
    features = {**broker.features}
    features.setdefault(METADATA_VERSION, ORIGINAL_LEVELS)
    for name in sorted(image.features, key=lambda one: (one != METADATA_VERSION, one)):
        level = image.features[name]
        levels = features.get(name, {})
        low, high = levels.get("min_version", 0), levels.get("max_version", 0)
        if not low <= level <= high:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} "
                f"of {name}. The broker wants a version between {low} and {high}, inclusive.",
            )
    has_directories = image.level >= FIRST_WITH_DIRECTORIES
    if has_directories:
        _check_directories(image, broker_id, broker)
    has_cordoned = image.level >= FIRST_WITH_CORDONED
    return replace(
        broker,
        features=features,
        directories=broker.directories if has_directories else (),
        cordoned=broker.cordoned if has_cordoned else (),
    )


def _check_directories(image: MetadataImage, broker_id: int, broker: BrokerRegistration) -> None:
    if not broker.directories:
        raise invalid_registration("No directories specified in request")
    if any(map(is_reserved, broker.directories)):
        raise invalid_registration("Reserved directory ID in request")
    if len({*broker.directories}) < len(broker.directories):
        raise invalid_registration("Duplicate directory ID in request")
    for other_id, other in sorted(image.brokers.items()):
        common = [one for one in broker.directories if one in other.directories]
        if other_id != broker_id and common:
            name = uuid_text(common[0])
            raise invalid_registration(
                f"Broker {other_id} is already registered with directory {name}"
            )


# Registered brokers


def unregister_broker(
    image: MetadataImage,
    broker_id: int,
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    most: int | None = None,
) -> list[VersionedRecord]:
    """Returns the records that remove a broker; its replicas stay assigned. If as many as `most`
    partitions change, it returns these, and the broker is removed by a later call.

    Raises `ApiError`: BROKER_ID_NOT_REGISTERED.
    """
    known = image.brokers.get(broker_id)
    if known is None:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {broker_id} is not currently registered",
        )
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=known.epoch)
    moved = leaving(image, broker_id, defaults, most=most)
    return moved if len(moved) == most else [*moved, (gone, 0)]
