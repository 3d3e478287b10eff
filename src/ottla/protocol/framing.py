"""Cuts a stream of bytes into frames: four bytes of size, then that many bytes.

Sans I/O and made for `recv_into`: the socket writes into `writable()`, `received(count)` gives the
frames that became complete, as views of the same buffer. Nothing is copied unless a frame would run
over the buffer's end. Format: docs/format/wire.md; Kafka's counterpart: `NetworkReceive`.
"""

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
"""A smaller rest at the buffer's end is not worth a system call."""

MAX_SPACE: Final = 1024 * 1024
"""No more is taken in at a time: fresh pages cost up to 12 us each, and others wait meanwhile."""

KEPT_CAPACITY: Final = 4 * 1024 * 1024
"""A larger buffer is given back as soon as it is empty."""

CALM: Final = 64
"""How many times in a row a grown buffer must be emptied of little before it is given back."""


class FrameReader:
    """One connection's incoming bytes. A frame is valid until the next call of `writable`.

    `writable` gives room for `least_space` bytes: TLS hands out whole records of up to 16 KiB.
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
        """What a buffer lies in that was made larger."""
        self._start = 0
        """Where the first byte lies that belongs to no frame given out."""
        self._end = 0
        """After the last byte received."""
        self._used = 0
        """The highest `_end` since the buffer was last empty."""
        self._calm = 0

    @property
    def capacity(self) -> int:
        return len(self._buffer)

    @property
    def pending_size(self) -> int:
        """Bytes received of a frame that is not complete."""
        return self._end - self._start

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come of a frame that was not given out."""
        return self._start == self._end

    @property
    def excess(self) -> int:
        """By how many bytes the buffer is longer than that of a connection at rest."""
        return max(len(self._buffer) - self._capacity, 0)

    def limit(self, max_size: int, capacity: int) -> None:
        """Takes frames of another size at most from now on, into a buffer of another size."""
        assert capacity >= max(FRAME_SIZE.size, 2 * self._least_space)
        self._max_size = max_size
        self._capacity = capacity
        if self._start == self._end:
            self._renew()

    def growth(self) -> int:
        """By how many bytes the next `writable` will make the buffer longer; mostly 0."""
        pending = self._end - self._start
        if pending * 2 <= len(self._buffer) or len(self._buffer) - self._end >= self._wanted():
            return 0
        return self._grown_capacity() - len(self._buffer)

    def give_back(self) -> None:
        """Takes a small buffer again where nothing is in the large one."""
        if self._start == self._end and len(self._buffer) > self._capacity:
            self._renew()

    def writable(self) -> memoryview:
        """Where to receive the next bytes; never empty. Frames given out before become invalid."""
        if self._start == self._end:
            self._empty()
        elif len(self._buffer) - self._end < self._wanted():
            self._make_room()
        return self._buffer[self._end : self._end + MAX_SPACE]

    def received(self, count: int) -> Iterator[memoryview]:
        """Records `count` bytes in `writable()` and gives the complete frames.

        Frames before a broken one are given first. Raises `ProtocolError` for a size below zero or
        over the limit; the connection is then of no more use.
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
                f"a frame of {size} bytes, where at most {self._max_size} may be"
            )
        return size

    def _wanted(self) -> int:
        """How much room the next receive should find: the rest of the frame, within reason."""
        pending = self.pending_size
        if pending < FRAME_SIZE.size:
            return max(FRAME_SIZE.size - pending, self._least_space)
        missing = FRAME_SIZE.size + self._next_size() - pending
        return max(min(missing, MIN_SPACE, self._capacity), self._least_space)

    def _empty(self) -> None:
        """Starts over at the front, and gives a buffer back that was large for one big frame."""
        self._start = self._end = 0
        if len(self._buffer) > self._capacity and self._used:
            self._calm = self._calm + 1 if self._used <= self._capacity else 0
            if self._calm >= CALM or len(self._buffer) > KEPT_CAPACITY:
                self._renew()
        elif len(self._buffer) < self._capacity:
            self._renew()
        self._used = 0

    def _make_room(self) -> None:
        """Moves the incomplete frame to the front; doubles the buffer when it is full of it.

        Doubling follows the bytes that came, so that a size alone, which costs a peer four bytes,
        reserves nothing. A new buffer is taken rather than the old resized, since views of it may
        live.
        """
        pending = self.pending_size
        if pending * 2 > len(self._buffer):
            self._grow(self._grown_capacity())
        else:
            self._buffer[:pending] = self._buffer[self._start : self._end]
        self._start = 0
        self._end = self._used = pending

    def _grow(self, capacity: int) -> None:
        """Takes a longer buffer, with the incomplete frame at its front.

        One that has grown before is made longer where it is: to copy 8 MB takes 30 ms. Not while
        frames that were given out live.
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
        self._grown = grown

    def _renew(self) -> None:
        """Takes an empty buffer; frames that were given out keep theirs."""
        self._buffer = _new_buffer(self._capacity)
        self._grown = None
        self._start = self._end = self._used = self._calm = 0

    def _grown_capacity(self) -> int:
        full = FRAME_SIZE.size + self._next_size() + self._least_space
        return min(max(full, self._capacity), 2 * len(self._buffer))


def _new_buffer(size: int) -> memoryview:
    """The buffer of a connection from which little has come: real only where bytes lie.

    A `bytearray` is written full of zeros: a thousand silent connections would hold 256 MB. And
    what is shared, though with nobody, the system does not join to huge pages.
    """
    return memoryview(mmap(-1, size))


def _new_grown(size: int) -> mmap:
    try:
        return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError from error


def _lengthen(grown: mmap, size: int) -> bool:
    """Whether the system could (`mremap`): not while there are views, and not on every system."""
    try:
        grown.resize(size)
    except (BufferError, OSError, SystemError):
        return False
    return True
