"""The server of an embedded log, in a separate thread."""

import threading
from typing import Any

from ottla.base.addresses import address_text
from ottla.base.closing import Closing
from ottla.config.listeners import Listener
from ottla.runtime.owner_notes import OwnerNotes
from ottla.runtime.thread_ends import join_in_time


class Listening(Closing):
    """A server of the embedded log; `address` is where it listens. Use it in a `with` statement.

    >>> with log.listen("127.0.0.1:0") as listening, ottla.Admin(listening.address) as admin:
    ...     admin.list_topics()
    ['orders']
    """

    def __init__(self, server: Any, notes: OwnerNotes, listener: Listener) -> None:
        self.listener = listener
        self._server = server
        self._notes = notes
        self._is_abandoned = False
        host, port = server.address
        self.address = address_text(host, port)
        self._thread = threading.Thread(target=server.run, name="ottla-server", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def wake(self) -> None:
        self._server.wake()

    def close(self) -> None:
        """Closes all connections and frees the port. Does nothing in a forked child. Raises
        `StorageError` if a request waits for a disk that does not answer.

        >>> listening = log.listen("127.0.0.1:0")
        >>> listening.close()
        """
        if not self._is_abandoned:
            self._server.stop()
            join_in_time(self._thread, self._notes.paths)
            self._notes.remove()

    def abandon(self) -> None:
        """In a forked child: see `Server.abandon`."""
        self._is_abandoned = True
        self._server.abandon()
