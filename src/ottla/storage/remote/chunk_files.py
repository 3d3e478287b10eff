"""Blocks of logs in the tier that were read last, as files on the local disk.

Format page: docs/format/remote-chunk-cache.md. A crash can leave files of which only a part is on
the disk: each has a checksum, and one that does not match is fetched again. So losing the folder,
or any file in it, costs requests to the store only. Kafka has none; its counterpart is
`DiskChunkCache` of Aiven's plug-in, which empties its folder at a start.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer, FileSystem
from ottla.base.ids import Uuid, uuid_text
from ottla.base.patterns import lazy_pattern
from ottla.codec.crc32c import crc32c, extended_crc32c
from ottla.storage.remote.cache_folder import CacheFolder, FolderContents, Limits

HEADER: Final = Struct(
    ">4s"  # magic
    "I"  # CRC-32C of what follows it: the id of the upload, the block's number, and its bytes
    "16s"  # id of the upload
    "q"  # number of the block
)
assert HEADER.size == 32
MAGIC: Final = b"OTC1"
CHECKED: Final = Struct(">16sq")

CONTENTS: Final = FolderContents(
    name=lazy_pattern(r"[a-zA-Z0-9_-]{22}\.[0-9]{1,10}\.chunk"),
    left=lazy_pattern(r"[a-zA-Z0-9_-]{22}\.[0-9]{1,10}\.chunk\.[0-9]+\.tmp"),
    noun="chunks",
)


class ChunkFiles:
    """For the threads of one broker; `now_ms` is the monotonic clock."""

    def __init__(
        self,
        file_system: FileSystem,
        folder: str,
        limits: Callable[[], Limits],
        now_ms: Callable[[], float],
    ) -> None:
        self._folder = CacheFolder(file_system, folder, CONTENTS, limits)
        self._now_ms = now_ms

    def run(self, segment: Uuid, first: int, last: int) -> list[Buffer]:
        """The blocks from `first` up to the first that is not there, or to `last`."""
        self._folder.now_ms = self._now_ms()
        found: list[Buffer] = []
        for number in range(first, last + 1):
            check = partial(_check, segment, number)
            content = self._folder.read(file_name(segment, number), check)
            if content is None:
                break
            found.append(memoryview(content)[HEADER.size :])
        return found

    def put(self, segment: Uuid, number: int, block: Buffer) -> None:
        self._folder.now_ms = self._now_ms()
        head = HEADER.pack(MAGIC, _checksum(segment, number, block), segment, number)
        self._folder.write(file_name(segment, number), [head, block])

    def forget(self, segment: Uuid) -> None:
        """Removes all blocks of a segment: they are damaged, or it was deleted."""
        self._folder.remove_all(uuid_text(segment) + ".")


def file_name(segment: Uuid, number: int) -> str:
    return f"{uuid_text(segment)}.{number}.chunk"


def _checksum(segment: Uuid, number: int, block: Buffer) -> int:
    return extended_crc32c(block, crc32c(CHECKED.pack(segment, number)))


def _check(segment: Uuid, number: int, content: bytes, path: str) -> None:
    if len(content) < HEADER.size:
        raise CorruptionError(path, 0, "is cut off")
    magic, checksum, known, its = HEADER.unpack_from(content)
    if magic != MAGIC:
        raise CorruptionError(path, 0, "is no chunk")
    if (known, its) != (segment, number):
        raise CorruptionError(path, 8, "is another chunk")
    if checksum != _checksum(segment, number, memoryview(content)[HEADER.size :]):
        raise CorruptionError(path, 4, "does not match its checksum")
