"""A real socket on which each peer is served in a thread of its own, by what a test is about."""

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress


class ThreadedServer(ABC):
    """Listens from the start on `port` of 127.0.0.1; `close` it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @abstractmethod
    def serve(self, peer: socket.socket) -> None:
        """Speaks with a peer, until it returns or a socket says no (`OSError`)."""

    def close(self) -> None:
        """Cuts all connections, and waits for the threads."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._open.append(peer)
                self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
                self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError), peer:
            self.serve(peer)
