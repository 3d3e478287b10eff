"""A record that is to be written, before it has an offset."""

from dataclasses import dataclass, replace

Headers = tuple[tuple[str, bytes | None], ...]

MAX_CSV_FIELD_SIZE = 2**31 - 1
"""Python's reader takes 128 KiB by default, and a record may be larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """Without a partition the key chooses one; without a timestamp it is the time of sending."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")

    def without_partition(self) -> "NewRecord":
        return self if self.partition is None else replace(self, partition=None)
