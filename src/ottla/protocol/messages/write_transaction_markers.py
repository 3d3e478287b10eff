"""WriteTxnMarkers (27): writes commit or abort markers into partitions.

Sent by the transaction coordinator, or by an administrator to end a hanging transaction.
"""

from ottla.codec.fields import array, boolean, int8, int16, int32, int64, string
from ottla.codec.schema import Message, Struct


class WritableTransactionMarkerTopic(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = array(int32, "0+")


class WritableTransactionMarker(Struct):
    """The markers of one transaction; a true `transaction_result` is a commit.

    Version 2 adds the transactions version (KIP-1228).
    """

    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: list[WritableTransactionMarkerTopic] = array(WritableTransactionMarkerTopic, "0+")
    coordinator_epoch: int = int32("0+")
    transaction_version: int = int8("2+", ignorable=True)


class WriteTransactionMarkersRequest(Message, api_key=27, versions="0-2", flexible="1+"):
    markers: list[WritableTransactionMarker] = array(WritableTransactionMarker, "0+")


class WritableTransactionMarkerPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class WritableTransactionMarkerTopicResult(Struct):
    name: str = string("0+")
    partitions: list[WritableTransactionMarkerPartitionResult] = array(
        WritableTransactionMarkerPartitionResult, "0+"
    )


class WritableTransactionMarkerResult(Struct):
    producer_id: int = int64("0+")
    topics: list[WritableTransactionMarkerTopicResult] = array(
        WritableTransactionMarkerTopicResult, "0+"
    )


class WriteTransactionMarkersResponse(Message, api_key=27, versions="0-2", flexible="1+"):
    markers: list[WritableTransactionMarkerResult] = array(WritableTransactionMarkerResult, "0+")
