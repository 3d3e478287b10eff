"""The notes that a process writes to its directories: its addresses, or its current work."""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla.base.addresses import Address, address_text
from ottla.base.clock import Clock
from ottla.base.files import OsFileSystem, join
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import EVERY_ADDRESS, Listener, inter_broker_listener
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.owner_note import Owner, remove_owner_note, write_owner_note
from ottla.storage.files.filenames import LOCK

logger = logging.getLogger(__name__)

LOOPBACK = {EVERY_ADDRESS: "127.0.0.1", "::": "::1"}
"""Where a client on this machine finds a server that listens on every address."""
NOTED_EVERY_MS = 1000.0
"""The interval at which a note about progress is rewritten."""


def addresses_for_commands(
    config: BrokerConfig, listeners: Sequence[Listener], addresses: Sequence[Address]
) -> list[Address]:
    """Addresses for commands on a directory: the brokers' listener, then others of its protocol.

    `addresses` are the listeners' addresses, in their order.
    """
    own = inter_broker_listener(config, listeners)
    alike = [
        (listener is not own, address)
        for listener, address in zip(listeners, addresses, strict=True)
        if listener.protocol == own.protocol
    ]
    return [address for _, address in sorted(alike, key=lambda pair: pair[0])]


class OwnerNotes:
    """The note of a listening process, which only commands on the directory need.

    So a failure to write it is only logged.
    """

    def __init__(
        self, directories: Iterable[LogDirectory], addresses: Sequence[Address], command: str
    ) -> None:
        self._files = OsFileSystem()
        self.paths = [one.path for one in directories if not one.is_offline]
        texts = tuple(address_text(LOOPBACK.get(host, host), port) for host, port in addresses)
        self._owner = Owner(pid=os.getpid(), addresses=texts, command=command)
        self._lock = threading.Lock()
        self._in_each(lambda path: write_owner_note(self._files, path, self._owner))

    def note_tables(self, tables: Sequence[Mapping[str, Any]]) -> None:
        """Adds the state of the tables that the process loads; may be called in any thread."""
        with self._lock:
            owner = replace(self._owner, tables=tuple(tables))
            self._in_each(lambda path: write_owner_note(self._files, path, owner))

    def remove(self) -> None:
        with self._lock:
            self._in_each(lambda path: remove_owner_note(self._files, path))

    def _in_each(self, deed: Callable[[str], None]) -> None:
        _in_each(self.paths, deed)


class WorkNotes:
    """The note of a process that does not listen, in the directories that it has locked."""

    def __init__(self, paths: Sequence[str], command: str, clock: Clock) -> None:
        self._files = OsFileSystem()
        self.paths = paths
        self._command = command
        self._clock = clock
        self._lock = threading.Lock()
        self._noted_ms = -NOTED_EVERY_MS
        self._doing = ""

    def __enter__(self) -> "WorkNotes":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def note(self, doing: str) -> None:
        """Notes the last step; may be called in any thread, at any rate."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._noted_ms >= NOTED_EVERY_MS:
            self._noted_ms = now_ms
            self.note_at_once(doing)

    def note_at_once(self, doing: str) -> None:
        """Notes a lasting state, without a limit of the rate."""
        owner = Owner(pid=os.getpid(), command=self._command, doing=doing)
        with self._lock:
            if doing != self._doing:
                self._doing = doing
                _in_each(self._held(), lambda path: write_owner_note(self._files, path, owner))

    def remove(self) -> None:
        """Removes the notes; call it while the directories are still locked."""
        with self._lock:
            if self._doing:
                self._doing = ""
                _in_each(self._held(), lambda path: remove_owner_note(self._files, path))

    def _held(self) -> list[str]:
        """The directories locked so far; a start locks one after the other."""
        own = os.getpid()
        return [one for one in self.paths if self._files.lock_holder(join(one, LOCK)) == own]


def _in_each(paths: Iterable[str], deed: Callable[[str], None]) -> None:
    for path in paths:
        try:
            deed(path)
        except OSError as error:
            logger.warning("%s: cannot update the owner's note: %s", path, error.strerror)
