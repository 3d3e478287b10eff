"""TxnOffsetCommit (28): commits offsets of a group with a transaction.

Version 3 adds the member, so that a consumer that lost its partitions cannot commit (KIP-447);
version 5 implicitly adds the offsets to the transaction (KIP-890).
"""

from ottla.codec.fields import array, int16, int32, int64, string
from ottla.codec.schema import Message, Struct


class TransactionOffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string("0+", nullable="0+")


class TransactionOffsetCommitRequestTopic(Struct):
    name: str = string("0+")
    partitions: list[TransactionOffsetCommitRequestPartition] = array(
        TransactionOffsetCommitRequestPartition, "0+"
    )


class TransactionOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    topics: list[TransactionOffsetCommitRequestTopic] = array(
        TransactionOffsetCommitRequestTopic, "0+"
    )


class TransactionOffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class TransactionOffsetCommitResponseTopic(Struct):
    name: str = string("0+")
    partitions: list[TransactionOffsetCommitResponsePartition] = array(
        TransactionOffsetCommitResponsePartition, "0+"
    )


class TransactionOffsetCommitResponse(Message, api_key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    topics: list[TransactionOffsetCommitResponseTopic] = array(
        TransactionOffsetCommitResponseTopic, "0+"
    )
