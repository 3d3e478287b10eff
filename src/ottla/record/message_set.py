"""Writes a message set of format v0 or v1 from records.

Format page: docs/format/message-set.md. Kafka's counterpart: `MemoryRecordsBuilder`, which writes
the old formats too.
"""

from dataclasses import KW_ONLY, field

from ottla.base.values import dataclass
from ottla.codec.compression import Compression
from ottla.record.batch import LOG_APPEND_TIME_BIT, NO_TIMESTAMP
from ottla.record.legacy import build_message, pack_messages


@dataclass(slots=True)
class MessageSetBuilder:
    """Collects messages; `build` joins them, or puts them into one wrapper.

    `base_offset` is the offset of the first message: in a v1 wrapper offsets are relative to it,
    otherwise they are absolute. With `append_time_ms` all v1 messages have this LogAppendTime.
    """

    base_offset: int = 0
    _: KW_ONLY
    magic: int
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    append_time_ms: int | None = None
    record_count: int = field(default=0, init=False)
    _messages: list[bytes] = field(default_factory=list, init=False)
    _max_timestamp_ms: int = field(default=NO_TIMESTAMP, init=False)
    _next_offset: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        assert self.compression is not Compression.ZSTD, "the old formats have no zstd"
        self._next_offset = self.base_offset

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> int:
        """Adds a message at the next offset; returns that offset."""
        return self.append_at(self._next_offset, key, value, timestamp_ms)

    def append_at(
        self, offset: int, key: bytes | None, value: bytes | None, timestamp_ms: int
    ) -> int:
        """Adds a message at a given offset, which must be after the last one; returns it."""
        assert offset >= self._next_offset
        if self.append_time_ms is not None:
            timestamp_ms = self.append_time_ms
        message = build_message(
            key,
            value,
            magic=self.magic,
            offset=offset - (self.base_offset if self._is_relative else 0),
            timestamp_ms=timestamp_ms,
            attributes=self._time_attribute,
        )
        # An array of 100 MB would take milliseconds at once whenever it had to grow.
        self._messages.append(message)
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)
        self._next_offset = offset + 1
        self.record_count += 1
        return offset

    def build(self) -> bytes:
        """The message set; empty without messages."""
        messages = b"".join(self._messages)
        if self.compression is Compression.NONE or not self.record_count:
            return messages
        return build_message(
            None,
            pack_messages(messages, self.magic, self.compression, self.compression_level),
            magic=self.magic,
            offset=self._next_offset - 1,
            timestamp_ms=self._max_timestamp_ms,
            attributes=self.compression | self._time_attribute,
        )

    @property
    def _is_relative(self) -> bool:
        return self.magic > 0 and self.compression is not Compression.NONE

    @property
    def _time_attribute(self) -> int:
        return LOG_APPEND_TIME_BIT if self.magic and self.append_time_ms is not None else 0
