"""ControllerRegistration (70): a controller makes itself known to the active one (KIP-919)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, boolean, int16, int32, string, uint16, uuid
from ottla.codec.schema import Message, Struct


class Listener(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class Feature(Struct):
    """The levels of a feature that the controller supports."""

    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class ControllerRegistrationRequest(Message, api_key=70, versions="0", flexible="0+"):
    controller_id: int = int32("0+")
    incarnation_id: Uuid = uuid("0+")
    zk_migration_ready: bool = boolean("0+")
    listeners: list[Listener] = array(Listener, "0+")
    features: list[Feature] = array(Feature, "0+")


class ControllerRegistrationResponse(Message, api_key=70, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
