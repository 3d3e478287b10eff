"""The records of `__share_group_state`: what became of a partition's records in a share group.

Format page: docs/format/share-group-state.md. The two bytes before a key are the kind of the
record, those before a value its version. A snapshot has the whole state, an update what has changed
since; a snapshot with a null value deletes the state.

Kafka's counterparts: `ShareCoordinatorRecordHelpers`, `ShareCoordinatorRecordSerde`.
"""

from typing import Final

from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.codec.fields import array, int8, int16, int32, int64, string, uuid
from ottla.codec.schema import Message, Struct
from ottla.codec.versioned import decode_versioned, encode_versioned, version_of

WRITTEN_VERSION: Final = 0


class ShareSnapshotKey(Message, versions="0"):
    group_id: str = string("0")
    topic_id: Uuid = uuid("0")
    partition: int = int32("0")


class ShareUpdateKey(Message, versions="1"):
    group_id: str = string("1")
    topic_id: Uuid = uuid("1")
    partition: int = int32("1")


class WrittenBatch(Struct):
    """Offsets in one state: 0 available, 2 acknowledged, 3 archiving, 4 archived."""

    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")


class ShareSnapshotValue(Message, versions="0", flexible="0+"):
    """The whole state of a partition; `delivery_complete_count` is the number of final records
    after the start, -1 if it is not known.
    """

    snapshot_epoch: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    create_timestamp_ms: int = int64("0+")
    write_timestamp_ms: int = int64("0+")
    state_batches: list[WrittenBatch] = array(WrittenBatch, "0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0)


class ShareUpdateValue(Message, versions="0", flexible="0+"):
    """What has changed since the snapshot with the epoch; a start offset of -1 is unchanged."""

    snapshot_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    state_batches: list[WrittenBatch] = array(WrittenBatch, "0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0)


VALUE_CLASSES: Final[dict[type[Message], type[Message]]] = {
    ShareSnapshotKey: ShareSnapshotValue,
    ShareUpdateKey: ShareUpdateValue,
}
KEY_CLASSES: Final[dict[int, type[Message]]] = {key.VERSIONS.last: key for key in VALUE_CLASSES}


def encode_key(key: Message) -> bytes:
    return encode_versioned(key, key.VERSIONS.last)


def decode_key(buffer: Buffer) -> Message | None:
    """Decodes a key; `None` for an unknown kind of record, which must be left alone.

    Raises `ProtocolError` if the bytes are not a key.
    """
    key_class = KEY_CLASSES.get(version_of(buffer))
    return None if key_class is None else decode_versioned(key_class, buffer)


def encode_value(value: Message) -> bytes:
    return encode_versioned(value, WRITTEN_VERSION)


def decode_value(key: Message, buffer: Buffer) -> Message:
    """Decodes the value of a key; raises `ProtocolError`."""
    return decode_versioned(VALUE_CLASSES[type(key)], buffer)
