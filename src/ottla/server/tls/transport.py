"""A connection's bytes through TLS, on the non-blocking socket, which OpenSSL reads and writes.

If the kernel encrypts (kTLS), files go from the page cache to the socket as without TLS; otherwise
they are read and encrypted in slices. Kafka's counterpart: `SslTransportLayer`.
"""

import contextlib
import os
import socket
import ssl
from typing import Final

from ottla.base.files import Buffer, FileSlice
from ottla.server.network.transport import MAX_SEND_FILE_SIZE

RECORD_SIZE: Final = 16 * 1024
"""Maximum size of a TLS record."""

SLICE_SIZE: Final = 64 * 1024
"""Bytes of a file that are read at a time."""

TURN_SIZE: Final = 1 << 20
"""Bytes of files that are encrypted before other connections have their turn: 1 MiB takes 0.5
ms.
"""

SOL_TLS: Final = 282
TLS_TX: Final = 1
"""Linux's numbers (`linux/tls.h`), for which Python has no names."""

LATER = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsTransport:
    """After the handshake. What waits in OpenSSL is never decrypted: `select` would not see it.

    So `recv_into` takes a record only where all of it has room.
    """

    __slots__ = ("_buffer", "_left", "_receive", "_send", "least_space", "socket")

    def __init__(self, peer: ssl.SSLSocket, buffer: memoryview) -> None:
        """`buffer`, of `SLICE_SIZE`, may be shared by what is called from one thread."""
        self.socket: ssl.SSLSocket = peer
        self.least_space = RECORD_SIZE
        self._receive = peer.recv_into
        self._send = peer.send
        self._buffer = buffer
        self._left = TURN_SIZE

    def recv_into(self, space: memoryview, /) -> int:
        received = 0
        room = len(space)
        assert room >= RECORD_SIZE
        try:
            while room - received >= RECORD_SIZE:
                size = self._receive(space[received:])
                if size == 0:
                    break
                received += size
        except LATER:
            if not received:
                raise BlockingIOError from None
        return received

    def send(self, data: Buffer, /) -> int:
        sent = 0
        with memoryview(data) as whole:
            size = len(whole)
            try:
                while sent < size:
                    with whole[sent:] as rest:
                        sent += self._send(rest)
            except LATER:
                if not sent:
                    raise BlockingIOError from None
        return sent

    def send_file(self, slice_: FileSlice, /) -> int:
        # What OpenSSL could not write must be passed to it again, with the same bytes.
        if self._left <= 0:
            self._left = TURN_SIZE
            raise BlockingIOError
        with self._buffer[: min(slice_.size, SLICE_SIZE)] as wanted:
            size = os.preadv(slice_.file.fileno(), [wanted], slice_.position)
            if size == 0:
                return 0
            with wanted[:size] as view:
                sent = self.send(view)
        self._left -= sent
        return sent

    def has_hung_up(self) -> bool:
        return socket.socket.recv(self.socket, 1, socket.MSG_PEEK) == b""

    def close(self) -> None:
        # Announce the end first, since clients treat a silent end as an attack. Do not wait for a
        # response.
        with contextlib.suppress(OSError, ValueError):
            self.socket.unwrap()
        self.socket.close()


class KernelTlsTransport(TlsTransport):
    """The kernel encrypts what is written to the socket."""

    __slots__ = ()

    def send_file(self, slice_: FileSlice, /) -> int:
        size = min(slice_.size, MAX_SEND_FILE_SIZE)
        return os.sendfile(self.socket.fileno(), slice_.file.fileno(), slice_.position, size)


def transport_of(peer: ssl.SSLSocket, buffer: memoryview) -> TlsTransport:
    """The transport for a socket whose handshake is done."""
    kind = KernelTlsTransport if kernel_encrypts(peer) else TlsTransport
    return kind(peer, buffer)


def kernel_encrypts(peer: socket.socket) -> bool:
    """Whether the kernel has this socket's keys for sending.

    `OP_ENABLE_KTLS` does not show this, since OpenSSL continues without kTLS if the kernel does not
    support the cipher or version. The kernel reports both if it has the keys.
    """
    try:
        info = peer.getsockopt(SOL_TLS, TLS_TX, 4)
    except OSError:
        return False
    return len(info) == 4 and any(info)
