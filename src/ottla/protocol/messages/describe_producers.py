"""DescribeProducers (61): what the leader of a partition remembers of producers (KIP-664).

The tagged fields are Ottla's own, which other brokers and clients ignore: with a share group the
leader says which records the group has in flight, instead of producers.
"""

from ottla.codec.fields import array, int8, int16, int32, int64, string
from ottla.codec.schema import Message, Struct
from ottla.protocol.own_tags import OWN_TAG


class TopicRequest(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = array(int32, "0+")


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest, "0+")
    share_group_id: str | None = string(
        "0+", default=None, nullable="0+", tag=OWN_TAG, ignorable=True
    )


class ProducerState(Struct):
    """A producer id; the transaction's start offset is -1 if none is open."""

    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    current_transaction_start_offset: int = int64("0+", default=-1)


class RecordsInFlight(Struct):
    """As `coordinator/share/in_flight.py: InFlight`; `locked_until_ms` is -1 without a lock."""

    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    member_id: str = string("0+")
    since_ms: int = int64("0+")
    locked_until_ms: int = int64("0+")
    delivery_count: int = int16("0+")
    reasons: list[int] = array(int8, "0+")


class PartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState, "0+")
    records_in_flight: list[RecordsInFlight] = array(
        RecordsInFlight, "0+", tag=OWN_TAG, ignorable=True
    )


class TopicResponse(Struct):
    name: str = string("0+")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+")


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    topics: list[TopicResponse] = array(TopicResponse, "0+")
