"""Records that a leader is to append: they wait a moment for others to share their batch.

Kafka's counterpart: `BatchAccumulator`.
"""

from collections.abc import Iterator, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.record.builder import PackedRecords

RECORD_OVERHEAD = 21


Group = list[bytes] | PackedRecords


class Accumulator:
    """Values of one `add` are in one batch, which readers apply as a whole."""

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self._groups: list[Group] = []
        self.count = 0
        self.since_ms: float | None = None
        """When the first of them came."""

    def add(self, values: Sequence[bytes] | PackedRecords, now_ms: float) -> None:
        """Raises `ApiError` (MESSAGE_TOO_LARGE) if they cannot share a batch. What is packed is a
        batch of its own.
        """
        size = _size(values)
        if size > self._max_batch_size:
            reason = f"{size} bytes of records do not fit into a batch of {self._max_batch_size}"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, reason)
        if isinstance(values, PackedRecords):
            self._groups.append(values)
        else:
            self._add_values(values, size)
        self.count += len(values)
        if self.since_ms is None:
            self.since_ms = now_ms

    def _add_values(self, values: Sequence[bytes], size: int) -> None:
        last = self._groups[-1] if self._groups else None
        if isinstance(last, list) and _size(last) + size <= self._max_batch_size:
            last += values
        else:
            self._groups.append(list(values))

    @property
    def is_full(self) -> bool:
        return len(self._groups) > 1

    def drain(self, base_offset: int, epoch: int, timestamp_ms: int) -> Iterator[bytes]:
        """The batches, from an offset on; nothing waits any more."""
        groups, self._groups = self._groups, []
        self.count, self.since_ms = 0, None
        for group in groups:
            packed = group if isinstance(group, PackedRecords) else _packed(group)
            yield packed.batch(base_offset, leader_epoch=epoch, timestamp_ms=timestamp_ms)
            base_offset += len(packed)

    def clear(self) -> None:
        self._groups = []
        self.count, self.since_ms = 0, None


def _packed(values: list[bytes]) -> PackedRecords:
    packed = PackedRecords()
    for value in values:
        packed.append(value)
    return packed


def _size(values: Sequence[bytes] | PackedRecords) -> int:
    if isinstance(values, PackedRecords):
        return values.size
    return sum(len(one) + RECORD_OVERHEAD for one in values)
