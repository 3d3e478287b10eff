"""Message sets of formats v0 and v1 as old producers send them, the crooked ones included."""

from collections.abc import Sequence

from ottla.codec.compression import Compression
from ottla.record.batch import LOG_APPEND_TIME_BIT, NO_TIMESTAMP
from ottla.record.legacy import build_message, pack_messages


def build_wrapper(
    messages: Sequence[bytes],
    *,
    magic: int,
    compression: Compression,
    offset: int,
    timestamp_ms: int = NO_TIMESTAMP,
    is_append_time: bool = False,
) -> bytes:
    """One entry that holds whatever messages; `offset` is the wrapper's own."""
    return build_message(
        None,
        pack_messages(b"".join(messages), magic, compression),
        magic=magic,
        offset=offset,
        timestamp_ms=timestamp_ms,
        attributes=compression | (LOG_APPEND_TIME_BIT if is_append_time else 0),
    )
