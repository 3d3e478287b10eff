"""A small HTTP server beside a broker, with one thread per connection, up to a limit."""

import contextlib
import logging
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 64
"""The maximum number of connections; each has a thread, a stack and a descriptor."""


class HttpThreads(ThreadingHTTPServer):
    """A server that closes the oldest connection if there are too many, in favour of the newest."""

    daemon_threads = True
    request_queue_size = 2 * MAX_CONNECTIONS
    """A client that finds no room in the queue of the port asks again only after a second."""

    def __init__(
        self, address: tuple[str, int], handler: Callable[..., BaseHTTPRequestHandler]
    ) -> None:
        """Binds the address; raises `OSError`."""
        self._open: dict[Any, None] = {}
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
            if len(self._open) > MAX_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                # Its thread reads the end of the stream and closes the connection.
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs errors; a client that hangs up is not an error of ours."""
        error = sys.exception()
        level = logging.DEBUG if isinstance(error, OSError) else logging.ERROR
        logger.log(level, "a request of %s failed: %r", client_address[0], error)
