"""The records of `__transaction_state`: one key for each transactional id.

Format page: docs/format/transaction-state.md. The two bytes before key and value are their
versions. A null value deletes the transactional id. Kafka's counterpart: `TransactionLog`.
"""

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.codec.fields import array, int8, int16, int32, int64, string
from ottla.codec.schema import Message, Struct
from ottla.codec.versioned import decode_versioned, encode_versioned, version_of

WRITTEN_VERSION = 0
TAGGED_VERSION = 1
"""Version 1 is flexible. Kafka writes it if the feature `transaction.version` is at least 1. Ottla
writes it only if a value does not fit version 0, so that all Kafka versions can read the others.
"""

STATUSES = range(8)


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string("0")


class TransactionTopic(Struct):
    """Partitions of one topic that the transaction has written to."""

    topic: str = string("0+")
    partition_ids: list[int] = array(int32, "0+")


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """The state of a transactional id; partitions are null while no transaction is open.

    Statuses: 0 empty, 1 ongoing, 2 and 3 preparing to commit and to abort, 4 and 5 committed and
    aborted, 6 dead, 7 being fenced. The tagged fields are for transactions version 2 (KIP-890): the
    producer id before its epochs were exhausted, the producer id after the transaction, and the
    transactions version of the client.
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
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    client_transaction_version: int = int16("1+", default=0, tag=2)

    @property
    def written_version(self) -> int:
        """The oldest version that has all fields in use."""
        is_plain = self.previous_producer_id == self.next_producer_id == -1
        is_plain = is_plain and not self.client_transaction_version
        return WRITTEN_VERSION if is_plain else TAGGED_VERSION


def encode_key(key: TransactionLogKey) -> bytes:
    return encode_versioned(key, key.VERSIONS.last)


def decode_key(buffer: Buffer) -> TransactionLogKey | None:
    """Decodes a key; `None` for an unknown kind of record, which must be left alone.

    Raises `ProtocolError` if the bytes are not a key.
    """
    if version_of(buffer) not in TransactionLogKey.VERSIONS:
        return None
    return decode_versioned(TransactionLogKey, buffer)


def encode_value(value: TransactionLogValue, version: int | None = None) -> bytes:
    return encode_versioned(value, value.written_version if version is None else version)


def decode_value(buffer: Buffer) -> TransactionLogValue:
    """Decodes a value; raises `ProtocolError`."""
    value = decode_versioned(TransactionLogValue, buffer)
    if value.transaction_status not in STATUSES:
        raise ProtocolError(f"a transaction has no status {value.transaction_status}")
    return value
