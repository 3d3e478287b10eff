"""Producer ids, each used once: allocated from blocks that are durable before their ids are used.

A block is a ProducerIds record of the metadata log. A crash wastes at most the rest of a block, and
never repeats an id. Kafka's counterpart: `ProducerIdManager` with `ProducerIdsBlock`.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.broker.waiting.rooms import Waiting

BLOCK_SIZE = 1000
MOST_LOST = 1 << 40
"""More ids than the lost part of a metadata log can have reserved: a million per second for twelve
days.
"""


class ProducerIdSource(Protocol):
    def reserve_below(self, end: int) -> None:
        """Durably records that the ids below `end` are in use; raises `StorageError`."""

    def allocate(self) -> int:
        """Returns an id that no producer has had; raises `ApiError`."""


class ProducerIds:
    """`reserve(n)` durably records that all ids below `n` may be in use."""

    def __init__(self, next_id: int, reserve: Callable[[int], None]) -> None:
        self._next_id = next_id
        self._block_end = next_id
        self._reserve = reserve

    def reserve_below(self, end: int) -> None:
        """The next start skips the ids below `end`; raises `StorageError`."""
        if end:
            self._reserve(max(end, self._block_end))

    def allocate(self) -> int:
        """Returns an id that was never returned before, on this or an earlier start; raises
        `ApiError`.
        """
        if self._next_id == self._block_end:
            block_end = self._block_end + BLOCK_SIZE
            try:
                self._reserve(block_end)
            except StorageError as error:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
            self._block_end = block_end
        producer_id = self._next_id
        self._next_id += 1
        return producer_id


class Block(Protocol):
    """A block of the cluster's ids that belongs to this broker; `end` is the last id."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


BlockT = TypeVar("BlockT", bound=Block)


class ClusterProducerIds(Generic[BlockT]):
    """Ids from blocks that the controller allocates, each to one broker (KIP-730).

    The next block is requested when nine tenths of a block are used. Kafka's counterpart:
    `RPCProducerIdManager`.
    """

    def __init__(self, ask: Callable[[], Waiting[BlockT]]) -> None:
        self._ask = ask
        self._asked: Waiting[BlockT] | None = None
        self._next_id = 0
        self._end = -1
        self._early_id = 0

    def reserve_below(self, end: int) -> None:
        """Does nothing: the cluster's controller knows which ids are in use."""

    def allocate(self) -> int:
        """Returns an id; raises a retriable `ApiError` until the next block has arrived."""
        if self._next_id > self._end:
            self._take_block()
        if self._next_id >= self._early_id and self._asked is None:
            self._asked = self._ask()
        if self._next_id > self._end:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        producer_id = self._next_id
        self._next_id += 1
        return producer_id

    def _take_block(self) -> None:
        block = None if self._asked is None else self._asked.result
        if block is not None:
            self._asked = None
            self._next_id, self._end = block.start, block.end
            self._early_id = block.start + (block.end - block.start) * 9 // 10
