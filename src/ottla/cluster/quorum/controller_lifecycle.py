"""A controller's registration with the active controller (KIP-919), as a machine without I/O.

It is told by what the metadata says: a registration is asked for until the image has it. Kafka's
counterpart: `ControllerRegistrationManager`.
"""

from collections.abc import Mapping
from typing import Final

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.metadata.brokers import Endpoint, listeners_of, supported_of
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.levels import FIRST_WITH_CONTROLLERS, offered
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)

FIRST_BACKOFF_MS: Final = 100.0
LONGEST_BACKOFF_MS: Final = 10_000.0
CHECK_MS: Final = 500.0
"""How often the image is looked at: it lacks what an answer has promised for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """What a controller says of itself. `features` are the levels that it supports."""

    node_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


class ControllerLifecycle:
    """Times are of the monotonic clock, in ms."""

    def __init__(self, options: ControllerOptions, now_ms: float) -> None:
        self.due_ms = now_ms
        """When `next_request` may have something."""
        self._options = options
        self._failures = 0
        self._is_sent = False

    def is_registered(self, image: MetadataImage) -> bool:
        """Whether the image has this very process."""
        known = image.controllers.get(self._options.node_id)
        return known is not None and known.incarnation_id == self._options.incarnation_id

    def next_request(
        self, image: MetadataImage, now_ms: float
    ) -> ControllerRegistrationRequest | None:
        """What is due; it must be answered before the next one."""
        if self._is_sent or now_ms < self.due_ms:
            return None
        has_controllers = image.features.get(METADATA_VERSION, 0) >= FIRST_WITH_CONTROLLERS
        if not has_controllers or self.is_registered(image):
            self.due_ms = now_ms + CHECK_MS
            return None
        self._is_sent = True
        options = self._options
        return ControllerRegistrationRequest(
            controller_id=options.node_id,
            incarnation_id=options.incarnation_id,
            listeners=listeners_of(Listener, options.endpoints),
            features=supported_of(Feature, offered(options.features, image.features)),
        )

    def hurry(self, now_ms: float) -> None:
        """There is another active controller."""
        self.due_ms = now_ms

    def answered(
        self, response: ControllerRegistrationResponse | None, now_ms: float
    ) -> str | None:
        """The answer to the last request, `None` if none came; returns why it was refused, once
        in a row.
        """
        self._is_sent = False
        if response is not None and not response.error_code:
            self._failures = 0
            self.due_ms = now_ms + CHECK_MS
            return None
        pause_ms = FIRST_BACKOFF_MS * 2.0 ** min(self._failures, 20)
        self.due_ms = now_ms + min(pause_ms, LONGEST_BACKOFF_MS)
        self._failures += 1
        if response is None or self._failures > 1:
            return None
        return response.error_message or f"error {response.error_code}"
