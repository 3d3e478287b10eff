"""Produce (0): appends record batches to partitions.

With `acks` 0 there is no response. From version 3 on each partition has exactly one batch of magic
2; older versions have message sets (KIP-98). Version 13 names topics by id (KIP-516).
"""

from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, int64, nested, records, string, uuid
from ottla.codec.schema import Message, Struct


class PartitionProduceData(Struct):
    """The batches for one partition."""

    index: int = int32("0+")
    records: Buffer | None = records("0+", nullable="0+")


class TopicProduceData(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")


class ProduceRequest(Message, api_key=0, versions="0-13", flexible="9+"):
    """Version 3 adds the transactional id.

    From version 12 on a produce request adds its partitions to the transaction (KIP-890).
    """

    transactional_id: str | None = string("3+", default=None, nullable="3+")
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")


class BatchIndexAndErrorMessage(Struct):
    """A record that was rejected, and the reason."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", default=None, nullable="8+")


class LeaderIdAndEpoch(Struct):
    """The current leader of the partition, if the client's is stale."""

    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    """The result for one partition.

    `log_append_time_ms` is -1 unless the topic uses LogAppendTime.
    """

    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = string("8+", default=None, nullable="8+", ignorable=True)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    """A broker that a `current_leader` names."""

    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", default=None, nullable="10+")


class ProduceResponse(Message, api_key=0, versions="0-13", flexible="9+"):
    """Version 2 adds the append time, 5 the log start offset, 8 errors per record (KIP-467).

    Versions 10 and above direct a client whose leader has moved to the new one (KIP-951).
    """

    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
