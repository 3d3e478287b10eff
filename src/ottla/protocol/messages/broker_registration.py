"""BrokerRegistration (62): a broker makes itself known to the active controller (KIP-631).

Version 1 marks brokers that are leaving ZooKeeper (KIP-866), 2 names log directories (KIP-858), 3
the epoch that the broker had before (KIP-966), 4 allows features whose minimum is 0 (KIP-1022).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from ottla.codec.schema import Message, Struct


class Listener(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class Feature(Struct):
    """The levels of a feature that the broker supports."""

    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class BrokerRegistrationRequest(Message, api_key=62, versions="0-4", flexible="0+"):
    """`previous_broker_epoch` is -1 if the broker did not stop cleanly."""

    broker_id: int = int32("0+")
    cluster_id: str = string("0+")
    incarnation_id: Uuid = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    features: list[Feature] = array(Feature, "0+")
    rack: str | None = string("0+", nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[Uuid] = array(uuid, "2+")
    previous_broker_epoch: int = int64("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, api_key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    broker_epoch: int = int64("0+", default=-1)
