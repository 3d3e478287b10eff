"""Limits the memory of incoming requests, of all connections together.

A connection's own buffer is small, and grows with the bytes of a large request as they come: a
hundred connections with 100 MB each would still be more than the machine has. So growth must be
granted here, and a connection without a grant is not read from until there is room. One may always
continue, however large its request; otherwise all could wait for each other. Kafka's counterparts:
`queued.max.request.bytes`, `SimpleMemoryPool`.
"""

from collections import deque
from mmap import mmap

from ottla.protocol.framing import free_part
from ottla.server.network.connection import Connection

UNLIMITED = -1


class RequestMemory:
    """Counts the size of connections' buffers beyond their initial size."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Connection, int] = {}
        self._used = 0
        self._first: Connection | None = None
        """The connections that may continue in spite of the limit."""
        self.waiting: dict[Connection, None] = {}
        """The connections that are not read from, in order of waiting time."""
        self._discarded: deque[mmap] = deque()
        self.is_freeing = False
        """Whether more of what was discarded can be freed at once, after others had their turn."""

    @property
    def used(self) -> int:
        return self._used

    @property
    def has_work(self) -> bool:
        """Whether `next_waiting` is to be called in this round."""
        return bool(self.waiting or self._discarded)

    def admit(self, connection: Connection) -> bool:
        """Whether a connection's buffer may grow now; if not, it waits."""
        growth = connection.reader.growth()
        if self._limit != UNLIMITED and self._used + growth > self._limit:
            self.collect()
            is_over = self._used + growth > self._limit
            if is_over and self._first not in (None, connection):
                self.waiting[connection] = None
                return False
            if is_over:
                self._first = connection
        if growth:
            connection.reader.discarded = self._discarded
        self._note(connection, self._sizes.get(connection, 0) + growth)
        return True

    def next_waiting(self) -> Connection | None:
        """A connection that may be read from again, if there is room; frees a part of what was
        discarded.
        """
        if self._first is not None and self._first.reader.is_empty:
            self._first = None
        self.collect()
        connection = next(iter(self.waiting), None)
        if connection is None:
            return None
        if self._used + connection.reader.growth() > self._limit:
            if self._first is not None:
                return None
            self._first = connection
        del self.waiting[connection]
        return connection

    def collect(self) -> None:
        """Takes large buffers back from idle connections."""
        self.is_freeing = free_part(self._discarded)
        for connection in list(self._sizes):
            if connection.is_at_rest:
                connection.reader.give_back()
            self._note(connection, connection.reader.excess)

    def stalled(self, before_ms: float) -> list[Connection]:
        """The connections that keep others waiting with a request that stalled at a given time."""
        if not self.waiting:
            return []
        return [
            one
            for one in self._sizes
            if one.last_active_ms < before_ms
            and one not in self.waiting
            and one.frames is None
            and not one.reader.is_empty
        ]

    def forget(self, connection: Connection) -> None:
        """The connection is closed."""
        if connection in self._sizes:
            connection.reader.close()
        self._note(connection, 0)
        self.waiting.pop(connection, None)
        if self._first is connection:
            self._first = None

    def _note(self, connection: Connection, size: int) -> None:
        self._used += size - self._sizes.pop(connection, 0)
        if size > 0:
            self._sizes[connection] = size
