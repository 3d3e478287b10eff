"""The transport of a connection's bytes: a plain socket, or TLS (`server/tls/transport.py`).

It is chosen when the connection is accepted; nothing asks for it afterwards. Kafka's counterparts:
`TransportLayer`, `PlaintextTransportLayer`.
"""

import os
import socket
from typing import Final, Protocol

from ottla.base.files import Buffer, FileSlice

MAX_SEND_FILE_SIZE: Final = 1 << 30
"""Maximum size of one `sendfile` call: Linux sends at most 2 GiB at a time."""


class Transport(Protocol):
    """Calls that cannot go on raise `BlockingIOError`, and `OSError` when the connection is lost.

    `least_space`: the bytes that `recv_into` must be given room for, if any.
    """

    least_space: int

    @property
    def socket(self) -> socket.socket:
        """The socket for the selector."""

    def recv_into(self, space: memoryview, /) -> int:
        """Receives available bytes; returns their number, 0 when the peer has closed the
        connection.
        """

    def send(self, data: Buffer, /) -> int:
        """Sends some of the bytes; returns how many."""

    def send_file(self, slice_: FileSlice, /) -> int:
        """Sends some of the slice, from its start; returns how many bytes."""

    def has_hung_up(self) -> bool:
        """Checks without receiving anything."""

    def close(self) -> None: ...


class PlaintextTransport:
    """A plain socket."""

    __slots__ = ("_descriptor", "least_space", "recv_into", "send", "socket")

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self.least_space = 0
        self.recv_into = peer.recv_into
        self.send = peer.send
        self._descriptor = peer.fileno()

    def send_file(self, slice_: FileSlice) -> int:
        # A file that was closed meanwhile has descriptor -1: EBADF, and never another file.
        size = min(slice_.size, MAX_SEND_FILE_SIZE)
        return os.sendfile(self._descriptor, slice_.file.fileno(), slice_.position, size)

    def has_hung_up(self) -> bool:
        return self.socket.recv(1, socket.MSG_PEEK) == b""

    def close(self) -> None:
        self.socket.close()
