"""AddPartitionsToTxn (24): adds partitions to a transaction before the producer writes to them.

Clients send versions 0 to 3, for one transaction. Versions 4 and above are for several transactions
and are sent by brokers, which use `verify_only` to check that a produce request belongs to an open
transaction (KIP-890).
"""

from ottla.codec.fields import array, boolean, int16, int32, int64, string
from ottla.codec.schema import Message, Struct


class AddPartitionsTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class AddPartitionsTransaction(Struct):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsTopic] = array(AddPartitionsTopic, "4+")


class AddPartitionsToTransactionRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsTransaction] = array(AddPartitionsTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsTopic] = array(AddPartitionsTopic, "0-3")


class AddPartitionsPartitionResult(Struct):
    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


class AddPartitionsTopicResult(Struct):
    name: str = string("0+")
    results_by_partition: list[AddPartitionsPartitionResult] = array(
        AddPartitionsPartitionResult, "0+"
    )


class AddPartitionsResult(Struct):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsTopicResult] = array(AddPartitionsTopicResult, "4+")


class AddPartitionsToTransactionResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsResult] = array(AddPartitionsResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsTopicResult] = array(
        AddPartitionsTopicResult, "0-3"
    )
