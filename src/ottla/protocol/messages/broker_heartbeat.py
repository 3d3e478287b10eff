"""BrokerHeartbeat (63): a registered broker keeps its session, and asks to be unfenced or to stop
(KIP-631).

Version 1 names directories that have failed (KIP-858), 2 those that take no new partitions
(KIP-1066).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, boolean, int16, int32, int64, uuid
from ottla.codec.schema import Message


class BrokerHeartbeatRequest(Message, api_key=63, versions="0-2", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    current_metadata_offset: int = int64("0+")
    want_fence: bool = boolean("0+")
    want_shut_down: bool = boolean("0+")
    offline_log_dirs: list[Uuid] = array(uuid, "1+", tag=0, ignorable=True)
    cordoned_log_dirs: list[Uuid] | None = array(
        uuid, "2+", default=None, nullable="2+", tag=1, ignorable=True
    )


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    is_caught_up: bool = boolean("0+")
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+")
