"""The send queue of one connection: bytes from memory and file slices, in order.

Small slices are read and sent with their head, larger ones go from the page cache to the socket by
`sendfile`; the threshold was measured.
"""

from collections import deque
from errno import EIO
from typing import Final, Protocol

from ottla.base.errors import OttlaError
from ottla.base.files import Buffer, FileSlice
from ottla.base.memory_files import MemoryFile

INLINE_SIZE: Final = 32 * 1024
"""File slices up to this size are copied through memory instead of sent by `sendfile`."""


class Sink(Protocol):
    """A socket as the send queue sees it. Both calls raise `BlockingIOError` when it is full."""

    def send(self, data: memoryview) -> int:
        """Sends some of the bytes; returns how many."""

    def send_file(self, slice_: FileSlice) -> int:
        """Sends some of the slice, from its start; returns how many bytes."""


class UnreadableFileError(OttlaError):
    """What a response refers to cannot be read, so that the connection cannot continue: the file at
    `path` is shorter or, with a `cause`, its disk broken.
    """

    def __init__(self, path: str, position: int, cause: OSError | None = None) -> None:
        super().__init__(f"{path} ends at {position}" if cause is None else f"{path}: {cause}")
        self.path = path
        self.cause = cause


def _check_disk(slice_: FileSlice, error: OSError) -> None:
    """Tells a broken disk from a broken connection, where both may be the cause of an error."""
    if error.errno == EIO:
        raise UnreadableFileError(slice_.file.path, slice_.position, error) from error


class SendQueue:
    """A queue of bytes and file slices; `size` is what it holds in memory."""

    __slots__ = ("_chunks", "_inline_size", "_sent", "size")

    def __init__(self, inline_size: int = INLINE_SIZE) -> None:
        self._inline_size = inline_size
        self._chunks: deque[bytearray | memoryview | FileSlice] = deque()
        self._sent = 0  # of the first chunk, when that is bytes
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, data: bytearray, slices: list[tuple[int, FileSlice]]) -> None:
        """Queues a response: its bytes, with each slice inserted before its `position`."""
        if not slices:
            self._add_bytes(data)
            return
        view = memoryview(data)
        start = 0
        for position, slice_ in slices:
            self._add_bytes(view[start:position])
            start = position
            file = slice_.file
            if isinstance(file, MemoryFile) and slice_.size > INLINE_SIZE:
                # From a remote tier: as large as a fetch may be, and never copied here.
                self.size += slice_.size
                self._chunks.append(file.view[slice_.position : slice_.position + slice_.size])
            elif slice_.size <= self._inline_size:
                self._add_bytes(_read_whole(slice_))
            else:
                self._chunks.append(slice_)
        self._add_bytes(view[start:])

    def _add_bytes(self, data: Buffer) -> None:
        if not len(data):
            return
        self.size += len(data)
        last = self._chunks[-1] if self._chunks else None
        if isinstance(last, bytearray):
            last += data  # responses to pipelined requests are sent together
        else:
            self._chunks.append(data if isinstance(data, bytearray) else bytearray(data))

    def send(self, sink: Sink) -> bool:
        """Sends until the queue is empty (`True`) or the sink is full (`False`)."""
        chunks = self._chunks
        try:
            while chunks:
                chunk = chunks[0]
                if isinstance(chunk, FileSlice):
                    self._send_slice(sink, chunk)
                else:
                    self._send_bytes(sink, chunk)
        except BlockingIOError:
            return False
        return True

    def _send_bytes(self, sink: Sink, chunk: bytearray | memoryview) -> None:
        with memoryview(chunk) as whole, whole[self._sent :] as view:
            sent = sink.send(view)
        self.size -= sent
        self._sent += sent
        if self._sent == len(chunk):
            self._chunks.popleft()
            self._sent = 0

    def _send_slice(self, sink: Sink, chunk: FileSlice) -> None:
        try:
            sent = sink.send_file(chunk)
        except OSError as error:
            _check_disk(chunk, error)
            raise
        if sent == 0:
            raise UnreadableFileError(chunk.file.path, chunk.position)
        if sent == chunk.size:
            self._chunks.popleft()
        else:
            self._chunks[0] = FileSlice(chunk.file, chunk.position + sent, chunk.size - sent)

    def clear(self) -> None:
        """Clears the queue: the connection is gone."""
        self._chunks.clear()
        self._sent = self.size = 0


def _read_whole(slice_: FileSlice) -> bytes:
    try:
        data = slice_.read()
    except OSError as error:
        _check_disk(slice_, error)
        raise
    if len(data) != slice_.size:
        raise UnreadableFileError(slice_.file.path, slice_.position + len(data))
    return data
