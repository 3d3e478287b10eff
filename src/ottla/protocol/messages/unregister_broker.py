"""UnregisterBroker (64): a broker that will not come back leaves the cluster's metadata
(KIP-631)."""

from ottla.codec.fields import int16, int32, string
from ottla.codec.schema import Message


class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+"):
    broker_id: int = int32("0+")


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
