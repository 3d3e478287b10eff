"""Splits a stream of bytes into frames: four bytes of size, then that many bytes.

Without I/O, and made for `recv_into`: the socket writes into `writable()`, and `received(count)`
yields the completed frames as views of the same buffer. Bytes are copied only if a frame would
exceed the end of the buffer. Format: docs/format/wire.md; Kafka's counterpart: `NetworkReceive`.
"""

from collections import deque
from collections.abc import Iterator
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct
from typing import Final

from ottla.base.errors import ProtocolError
from ottla.protocol.foreign import foreign_protocol

FRAME_SIZE = Struct(">i")
assert FRAME_SIZE.size == 4

DEFAULT_CAPACITY: Final = 256 * 1024
MIN_SPACE: Final = 16 * 1024
"""Space at the end of the buffer below which a system call is not worth it."""

MAX_SPACE: Final = 1024 * 1024
"""The maximum bytes per receive: fresh pages cost up to 12 us each while other clients wait."""

KEPT_CAPACITY: Final = 4 * 1024 * 1024
"""A larger buffer is freed as soon as it is empty."""

FREED_AT_ONCE: Final = 4 * 1024 * 1024
"""How much of a discarded buffer is freed in one step: 0.1 ms for each MiB, while others wait."""

CALM: Final = 64
"""How many times in a row a grown buffer must be little used before it is freed."""


