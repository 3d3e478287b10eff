"""The listening sockets, one per listener, and the limits on connections.

Kafka's counterparts: `Acceptor`, `DataPlaneAcceptor`, `ConnectionQuotas`.
"""

import contextlib
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from selectors import EVENT_READ, BaseSelector
from typing import Protocol

from ottla.base.addresses import Address
from ottla.base.errors import UserError
from ottla.base.open_files import descriptor_limit, max_connections
from ottla.base.principal import ANONYMOUS, Principal
from ottla.base.values import dataclass
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener, every_listener
from ottla.server.dispatching.request_context import Client
from ottla.server.network.arrivals import CreationRates, HostLimits, HostRates
from ottla.server.network.connection import Connection, address_of, host_of
from ottla.server.network.connection_events import ConnectionCounts, Refusal
from ottla.server.network.transport import PlaintextTransport, Transport

logger = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTS_PER_ROUND = 4
"""Each takes 0.05 ms, for which clients that have connected wait."""

KEPT_PEERS = 256
"""Peers that connected too fast and are kept for a while before they are closed."""

RENEWAL_MS = 10_000.0
"""How often certificate files are checked for changes."""


class Acceptor:
    """One listening socket. `advertised` is the address for its clients, if it differs.

    `resumes_ms`: it accepts no connections until then, since they came too fast. `max_count`: its
    maximum number of connections. `tls`: the contexts of its handshakes, if it has TLS.
    """

    __slots__ = ("advertised", "listener", "max_count", "resumes_ms", "socket", "tls")

    def __init__(self, listener: Listener, config: BrokerConfig) -> None:
        """Raises `UserError` if the address cannot be bound."""
        self.listener = listener
        self.advertised = listener.advertised
        self.resumes_ms: float | None = None
        self.max_count = config.of_listener(listener.name).max_connections
        self.tls: RenewedTls | None = None
        try:
            self.socket = _listening_socket(*listener.address)
        except OSError as error:
            host, port = listener.address
            raise UserError(
                f"cannot listen on {host}:{port}: {error.strerror}; name another address"
            ) from error

    @property
    def name(self) -> str:
        return self.listener.name

    @property
    def address(self) -> Address:
        """The address, with the port that the system chose for port 0."""
        host, port = self.socket.getsockname()[:2]
        return host, port

    def accept(self) -> Iterator[tuple[socket.socket, str]]:
        """Accepts waiting connections, some at a time; returns each with its peer's address as
        text.

        Raises `OSError` when the process has no descriptors left.
        """
        for _ in range(ACCEPTS_PER_ROUND):
            try:
                peer, address = self.socket.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            yield peer, f"{address[0]}:{address[1]}"


class RenewedTls(Protocol):
    """Keys and certificates of a listener (`server/tls/contexts.py`)."""

    def renew(self, config: BrokerConfig) -> None:
        """Applies other settings; invalid ones leave the previous state."""

    def renew_if_changed(self) -> None:
        """Reads changed files again, in a thread."""


