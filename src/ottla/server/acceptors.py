"""The sockets that clients connect to: one per listener, opened all or none.

Kafka's counterparts: `Acceptor`, `DataPlaneAcceptor`.
"""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.base.addresses import Address
from ottla.base.errors import UserError
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener, client_listeners

BACKLOG = 1024
ACCEPTS_PER_ROUND = 64


class Acceptor:
    """One socket that listens. `advertised` is where its clients are sent, if elsewhere.

    `resumes_ms`: until then it accepts none, since they have come too fast.
    """

    __slots__ = ("advertised", "name", "protocol", "resumes_ms", "socket")

    def __init__(self, listener: Listener) -> None:
        """Raises `OSError` when the address cannot be had."""
        self.name = listener.name
        self.protocol = listener.protocol
        self.advertised = listener.advertised
        self.resumes_ms: float | None = None
        self.socket = _listening_socket(*listener.address)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose for port 0."""
        host, port = self.socket.getsockname()[:2]
        return host, port

    def accept(self) -> Iterator[tuple[socket.socket, str]]:
        """Connections that have come, some at a time, each with its peer's address for people.

        Raises `OSError` when the process has no descriptor left for another.
        """
        for _ in range(ACCEPTS_PER_ROUND):
            try:
                peer, address = self.socket.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            yield peer, f"{address[0]}:{address[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerChanges:
    """What differs between two sets of listeners; `readvertised` differ in nothing else."""

    gone: Sequence[Listener]
    new: Sequence[Listener]
    readvertised: Sequence[Listener]


def listener_changes(before: BrokerConfig, after: BrokerConfig) -> ListenerChanges:
    """What a change of settings means for listeners (Kafka: `DynamicListenerConfig`)."""
    old = {(one.name, one.address): one for one in client_listeners(before)}
    new = {(one.name, one.address): one for one in client_listeners(after)}
    return ListenerChanges(
        gone=[one for key, one in old.items() if key not in new],
        new=[one for key, one in new.items() if key not in old],
        readvertised=[
            one for key, one in new.items() if key in old and one.advertised != old[key].advertised
        ],
    )


def open_acceptors(listeners: Sequence[Listener]) -> list[Acceptor]:
    """Listens on all of them; raises `UserError` naming the one that cannot be had."""
    acceptors: list[Acceptor] = []
    for listener in listeners:
        try:
            acceptors.append(Acceptor(listener))
        except OSError as error:
            for acceptor in acceptors:
                acceptor.socket.close()
            host, port = listener.address
            raise UserError(
                f"cannot listen on {host}:{port}: {error.strerror}; name another address"
            ) from error
    return acceptors


def _listening_socket(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _use_reno(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _use_reno(listener: socket.socket) -> None:
    """Reno on loopback and LAN is 1.6 times BBR's speed for `sendfile`; the accepted inherit it.

    Only Linux has the option, and a machine may not allow it: then the system's default serves.
    """
    option: int | None = getattr(socket, "TCP_CONGESTION", None)
    if option is not None:
        with contextlib.suppress(OSError):
            listener.setsockopt(socket.IPPROTO_TCP, option, b"reno")
