"""ListTransactions (66): the transactions that this broker coordinates (KIP-664)."""

from ottla.codec.fields import array, int16, int32, int64, string
from ottla.codec.schema import Message, Struct


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """Empty filters match all.

    Version 1 adds a minimum duration (KIP-994), version 2 a pattern for the transactional id
    (KIP-1152).
    """

    state_filters: list[str] = array(string, "0+")
    producer_id_filters: list[int] = array(int64, "0+")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", default=None, nullable="2+")


class TransactionState(Struct):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array(string, "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")