class FrameReader:
    """The incoming bytes of a connection. A frame is valid until the next call of `writable`.

    `writable` has at least `least_space` bytes, because TLS returns whole records of up to 16 KiB.
    """

    __slots__ = (
        "_buffer",
        "_calm",
        "_capacity",
        "_end",
        "_grown",
        "_least_space",
        "_max_size",
        "_start",
        "_used",
        "discarded",
    )

    def __init__(
        self, max_size: int, *, capacity: int = DEFAULT_CAPACITY, least_space: int = 0
    ) -> None:
        assert capacity >= max(FRAME_SIZE.size, 2 * least_space)
        self._least_space = least_space
        self._max_size = max_size
        self._capacity = capacity
        self._buffer = _new_buffer(capacity)
        self._grown: mmap | None = None
        """The mapping of a grown buffer."""
        self.discarded: deque[mmap] | None = None
        """Takes large buffers that are not needed any more, to be freed in parts (`free_part`)."""
        self._start = 0
        """The position after the last frame returned."""
        self._end = 0
        """The position after the last byte received."""
        self._used = 0
        """The highest `_end` since the buffer was last empty."""
        self._calm = 0

    @property
    def capacity(self) -> int:
        return len(self._buffer)

    @property
    def pending_size(self) -> int:
        """The bytes received of an incomplete frame."""
        return self._end - self._start

    @property
    def is_empty(self) -> bool:
        """Whether no bytes of an incomplete frame have been received."""
        return self._start == self._end

    @property
    def excess(self) -> int:
        """How many bytes the buffer is larger than that of an idle connection."""
        return max(len(self._buffer) - self._capacity, 0)

    def limit(self, max_size: int, capacity: int) -> None:
        """Changes the maximum size of frames and the size of the buffer."""
        assert capacity >= max(FRAME_SIZE.size, 2 * self._least_space)
        self._max_size = max_size
        self._capacity = capacity
        if self._start == self._end:
            self._renew()

    def growth(self) -> int:
        """By how many bytes the next `writable` will grow the buffer; usually 0."""
        pending = self._end - self._start
        if pending * 2 <= len(self._buffer) or len(self._buffer) - self._end >= self._wanted():
            return 0
        return self._grown_capacity() - len(self._buffer)

    def give_back(self) -> None:
        """Replaces a large buffer by a small one if it is empty."""
        if self._start == self._end and len(self._buffer) > self._capacity:
            self._renew()

    def close(self) -> None:
        """Nothing more is received; returned frames keep their buffer."""
        self._buffer = memoryview(b"")
        self._discard()

    def writable(self) -> memoryview:
        """Where to receive the next bytes; never empty. Invalidates frames returned before."""
        if self._start == self._end:
            self._empty()
        elif len(self._buffer) - self._end < self._wanted():
            self._make_room()
        return self._buffer[self._end : self._end + MAX_SPACE]

    def received(self, count: int) -> Iterator[memoryview]:
        """Records `count` bytes in `writable()` and yields the completed frames.

        Frames before an invalid one are yielded first. Raises `ProtocolError` for a negative size
        or one over the limit; the connection must then be closed.
        """
        self._end += count
        self._used = max(self._used, self._end)
        assert self._end <= len(self._buffer)
        while self._end - self._start >= FRAME_SIZE.size:
            begin = self._start + FRAME_SIZE.size
            size = self._next_size()
            if self._end - begin < size:
                return
            self._start = begin + size
            yield self._buffer[begin : begin + size]

    def _next_size(self) -> int:
        size: int = FRAME_SIZE.unpack_from(self._buffer, self._start)[0]
        if size < 0 or size > self._max_size:
            first = bytes(self._buffer[self._start : self._start + FRAME_SIZE.size])
            raise foreign_protocol(first) or ProtocolError(
                f"a frame must have 0 to {self._max_size} bytes, not {size}"
            )
        return size

    def _wanted(self) -> int:
        """The space for the next receive: the rest of the frame, within limits."""
        pending = self.pending_size
        if pending < FRAME_SIZE.size:
            return max(FRAME_SIZE.size - pending, self._least_space)
        missing = FRAME_SIZE.size + self._next_size() - pending
        return max(min(missing, MIN_SPACE, self._capacity), self._least_space)

    def _empty(self) -> None:
        """Starts again at the front, and frees a buffer that was grown for a large frame."""
        self._start = self._end = 0
        if len(self._buffer) > self._capacity and self._used:
            self._calm = self._calm + 1 if self._used <= self._capacity else 0
            if self._calm >= CALM or len(self._buffer) > KEPT_CAPACITY:
                self._renew()
        elif len(self._buffer) < self._capacity:
            self._renew()
        self._used = 0

    def _make_room(self) -> None:
        """Moves the incomplete frame to the front; doubles a buffer that is more than half full.

        Growth follows the bytes received, so that a size alone, which costs a peer four bytes,
        reserves nothing. Allocates a new buffer instead of resizing the old one, of which views may
        exist.
        """
        pending = self.pending_size
        if pending * 2 > len(self._buffer):
            self._grow(self._grown_capacity())
        else:
            self._buffer[:pending] = self._buffer[self._start : self._end]
        self._start = 0
        self._end = self._used = pending

    def _grow(self, capacity: int) -> None:
        """Grows the buffer, with the incomplete frame at its front.

        A buffer that has grown before is extended in place, because copying 8 MB takes 30 ms; but
        not while views of returned frames exist.
        """
        pending = self.pending_size
        if self._grown is not None and self._start == 0:
            self._buffer.release()
            is_longer = _lengthen(self._grown, capacity)
            self._buffer = memoryview(self._grown)
            if is_longer:
                return
        grown = _new_grown(capacity)
        target = memoryview(grown)
        target[:pending] = self._buffer[self._start : self._end]
        self._buffer = target
        self._discard()
        self._grown = grown

    def _renew(self) -> None:
        """Allocates an empty buffer; returned frames keep the old one."""
        self._buffer = _new_buffer(self._capacity)
        self._discard()
        self._start = self._end = self._used = self._calm = 0

    def _discard(self) -> None:
        grown, self._grown = self._grown, None
        if grown is not None and self.discarded is not None and len(grown) > FREED_AT_ONCE:
            self.discarded.append(grown)

    def _grown_capacity(self) -> int:
        full = FRAME_SIZE.size + self._next_size() + self._least_space
        return min(max(full, self._capacity), 2 * len(self._buffer))


def free_part(discarded: deque[mmap]) -> bool:
    """Frees a part of the buffers that are not needed any more; returns whether to go on soon: not
    while frames of the next one are still used.
    """
    if not discarded:
        return False
    oldest = discarded.popleft()
    left = len(oldest) - FREED_AT_ONCE
    if left <= 0:
        return bool(discarded)
    try:
        oldest.resize(left)
    except BufferError:
        discarded.append(oldest)
        return False
    except (OSError, SystemError):  # the system cannot: all of it goes at once
        return bool(discarded)
    discarded.appendleft(oldest)
    return True


def _new_buffer(size: int) -> memoryview:
    """The buffer of an idle connection: an anonymous mapping, whose untouched pages use no memory.

    A `bytearray` is filled with zeros: a thousand idle connections would use 256 MB. A shared
    mapping, even if only this process uses it, is not merged into huge pages by the system.
    """
    return memoryview(mmap(-1, size))


def _new_grown(size: int) -> mmap:
    try:
        return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError from error


def _lengthen(grown: mmap, size: int) -> bool:
    """Extends the mapping in place (`mremap`); `False` if views exist or the system cannot."""
    try:
        grown.resize(size)
    except (BufferError, OSError, SystemError):
        return False
    return True
