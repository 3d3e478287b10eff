"""Decides about registrations of controllers (KIP-919).

Kafka's counterpart: `ClusterControlManager.registerController`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.ids import Uuid
from ottla.metadata.brokers import Endpoint
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord


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
    raise NotImplementedError


def unregister_controller(image: MetadataImage, controller_id: int) -> list[VersionedRecord]:
    """Returns the record that removes a controller which does not vote any more.

    Raises `ApiError`: UNSUPPORTED_VERSION, CONTROLLER_ID_NOT_REGISTERED, INVALID_REQUEST.
    """
    raise NotImplementedError