class Handshaking(Protocol):
    """The TLS handshakes under way (`server/tls/handshakes.py`); none where no listener has TLS."""

    @property
    def deadline_ms(self) -> float | None:
        """The deadline of the oldest handshake."""

    def begin(self, peer: socket.socket, arrival: "Arrival", tls: "RenewedTls") -> None: ...

    def ready(self, handshake: object) -> None: ...

    def take_over(self, now_ms: float) -> None: ...

    def drop(self, listener: str) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A peer that connected, before it is a connection."""

    peer_name: str
    client: Client
    came_ms: float


class Acceptors:
    """All listening sockets, and the limits. `on_connection` gets each connection; `wake` wakes the
    loop.

    `is_waiting`: `work` must be called, at `wakes_ms` at the latest.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        config: BrokerConfig,
        selector: BaseSelector,
        on_connection: Callable[[Connection], None],
        wake: Callable[[], None],
        rate_of_host: Callable[[str], float | None],
    ) -> None:
        self._wake = wake
        self._listeners = listeners
        self._config = config
        self._selector = selector
        self._on_connection = on_connection
        self._share = max_connections()
        self._host_limits = HostLimits(config)
        self._host_rates = HostRates(config, rate_of_host)
        self._too_fast: deque[tuple[float, socket.socket]] = deque()
        self._creation_rates = CreationRates(config)
        self._all: list[Acceptor] = []
        self._counts: Counter[str] = Counter()
        self._watched: set[Acceptor] = set()
        self._handshakes: Handshaking | None = None
        self._is_out_of_descriptors = False
        self._renews_ms = 0.0
        self.connection_counts = ConnectionCounts()
        self.is_waiting = False
        self.wakes_ms: float | None = None

    def open(self) -> None:
        """Listens on all addresses; raises `UserError` naming the one that cannot be bound."""
        self._all = self._opened(self._listeners)

    def start(self, now_ms: float) -> None:
        """Begins to accept clients."""
        self._watch_all()
        self._renews_ms = now_ms
        self._look_ahead()

    @property
    def addresses(self) -> list[Address]:
        return [acceptor.address for acceptor in self._all]

    def ready(self, data: object, now_ms: float) -> None:
        """An acceptor has connections, or a handshake has received bytes."""
        if isinstance(data, Acceptor):
            self._accept(data, now_ms)
        else:
            assert self._handshakes is not None
            self._handshakes.ready(data)
        self._look_ahead()

    def work(self, now_ms: float) -> None:
        """Resumes acceptors whose pause is over, and processes finished handshakes."""
        while self._too_fast and self._too_fast[0][0] <= now_ms:
            self._too_fast.popleft()[1].close()
        for acceptor in self._all:
            if acceptor.resumes_ms is not None and acceptor.resumes_ms <= now_ms:
                acceptor.resumes_ms = None
                self._watch(acceptor)
        if self._handshakes is not None:
            self._handshakes.take_over(now_ms)
            if now_ms >= self._renews_ms:
                self._renews_ms = now_ms + RENEWAL_MS
                self._renew_certificates()
        self._look_ahead()

    def left(self, client: Client) -> None:
        """A connection is closed: another one may be accepted."""
        self._host_limits.leave(client.host)
        self._counts[client.listener] -= 1
        if self._is_out_of_descriptors or len(self._watched) < len(self._all):
            self._is_out_of_descriptors = False
            self._watch_all()

    def close(self) -> None:
        self._close_too_fast()
        if self._handshakes is not None:
            self._handshakes.close()
        for acceptor in self._all:
            acceptor.socket.close()

    def abandon(self) -> None:
        """In a forked child: see `Server.abandon`."""
        self._close_too_fast()
        if self._handshakes is not None:
            self._handshakes.abandon()
        for acceptor in self._all:
            acceptor.socket.close()

    # Settings that clients may change at run time (KIP-226)

    def follow(self, config: BrokerConfig) -> "ListenerChanges":
        """Applies listeners and limits that a client has changed."""
        changes = listener_changes(self._config, config)
        self._config = config
        self._host_limits.follow(config)
        self._creation_rates.follow(config)
        gone = {one.name for one in changes.gone}
        for acceptor in [one for one in self._all if one.name in gone]:
            self._all.remove(acceptor)
            self._unwatch(acceptor)
            acceptor.socket.close()
            if self._handshakes is not None:
                self._handshakes.drop(acceptor.name)
        self._renew()
        for listener in changes.new:
            try:
                self._all += self._opened([listener])
            except UserError as error:
                logger.error("listener %s is not served: %s", listener.name, error)
        advertised = {one.name: one.advertised for one in changes.readvertised}
        for acceptor in self._all:
            acceptor.advertised = advertised.get(acceptor.name, acceptor.advertised)
            acceptor.max_count = config.of_listener(acceptor.name).max_connections
        self._watch_all()
        return changes

    def _renew_certificates(self) -> None:
        """Reads certificate files that have changed."""
        for acceptor in self._all:
            if acceptor.tls is not None:
                acceptor.tls.renew_if_changed()

    def _renew(self) -> None:
        for acceptor in self._all:
            if acceptor.tls is not None:
                acceptor.tls.renew(self._config)

    def _opened(self, listeners: Sequence[Listener]) -> list[Acceptor]:
        acceptors: list[Acceptor] = []
        try:
            for listener in listeners:
                acceptors.append(Acceptor(listener, self._config))
                if listener.has_tls:
                    acceptors[-1].tls = self._tls_of(listener)
        except UserError:
            for acceptor in acceptors:
                acceptor.socket.close()
            raise
        return acceptors

    def _tls_of(self, listener: Listener) -> "RenewedTls":
        # Imported for those listeners only: it takes longer than the start of a broker may.
        from ottla.server.tls.contexts import ListenerTls
        from ottla.server.tls.handshakes import Handshakes

        tls = ListenerTls(listener, self._config)
        if self._handshakes is None:
            timeout_ms = self._config.ottla_authentication_timeout_ms
            self._handshakes = Handshakes(
                self._selector, timeout_ms, self._wake, self._secured, self._failed
            )
        return tls

    # Limits on connections

    def _accept(self, acceptor: Acceptor, now_ms: float) -> None:
        if acceptor not in self._watched or self._is_full(acceptor):
            return
        try:
            for peer, name in acceptor.accept():
                self._let_in(peer, name, acceptor, now_ms)
                is_too_fast = self._is_too_fast(acceptor, now_ms)
                if self._is_full(acceptor) or is_too_fast:
                    return
        except OSError as error:
            # Out of descriptors: continue with the open ones, and accept again when one is closed.
            logger.warning("cannot accept connections for now: %s", error)
            self._is_out_of_descriptors = True
            self._watch_all()

    def _is_full(self, acceptor: Acceptor) -> bool:
        """Whether the maximum is reached; further connections wait in the system's queue, as in
        Kafka.
        """
        if self._has_room(acceptor):
            return False
        count = self._counts.total()
        if count < min(self._config.max_connections, self._share):
            name = acceptor.name
            setting = f"listener.name.{name.lower()}.max.connections"
            logger.warning("%s=%d are open on %s: more wait", setting, acceptor.max_count, name)
        elif count < self._config.max_connections:
            logger.warning(
                "%d connections are open: more wait, since of %d open files that the process may "
                "have one half is for storage; let it have more (ulimit -n)",
                count, descriptor_limit(),
            )  # fmt: skip
        else:
            logger.warning("max.connections=%d are open: more wait", count)
        self._watch_all()
        return True

    def _has_room(self, acceptor: Acceptor) -> bool:
        count = self._counts.total()
        return (
            count < min(self._config.max_connections, self._share)
            and self._counts[acceptor.name] < acceptor.max_count
        )

    def _is_too_fast(self, acceptor: Acceptor, now_ms: float) -> bool:
        """Whether further connections wait in the system's queue for a while, since they come
        too fast.
        """
        wait_ms = self._creation_rates.enter(acceptor.name, now_ms)
        if wait_ms <= 0:
            return False
        acceptor.resumes_ms = now_ms + wait_ms
        self._unwatch(acceptor)
        return True

    def _let_in(
        self, peer: socket.socket, peer_name: str, acceptor: Acceptor, now_ms: float
    ) -> None:
        host = host_of(peer_name)
        kept_ms = self._host_rates.enter(host, now_ms)
        if kept_ms > 0:
            self._keep(peer, now_ms + kept_ms)
            return
        if not self._host_limits.enter(host):
            limit = self._host_limits.limit_of(host)
            logger.warning("refusing %s: %s may have %d connections", peer_name, host, limit)
            self.connection_counts.refused[Refusal.HOST_LIMIT] += 1
            peer.close()
            return
        self._counts[acceptor.name] += 1
        client = Client(("", 0), host, ANONYMOUS, acceptor.name, acceptor.listener.protocol)
        try:
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = client._replace(address=acceptor.advertised or address_of(peer))
            arrival = Arrival(peer_name=peer_name, client=client, came_ms=now_ms)
            if acceptor.tls is None:
                self._connect(PlaintextTransport(peer), arrival)
            else:
                assert self._handshakes is not None
                self._handshakes.begin(peer, arrival, acceptor.tls)
        except (OSError, MemoryError):
            # The client has reset the connection already, or there is no memory for a buffer.
            peer.close()
            self._refuse(client, Refusal.RESET)

    def _keep(self, peer: socket.socket, until_ms: float) -> None:
        """Closes it later, so that its client is slow to retry (KIP-612)."""
        self.connection_counts.refused[Refusal.HOST_RATE] += 1
        if len(self._too_fast) >= KEPT_PEERS:
            self._too_fast.popleft()[1].close()
        self._too_fast.append((until_ms, peer))

    def _close_too_fast(self) -> None:
        for _, peer in self._too_fast:
            peer.close()
        self._too_fast.clear()

    def _secured(self, transport: Transport, arrival: Arrival, principal: Principal) -> None:
        """A handshake is done."""
        secured = replace(arrival, client=arrival.client._replace(principal=principal))
        try:
            self._connect(transport, secured)
        except (OSError, MemoryError):
            transport.close()
            self._refuse(arrival.client, Refusal.RESET)

    def _failed(self, arrival: Arrival) -> None:
        self._refuse(arrival.client, Refusal.HANDSHAKE)

    def _refuse(self, client: Client, why: Refusal) -> None:
        self.connection_counts.refused[why] += 1
        self.left(client)

    def _connect(self, transport: Transport, arrival: Arrival) -> None:
        max_size = self._config.socket_request_max_bytes
        connection = Connection(transport, arrival.peer_name, arrival.client, max_size)
        connection.came_ms = arrival.came_ms
        self.connection_counts.came()
        self._on_connection(connection)

    # Registration with the selector

    def _watch_all(self) -> None:
        for acceptor in self._all:
            self._watch(acceptor)

    def _watch(self, acceptor: Acceptor) -> None:
        """Registers or unregisters a socket, as its state requires."""
        is_open = acceptor.resumes_ms is None and not self._is_out_of_descriptors
        if not is_open or not self._has_room(acceptor):
            self._unwatch(acceptor)
        elif acceptor not in self._watched:
            self._watched.add(acceptor)
            self._selector.register(acceptor.socket, EVENT_READ, acceptor)

    def _unwatch(self, acceptor: Acceptor) -> None:
        if acceptor in self._watched:
            self._watched.remove(acceptor)
            self._selector.unregister(acceptor.socket)

    def _look_ahead(self) -> None:
        times = [one.resumes_ms for one in self._all if one.resumes_ms is not None]
        if self._too_fast:
            times.append(self._too_fast[0][0])
        if self._handshakes is not None:
            times.append(self._renews_ms)
            if self._handshakes.deadline_ms is not None:
                times.append(self._handshakes.deadline_ms)
        self.wakes_ms = min(times, default=None)
        self.is_waiting = bool(times)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerChanges:
    """The differences between two sets of listeners; `readvertised` differ only in the address
    for clients.
    """

    gone: Sequence[Listener]
    new: Sequence[Listener]
    readvertised: Sequence[Listener]


