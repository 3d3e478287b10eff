"""Connections to an open log of this process, and the logs that are opened for them."""

import os
import threading
from collections.abc import Callable
from dataclasses import field

from ottla.base.addresses import Address, check_no_host
from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import ClientSettings
from ottla.client.connecting.connection import Connection
from ottla.embedded.connection import HOST, InProcessConnection
from ottla.embedded.log import Log
from ottla.embedded.log import open as open_log
from ottla.embedded.readable import ReadableLog

ADDRESS: Address = (HOST, 0)


def in_process(
    target: Log | str | os.PathLike[str], settings: ClientSettings, *, may_make: bool
) -> "InProcessTransport":
    """Connects to an open log, or to a directory's, which is closed with it; raises `UserError`."""
    if isinstance(target, Log):
        return InProcessTransport(target, settings)
    if isinstance(target, ReadableLog):
        raise UserError(
            "a log that was opened with read_only=True serves no clients; read it with its own "
            "read, scan and tail, and ask for the rest with ottla.Admin(PATH, read_only=True)"
        )
    if not isinstance(target, str | os.PathLike):
        raise UserError(
            f"a target is an open log, a directory or HOST:PORT[,HOST:PORT], not {target!r}; other "
            "settings of a client are settings={NAME: VALUE}"
        )
    path = os.fspath(target)
    if not may_make and not os.path.isdir(path):
        raise UserError(
            f"there is no directory {path}; name a data directory, or a broker's HOST:PORT"
        )
    if isinstance(target, str):
        check_no_host(path)
    shared = _shared_log(path)
    return InProcessTransport(shared.log, settings, shared.close)


@dataclass(slots=True)
class InProcessTransport:
    """All connections lead to one open log."""

    log: Log
    settings: ClientSettings
    on_close: Callable[[], None] = lambda: None
    _deeds: list[Callable[[], None]] = field(default_factory=list)

    def connect(self, address: Address) -> Connection:
        return InProcessConnection(self.log, client_id=self.settings.client_id)

    def before_close(self, deed: Callable[[], None]) -> None:
        self.log.before_close.append(deed)
        self._deeds.append(deed)

    def close(self) -> None:
        while self._deeds:
            self.log.before_close.remove(self._deeds.pop())
        on_close, self.on_close = self.on_close, lambda: None
        on_close()


@dataclass(slots=True)
class _SharedLog:
    """A log that this module has opened, shared by all clients of its directory."""

    key: tuple[int, str]
    log: Log
    user_count: int = field(default=0)

    def close(self) -> None:
        with _lock:
            self.user_count -= 1
            if self.user_count:
                return
            _shared.pop(self.key, None)
            self.log.close()


_lock = threading.Lock()
_shared: dict[tuple[int, str], _SharedLog] = {}
"""By process and path: a forked child opens its own."""


def _shared_log(path: str) -> _SharedLog:
    key = os.getpid(), os.path.realpath(path)
    with _lock:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = _SharedLog(key, open_log(path))
        found.user_count += 1
        return found
