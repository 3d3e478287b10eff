"""Which way a file leaves through TLS: through the kernel where that has the keys, else in slices.

The kernel that the tests run on may have no TLS; a socket that says it has the keys stands in for
one whose handshake OpenSSL has handed over.
"""

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.base.files import FileSlice, OsFileSystem
from ottla.server.network.send_queue import SendQueue, UnreadableFileError
from ottla.server.tls.transport import (
    SLICE_SIZE,
    KernelTlsTransport,
    TlsTransport,
    transport_of,
)

TLS_1_3_AES_128 = bytes.fromhex("04033300")
"""What Linux says of such keys: version and cipher of `struct tls_crypto_info`."""

CONTENT = os.urandom(3 * SLICE_SIZE + 100)


class Peer:
    """An `ssl.SSLSocket` after its handshake, over a pair of sockets: it marks what it encrypts."""

    def __init__(self, plain: socket.socket, kernel_info: bytes | None) -> None:
        self._plain = plain
        self._kernel_info = kernel_info
        self.encrypted = 0

    def getsockopt(self, level: int, name: int, size: int) -> bytes:
        assert (level, name, size) == (282, 1, 4), "SOL_TLS, TLS_TX, its first two fields"
        if self._kernel_info is None:
            raise OSError("Protocol not available")
        return self._kernel_info

    def fileno(self) -> int:
        return self._plain.fileno()

    def recv_into(self, space: memoryview) -> int:
        return self._plain.recv_into(space)

    def send(self, data: memoryview) -> int:
        try:
            sent = self._plain.send(data)
        except BlockingIOError:
            raise ssl.SSLWantWriteError from None
        self.encrypted += sent
        return sent


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield ours, theirs


@pytest.fixture
def slice_(tmp_path: Path) -> Iterator[FileSlice]:
    (tmp_path / "log").write_bytes(b"before" + CONTENT + b"after")
    file = OsFileSystem().open(str(tmp_path / "log"))
    yield FileSlice(file, len(b"before"), len(CONTENT))
    file.close()


def transport_over(plain: socket.socket, kernel_info: bytes | None) -> tuple[TlsTransport, Peer]:
    peer = Peer(plain, kernel_info)
    buffer = memoryview(bytearray(SLICE_SIZE))
    return transport_of(cast(ssl.SSLSocket, peer), buffer), peer


def sent_through(queue: SendQueue, transport: Any, theirs: socket.socket) -> bytes:
    """What arrives where nobody reads until the socket is full, and then again."""
    arrived = b""
    is_sent = False
    while not is_sent:
        is_sent = queue.send(transport)
        try:
            while part := theirs.recv(1 << 20):
                arrived += part
        except BlockingIOError:
            pass
    return arrived


@pytest.mark.parametrize(
    ("kernel_info", "kind"),
    [
        (None, TlsTransport),
        (b"", TlsTransport),
        (bytes(4), TlsTransport),
        (TLS_1_3_AES_128, KernelTlsTransport),
    ],
)
def test_the_kernel_is_used_where_it_says_that_it_has_this_sockets_keys(
    ends: tuple[socket.socket, socket.socket],
    kernel_info: bytes | None,
    kind: type[TlsTransport],
) -> None:
    transport, _ = transport_over(ends[0], kernel_info)
    assert type(transport) is kind


@pytest.mark.parametrize("kernel_info", [None, TLS_1_3_AES_128])
def test_a_file_arrives_whole_between_bytes_from_memory(
    ends: tuple[socket.socket, socket.socket], slice_: FileSlice, kernel_info: bytes | None
) -> None:
    ours, theirs = ends
    transport, peer = transport_over(ours, kernel_info)
    queue = SendQueue()
    queue.add(bytearray(b"headtail"), [(4, slice_)])
    assert sent_through(queue, transport, theirs) == b"head" + CONTENT + b"tail"
    from_memory = len(b"headtail")
    assert peer.encrypted == (from_memory if kernel_info else from_memory + len(CONTENT))


@pytest.mark.parametrize("kernel_info", [None, TLS_1_3_AES_128])
def test_a_file_that_has_become_shorter_ends_the_connection(
    ends: tuple[socket.socket, socket.socket], slice_: FileSlice, kernel_info: bytes | None
) -> None:
    ours, theirs = ends
    transport, _ = transport_over(ours, kernel_info)
    queue = SendQueue()
    queue.add(bytearray(b"headtail"), [(4, slice_)])
    os.truncate(slice_.file.path, len(b"before") + SLICE_SIZE)
    with pytest.raises(UnreadableFileError):
        sent_through(queue, transport, theirs)
