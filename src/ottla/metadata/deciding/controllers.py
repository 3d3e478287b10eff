"""Decides about registrations of controllers (KIP-919).

Kafka's counterpart: `ClusterControlManager.registerController`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.metadata.brokers import Endpoint, listeners_of
from ottla.metadata.deciding.node_rules import check_endpoints
from ottla.metadata.image import MetadataImage
from ottla.metadata.levels import FIRST_WITH_CONTROLLERS
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import (
    EndPoint,
    RegisterControllerRecord,
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
