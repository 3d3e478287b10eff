"""Wraps a socket in TLS."""

import errno
import os
import socket
import ssl


def in_tls(
    context: ssl.SSLContext,
    plain: socket.socket,
    *,
    server_hostname: str | None = None,
    is_server: bool = False,
) -> ssl.SSLSocket:
    """Takes over the socket; performs the handshake of a client, but not that of a server.

    Raises `OSError`; then `plain` is closed or still open. Python's `wrap_socket` leaks a socket
    that its peer has reset before.
    """
    try:
        plain.getpeername()
    except OSError as error:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from error
    return context.wrap_socket(
        plain,
        server_side=is_server,
        server_hostname=server_hostname,
        do_handshake_on_connect=not is_server,
    )
