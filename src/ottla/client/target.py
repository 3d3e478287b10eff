"""From what a person names to a cluster: an open log, a data directory, or brokers' addresses.

    with open_target("data/") as cluster:
        names = cluster.topic_names()

A directory that is named several times in one process is opened once, and closed after the last.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ottla.base.addresses import Address, parse_address
from ottla.base.errors import UserError
from ottla.client.cluster import ClientSettings, Cluster, SocketTransport, Transport
from ottla.client.connection import Connection
from ottla.embedded.connection import HOST, InProcessConnection
from ottla.embedded.followed import FollowedLog
from ottla.embedded.log import Log
from ottla.embedded.log import open as open_log

PATIENT = ClientSettings()
Target = Log | str | os.PathLike[str]


def open_target(
    target: Target,
    settings: ClientSettings = PATIENT,
    *,
    topics: Iterable[str] | None = (),
    may_make: bool = False,
) -> Cluster:
    """The cluster that a target names; close it. Raises `UserError`.

    An existing directory is a directory, `HOST:PORT[,HOST:PORT]` are brokers, and anything else is
    the path of a directory, which is made where that is allowed. A log that was given open stays
    open. `topics` are those of `Cluster`: nothing is asked before it is needed, or with `None` all.
    """
    addresses: list[Address] = [(HOST, 0)]
    transport: Transport
    if isinstance(target, Log):
        transport = InProcessTransport(target, settings)
    elif isinstance(target, FollowedLog):
        raise UserError(
            "a log that was opened with read_only=True serves no clients; read it with its own "
            "read, scan and tail"
        )
    else:
        path = os.fspath(target)
        found = None if os.path.isdir(path) or path != target else _addresses(path)
        if found is not None:
            addresses, transport = found, SocketTransport(settings)
        elif not may_make and not os.path.isdir(path):
            raise UserError(
                f"there is no directory {path}; name a data directory, or a broker's HOST:PORT"
            )
        else:
            shared = _shared_log(path)
            transport = InProcessTransport(shared.log, settings, shared.close)
    try:
        return Cluster(addresses, settings, sleep=time.sleep, topics=topics, transport=transport)
    except BaseException:
        transport.close()
        raise


@dataclass(slots=True)
class InProcessTransport:
    """All connections lead to one open log."""

    log: Log
    settings: ClientSettings
    on_close: Callable[[], None] = lambda: None

    def connect(self, address: Address) -> Connection:
        return InProcessConnection(self.log, client_id=self.settings.client_id)

    def close(self) -> None:
        on_close, self.on_close = self.on_close, lambda: None
        on_close()


@dataclass(slots=True)
class _SharedLog:
    """A log that this module has opened, for all who name its directory."""

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
"""By process and path: a child of a fork opens its own."""


def _shared_log(path: str) -> _SharedLog:
    key = os.getpid(), os.path.realpath(path)
    with _lock:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = _SharedLog(key, open_log(path))
        found.user_count += 1
        return found


def _addresses(text: str) -> list[Address] | None:
    """`None` when the text is not a list of addresses."""
    try:
        return [parse_address(one.strip()) for one in text.split(",")]
    except UserError:
        return None
