"""A socket in TLS."""

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
    """Takes over the socket; a server's handshake is not begun, a client's is done.

    Raises `OSError`; what is open then is `plain`, if anything. Python's own `wrap_socket` would
    leave open, where nobody can close it, a socket that its peer has reset before.
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
