"""Sockets in TLS whose peers go in the wrong moment."""

import select
import socket
import ssl
import struct

import pytest

from ottla.base.tls import in_tls


def test_a_socket_that_its_peer_has_reset_stays_with_who_can_close_it() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname())
        plain, _ = listener.accept()
        with plain:
            at_once = struct.pack("ii", 1, 0)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            peer.close()
            select.select([plain], [], [])
            with pytest.raises(ConnectionResetError):
                in_tls(context, plain, is_server=True)
            assert plain.fileno() != -1
