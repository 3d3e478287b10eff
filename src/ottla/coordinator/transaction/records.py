"""The records of `__transaction_state`: each transactional id with its producer and transaction.

The two bytes before key and value are their versions. A null value forgets the transactional id.
Kafka's counterpart: `TransactionLog`.
"""

from ottla.base.files import Buffer
from ottla.codec.fields import array, int8, int16, int32, int64, string
from ottla.codec.schema import Message, Struct
from ottla.codec.versioned import decode_versioned, encode_versioned, version_of

WRITTEN_VERSION = 0
"""Version 1 differs in being flexible only; Kafka writes it from transaction version 2 on."""


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string("0")


class TransactionTopic(Struct):
    """Partitions of one topic that the transaction has written to."""

    topic: str = string("0+")
    partition_ids: list[int] = array(int32, "0+")


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """The state of a transactional id; partitions are null while no transaction is open.

    Statuses: 0 empty, 1 ongoing, 2 and 3 preparing to commit and to abort, 4 and 5 committed and
    aborted, 6 dead, 7 being fenced.
    """

    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[TransactionTopic] | None = array(
        TransactionTopic, "0+", nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")


def encode_key(key: TransactionLogKey) -> bytes:
    return encode_versioned(key, key.VERSIONS.last)


def decode_key(buffer: Buffer) -> TransactionLogKey | None:
    """The key, or `None` for a kind of record that this code does not know: leave it alone.

    Raises `ProtocolError` when the bytes are no key.
    """
    if version_of(buffer) not in TransactionLogKey.VERSIONS:
        return None
    return decode_versioned(TransactionLogKey, buffer)


def encode_value(value: TransactionLogValue, version: int = WRITTEN_VERSION) -> bytes:
    return encode_versioned(value, version)


def decode_value(buffer: Buffer) -> TransactionLogValue:
    """Raises `ProtocolError`."""
    return decode_versioned(TransactionLogValue, buffer)
