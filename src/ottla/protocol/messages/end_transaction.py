"""EndTxn (26): commits or aborts a transaction."""

from ottla.codec.fields import boolean, int16, int32, int64, string
from ottla.codec.schema import Message


class EndTransactionRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTransactionResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    """From version 5 on the producer continues with the returned id and epoch (KIP-890)."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
