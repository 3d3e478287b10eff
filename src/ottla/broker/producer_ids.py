"""Producer ids, each used once: allocated from blocks that are durable before their ids are used.

Format page: docs/format/ottla-producer-ids.md. A crash wastes at most the rest of a block, and
never repeats an id. Kafka's counterpart: `ProducerIdManager` with `ProducerIdsBlock`.
"""

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.base.json_files import UnknownVersionError, check_version
from ottla.broker.waiting import Waiting
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.files.checksummed import with_checksum, without_checksum
from ottla.storage.files.written_marks import is_lost, mark_written

logger = logging.getLogger(__name__)

PRODUCER_ID_FILE_NAME = "ottla-producer-ids"
FORMAT_VERSION = 1
BLOCK_SIZE = 1000
MOST_LOST = 1 << 40
"""More ids than a lost file can have reserved: a million per second for twelve days."""


class ProducerIds:
    """`reserve(n)` durably records that all ids below `n` may be in use."""

    def __init__(self, next_id: int, reserve: Callable[[int], None]) -> None:
        self._next_id = next_id
        self._block_end = next_id
        self._reserve = reserve

    def reserve_below(self, end: int) -> None:
        """Durably records that the ids below `end` are in use."""
        if end:
            self._reserve(max(end, self._block_end))

    def allocate(self) -> int:
        """Returns an id that was never returned before, on this or an earlier start."""
        if self._next_id == self._block_end:
            block_end = self._block_end + BLOCK_SIZE
            self._reserve(block_end)
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


def reserve_producer_ids(file_system: FileSystem, directories: LogDirectories, end: int) -> None:
    """Makes a reservation durable in all directories that are online; raises `StorageError`."""
    directories.check_any_online()
    directories.write_in_each(lambda path: write_producer_ids(file_system, path, end))


def read_producer_ids(file_system: FileSystem, directory: str) -> int:
    """Returns the first id that was never reserved, 0 without a file; raises `CorruptionError`."""
    path = join(directory, PRODUCER_ID_FILE_NAME)
    if file_system.status(path) is None:
        return 0
    content = without_checksum(path, read_file(file_system, path))
    try:
        version, next_id = map(int, content.removesuffix(b"\n").split(b"\n"))
        check_version(version, FORMAT_VERSION)
    except UnknownVersionError as error:
        raise CorruptionError(path, 0, str(error)) from error
    except ValueError as error:
        raise CorruptionError(path, 0, "not a version and a producer id") from error
    if next_id < 0:
        raise CorruptionError(path, 0, f"id {next_id} cannot be")
    return next_id


def skipped_after_loss(file_system: FileSystem, directory: str) -> int:
    """Returns how many ids to skip after the highest known one: more than 0 if the file is lost.

    The logs do not contain all ids: a client may have an id with which it has written nothing yet.
    The first records of another client with this id would count as its duplicates.
    """
    if not is_lost(file_system, directory, PRODUCER_ID_FILE_NAME):
        return 0
    path = join(directory, PRODUCER_ID_FILE_NAME)
    logger.warning("%s is missing: %d producer ids are left out", path, MOST_LOST)
    return MOST_LOST


def write_producer_ids(file_system: FileSystem, directory: str, next_id: int) -> None:
    """Makes the reservation durable before it returns."""
    content = with_checksum(b"%d\n%d\n" % (FORMAT_VERSION, next_id))
    replace_file(file_system, join(directory, PRODUCER_ID_FILE_NAME), content)
    mark_written(file_system, directory, PRODUCER_ID_FILE_NAME)
