"""Records that a leader is to append: they wait a moment for others to share their batch.

Kafka's counterpart: `BatchAccumulator`.
"""

from collections.abc import Iterator, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.record.builder import RecordBatchBuilder

RECORD_OVERHEAD = 21


class Accumulator:
    """Values of one `add` are in one batch, which readers apply as a whole."""

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self._groups: list[list[bytes]] = []
        self.count = 0
        self.since_ms: float | None = None
        """When the first of them came."""

    def add(self, values: Sequence[bytes], now_ms: float) -> None:
        """Raises `ApiError` (MESSAGE_TOO_LARGE) if they cannot share a batch."""
        size = _size(values)
        if size > self._max_batch_size:
            reason = f"{size} bytes of records do not fit into a batch of {self._max_batch_size}"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, reason)
        if self._groups and _size(self._groups[-1]) + size <= self._max_batch_size:
            self._groups[-1] += values
        else:
            self._groups.append(list(values))
        self.count += len(values)
        if self.since_ms is None:
            self.since_ms = now_ms

    @property
    def is_full(self) -> bool:
        return len(self._groups) > 1

    def drain(self, base_offset: int, epoch: int, timestamp_ms: int) -> Iterator[bytes]:
        """The batches, from an offset on; nothing waits any more."""
        groups, self._groups = self._groups, []
        self.count, self.since_ms = 0, None
        for values in groups:
            builder = RecordBatchBuilder(base_offset, leader_epoch=epoch)
            for value in values:
                builder.append(None, value, timestamp_ms)
            base_offset += len(values)
            yield builder.build()

    def clear(self) -> None:
        self._groups = []
        self.count, self.since_ms = 0, None


def _size(values: Sequence[bytes]) -> int:
    return sum(len(one) + RECORD_OVERHEAD for one in values)
