"""The notes that a process leaves in its directories: where it listens, or what it does there."""

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
"""How often a note is written again for work that has got on."""


def addresses_for_commands(
    config: BrokerConfig, listeners: Sequence[Listener], addresses: Sequence[Address]
) -> list[Address]:
    """Where commands on a directory connect to: the brokers' listener, then those that speak alike.

    `addresses` are those of the listeners, in their order.
    """
    own = inter_broker_listener(config, listeners)
    alike = [
        (listener is not own, address)
        for listener, address in zip(listeners, addresses, strict=True)
        if listener.protocol == own.protocol
    ]
    return [address for _, address in sorted(alike, key=lambda pair: pair[0])]


class OwnerNotes:
    """Without a note everything works but commands that are given the directory.

    So a disk that takes none is only logged.
    """

    def __init__(
        self, directories: Iterable[LogDirectory], addresses: Sequence[Address], command: str
    ) -> None:
        self._files = OsFileSystem()
        self._paths = [one.path for one in directories if not one.is_offline]
        texts = tuple(address_text(LOOPBACK.get(host, host), port) for host, port in addresses)
        self._owner = Owner(pid=os.getpid(), addresses=texts, command=command)
        self._lock = threading.Lock()
        self._in_each(lambda path: write_owner_note(self._files, path, self._owner))

    def note_tables(self, tables: Sequence[Mapping[str, Any]]) -> None:
        """Adds how tables beside the broker stand; may be called in any thread."""
        with self._lock:
            owner = replace(self._owner, tables=tuple(tables))
            self._in_each(lambda path: write_owner_note(self._files, path, owner))

    def remove(self) -> None:
        with self._lock:
            self._in_each(lambda path: remove_owner_note(self._files, path))

    def _in_each(self, deed: Callable[[str], None]) -> None:
        _in_each(self._paths, deed)


class WorkNotes:
    """What a process does in directories while it does not listen, noted in those that it holds."""

    def __init__(self, paths: Sequence[str], command: str, clock: Clock) -> None:
        self._files = OsFileSystem()
        self._paths = paths
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
        """What was done last; in any thread, as often as it likes."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._noted_ms >= NOTED_EVERY_MS:
            self._noted_ms = now_ms
            self.note_at_once(doing)

    def note_at_once(self, doing: str) -> None:
        """What remains so for a while."""
        owner = Owner(pid=os.getpid(), command=self._command, doing=doing)
        with self._lock:
            if doing != self._doing:
                self._doing = doing
                _in_each(self._held(), lambda path: write_owner_note(self._files, path, owner))

    def remove(self) -> None:
        """While the directories are still held."""
        with self._lock:
            if self._doing:
                self._doing = ""
                _in_each(self._held(), lambda path: remove_owner_note(self._files, path))

    def _held(self) -> list[str]:
        """A start claims one directory after the other."""
        own = os.getpid()
        return [one for one in self._paths if self._files.lock_holder(join(one, LOCK)) == own]


def _in_each(paths: Iterable[str], deed: Callable[[str], None]) -> None:
    for path in paths:
        try:
            deed(path)
        except OSError as error:
            logger.warning("%s: the note of its owner: %s", path, error.strerror)
