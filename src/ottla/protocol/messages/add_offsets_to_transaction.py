"""AddOffsetsToTxn (25): a group's offsets will be committed with a transaction.

Adds the group's partition of the offsets topic to the transaction (KIP-98).
"""

from ottla.codec.fields import int16, int32, int64, string
from ottla.codec.schema import Message


class AddOffsetsToTransactionRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTransactionResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
