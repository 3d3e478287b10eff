"""InitProducerId (22): allocates a producer id; raises the epoch of a transactional producer."""

from ottla.codec.fields import boolean, int16, int32, int64, string
from ottla.codec.schema import Message


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    """Without a transactional id the producer is only idempotent.

    Version 3 lets a producer keep its id after an error (KIP-360); version 6 adds two-phase commit
    (KIP-939).
    """

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable_2pc: bool = boolean("6+")
    keep_prepared_transaction: bool = boolean("6+")


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    """The ongoing transaction is set if `keep_prepared_transaction` requested it."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_transaction_producer_id: int = int64("6+", default=-1)
    ongoing_transaction_producer_epoch: int = int16("6+", default=-1)
