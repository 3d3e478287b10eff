"""A record to write, which has no offset yet."""

from dataclasses import replace

from ottla.base.values import dataclass

Headers = tuple[tuple[str, bytes | None], ...]

MAX_CSV_FIELD_SIZE = 2**31 - 1
"""Python's reader takes 128 KiB by default, and a record may be larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """Without a partition the key chooses one; without a timestamp the time of sending is used."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """Size of key and value in bytes."""
        return len(self.key or b"") + len(self.value or b"")

    def without_partition(self) -> "NewRecord":
        return self if self.partition is None else replace(self, partition=None)
