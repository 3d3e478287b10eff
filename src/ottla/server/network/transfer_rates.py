"""Finds peers that read responses, or send requests, more slowly than the configured minimum.

A connection in the middle of a request, or with unsent responses, holds memory, descriptors and
perhaps an old segment. Now and then the kernel is asked how many bytes it has moved, so that
requests do not pay for it. If the kernel does not report that (Linux does), no peer is too slow.
Kafka has no counterpart: there a peer that moves a byte within connections.max.idle.ms stays.
"""

import socket
import struct
from collections.abc import Iterable
from typing import Final

from ottla.server.network.connection import Connection

MOVED: Final = struct.Struct("=QQ")
"""Bytes that the peer has acknowledged, and bytes that have come from it."""

MOVED_AT: Final = 120
"""Their positions in `struct tcp_info` (linux/tcp.h)."""


class TransferRates:
    """Measures the connections that are transferring, from one check to the next."""

    def __init__(self) -> None:
        self._marks: dict[Connection, tuple[float, int]] = {}
        """The start of a connection's current transfer, and the bytes moved until then."""

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._marks

    def too_slow(
        self, connections: Iterable[Connection], now_ms: float, rate: int, window_ms: float
    ) -> list[Connection]:
        """Connections that moved fewer than `rate` bytes per second for `window_ms`."""
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
    """Bytes in both directions since the connection began; `None` if the kernel does not report
    them.
    """
    try:
        info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, MOVED_AT + MOVED.size)
    except (OSError, AttributeError):
        return None
    if len(info) < MOVED_AT + MOVED.size:
        return None
    acknowledged, received = MOVED.unpack_from(info, MOVED_AT)
    return int(acknowledged + received)
