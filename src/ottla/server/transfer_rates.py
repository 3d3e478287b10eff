"""Peers that take their answers, or send their requests, more slowly than the broker waits for.

A connection in the middle of a request, or with answers that are not sent yet, holds memory,
descriptors and perhaps an old segment. Now and then the kernel is asked how much it has moved: no
request pays for that. Where the kernel does not say (it is Linux that does), nobody is too slow.
Kafka has no counterpart: there a peer that moves a byte in connections.max.idle.ms stays.
"""

import socket
import struct
from collections.abc import Iterable
from typing import Final

from ottla.server.connection import Connection

MOVED: Final = struct.Struct("=QQ")
"""Bytes that the peer has acknowledged, and bytes that have come from it."""

MOVED_AT: Final = 120
"""Where they are in `struct tcp_info` (linux/tcp.h)."""


class TransferRates:
    """Follows the connections that are in the middle of something, from one look to the next."""

    def __init__(self) -> None:
        self._marks: dict[Connection, tuple[float, int]] = {}
        """Since when a connection is waited for, and how much it had moved then."""

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._marks

    def too_slow(
        self, connections: Iterable[Connection], now_ms: float, rate: int, window_ms: float
    ) -> list[Connection]:
        """Those that moved fewer than `rate` bytes a second, for as long as `window_ms`."""
        marks: dict[Connection, tuple[float, int]] = {}
        found: list[Connection] = []
        for connection in connections:
            moved = moved_bytes(connection.socket) if connection.is_amid_transfer else None
            if moved is None:
                continue
            since_ms, before = marks[connection] = self._marks.get(connection, (now_ms, moved))
            waited_ms = now_ms - since_ms
            if waited_ms > 0 and (moved - before) * 1000 >= rate * waited_ms:
                marks[connection] = now_ms, moved
            elif waited_ms >= window_ms:
                found.append(connection)
        self._marks = marks
        return found


def moved_bytes(peer: socket.socket) -> int | None:
    """In both directions since the connection began; `None` where the kernel does not say."""
    try:
        info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, MOVED_AT + MOVED.size)
    except (OSError, AttributeError):
        return None
    if len(info) < MOVED_AT + MOVED.size:
        return None
    acknowledged, received = MOVED.unpack_from(info, MOVED_AT)
    return int(acknowledged + received)