def listener_changes(before: BrokerConfig, after: BrokerConfig) -> ListenerChanges:
    """The effect of changed settings on listeners (Kafka: `DynamicListenerConfig`)."""
    old = {(one.name, one.address, one.protocol): one for one in every_listener(before)}
    new = {(one.name, one.address, one.protocol): one for one in every_listener(after)}
    return ListenerChanges(
        gone=[one for key, one in old.items() if key not in new],
        new=[one for key, one in new.items() if key not in old],
        readvertised=[
            one for key, one in new.items() if key in old and one.advertised != old[key].advertised
        ],
    )


def check_tls(config: BrokerConfig) -> None:
    """Raises `SettingError` for unusable keys or certificates of a listener."""
    listeners = [one for one in every_listener(config) if one.has_tls]
    if listeners:
        from ottla.server.tls.contexts import make_tls, tls_config

        for one in listeners:
            make_tls(one, tls_config(one, config))


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
    """Uses Reno: on loopback and LAN it is 1.6 times as fast as BBR for `sendfile`.

    Accepted sockets inherit it. Only Linux has the option, and it may be disallowed: then the
    system's default applies.
    """
    option: int | None = getattr(socket, "TCP_CONGESTION", None)
    if option is not None:
        with contextlib.suppress(OSError):
            listener.setsockopt(socket.IPPROTO_TCP, option, b"reno")
