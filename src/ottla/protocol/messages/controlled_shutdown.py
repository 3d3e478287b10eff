"""ControlledShutdown (7): moves leaderships away from a broker that is about to stop.

Version 2 adds the broker epoch (KIP-380). The response lists the partitions that the broker still
leads.
"""

from ottla.codec.fields import array, int16, int32, int64, string
from ottla.codec.schema import Message, Struct


class ControlledShutdownRequest(Message, api_key=7, versions="0-3", flexible="3+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class ControlledShutdownResponse(Message, api_key=7, versions="0-3", flexible="3+"):
    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+")
