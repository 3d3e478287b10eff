"""Decides about registrations of controllers (KIP-919), and their ends (KIP-1312).

Kafka's counterparts: `ClusterControlManager.registerController`, `unregisterController`.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.metadata.brokers import Endpoint, listeners_of
from ottla.metadata.deciding.node_rules import check_endpoints
from ottla.metadata.image import FIRST_WITHOUT_CONTROLLERS, MetadataImage
from ottla.metadata.levels import FIRST_WITH_CONTROLLERS, level_name
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import (
    EndPoint,
    RegisterControllerRecord,
    UnregisterControllerRecord,
)
from ottla.metadata.values import feature_ranges


class ControllerRegistrationRequest(NamedTuple):
    """A controller makes itself known; `features` are names with `min_version` and
    `max_version`.
    """

    controller_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, Mapping[str, int]]
    is_ready_to_migrate: bool = False


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> list[VersionedRecord]:
    """Returns the record of a controller, or none if it is known with the same.

    Raises `ApiError`: UNSUPPORTED_VERSION, INVALID_REGISTRATION.
    """
    if image.level < FIRST_WITH_CONTROLLERS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    check_endpoints(request.endpoints)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.is_ready_to_migrate,
        end_points=listeners_of(EndPoint, request.endpoints),
        features=feature_ranges(request.features),
    )
    return [] if image.controllers.get(request.controller_id) == record else [(record, 0)]


def unregister_controller(
    image: MetadataImage, voters: Collection[int], controller_id: int
) -> list[VersionedRecord]:
    """Returns the record of a controller that does not come back: while it is registered, features
    cannot be raised above what it supported. One that runs registers again.

    Raises `ApiError`: INVALID_REQUEST for a voter, UNSUPPORTED_VERSION,
    CONTROLLER_ID_NOT_REGISTERED.
    """
    if controller_id in voters:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot unregister controller {controller_id} because it is part of the voter set.",
        )
    if image.level < FIRST_WITHOUT_CONTROLLERS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration: "
            f"it is {level_name(image.level)}, and "
            f"{level_name(FIRST_WITHOUT_CONTROLLERS)} is needed.",
        )
    if controller_id not in image.controllers:
        raise ApiError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {controller_id} is not currently registered.",
        )
    return [(UnregisterControllerRecord(controller_id=controller_id), 0)]
