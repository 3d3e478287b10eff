"""TLS handshakes under way: some at a time, each with its time, and no more than there is room for.

A handshake takes 0.3 to 3 ms of processor time. In one round of the loop they have `SLICE_S`
together, and one is always carried on; clients that are served wait no longer. The oldest makes
room when too many have begun and go no further. Kafka's counterpart: `SslTransportLayer.handshake`.
"""

import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from time import perf_counter
from typing import Final

from ottla.base.principal import Principal
from ottla.server.acceptors import Arrival, RenewedTls
from ottla.server.tls.contexts import ListenerTls, Tls
from ottla.server.tls.failures import reason_of
from ottla.server.tls.transport import SLICE_SIZE, transport_of
from ottla.server.transport import Transport

logger = logging.getLogger(__name__)

SLICE_S: Final = 0.001
MAX_HANDSHAKES: Final = 2048
"""Each has about 30 KB in OpenSSL."""

LOG_INTERVAL_MS: Final = 1000.0
"""Failures are logged once in this time, and counted meanwhile: a stranger fills no disk."""


class Handshake:
    """`watched` is what the selector waits for; 0 while it waits for its turn."""

    __slots__ = ("arrival", "deadline_ms", "peer", "tls", "watched")

    def __init__(self, peer: ssl.SSLSocket, arrival: Arrival, tls: Tls, deadline_ms: float) -> None:
        self.peer = peer
        self.arrival = arrival
        self.tls = tls
        self.deadline_ms = deadline_ms
        self.watched = 0


class Handshakes:
    """`on_secured` is given the transport of each that succeeds, `on_failed` the others."""

    def __init__(
        self,
        selector: BaseSelector,
        timeout_ms: float,
        on_secured: Callable[[Transport, Arrival, Principal], None],
        on_failed: Callable[[Arrival], None],
    ) -> None:
        self._selector = selector
        self._timeout_ms = timeout_ms
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._open: dict[Handshake, None] = {}
        """The oldest first, whose deadline is the first too."""
        self._ready: deque[Handshake] = deque()
        self._buffer = memoryview(bytearray(SLICE_SIZE))
        self._next_log_ms = 0.0
        self._unlogged = 0

    @property
    def has_ready(self) -> bool:
        """Whether one could go on at once."""
        return bool(self._ready)

    @property
    def deadline_ms(self) -> float | None:
        """When the oldest has had its time."""
        oldest = next(iter(self._open), None)
        return None if oldest is None else oldest.deadline_ms

    def begin(self, peer: socket.socket, arrival: Arrival, tls: RenewedTls) -> None:
        """Raises `OSError` when the peer has gone already."""
        assert isinstance(tls, ListenerTls)
        now = tls.now
        secured = now.context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
        handshake = Handshake(secured, arrival, now, arrival.came_ms + self._timeout_ms)
        self._open[handshake] = None
        self._watch(handshake, EVENT_READ)
        if len(self._open) > MAX_HANDSHAKES:
            self._fail(next(iter(self._open)), "too many others have begun", arrival.came_ms)

    def ready(self, handshake: object) -> None:
        """Bytes have come; it has its turn in `run_slice`."""
        assert isinstance(handshake, Handshake)
        if handshake in self._open:
            self._watch(handshake, 0)
            self._ready.append(handshake)

    def run_slice(self, now_ms: float) -> None:
        until_s = perf_counter() + SLICE_S
        while self._ready:
            handshake = self._ready.popleft()
            if handshake in self._open:
                self._carry_on(handshake, now_ms)
            if perf_counter() >= until_s:
                break
        while self._open and next(iter(self._open)).deadline_ms <= now_ms:
            oldest = next(iter(self._open))
            reason = f"not done after ottla.authentication.timeout.ms={self._timeout_ms:.0f}"
            self._fail(oldest, reason, now_ms)

    def close(self) -> None:
        for handshake in self._open:
            handshake.peer.close()
        self._open.clear()
        self._ready.clear()

    abandon = close

    def _carry_on(self, handshake: Handshake, now_ms: float) -> None:
        try:
            handshake.peer.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(handshake, EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(handshake, EVENT_WRITE)
        except (OSError, ValueError) as error:
            self._fail(handshake, reason_of(error), now_ms)
        else:
            self._finish(handshake, now_ms)

    def _finish(self, handshake: Handshake, now_ms: float) -> None:
        principal = handshake.tls.principal_of(handshake.peer)
        if principal is None:
            reason = "no rule of ssl.principal.mapping.rules matches the subject of its certificate"
            self._fail(handshake, reason, now_ms)
            return
        del self._open[handshake]
        transport = transport_of(handshake.peer, self._buffer)
        self._on_secured(transport, handshake.arrival, principal)

    def _fail(self, handshake: Handshake, reason: str, now_ms: float) -> None:
        del self._open[handshake]
        self._watch(handshake, 0)
        handshake.peer.close()
        self._log(handshake.arrival, reason, now_ms)
        self._on_failed(handshake.arrival)

    def _log(self, arrival: Arrival, reason: str, now_ms: float) -> None:
        if now_ms < self._next_log_ms:
            self._unlogged += 1
            return
        others = f" (and {self._unlogged} others since the last)" if self._unlogged else ""
        listener = arrival.client.listener
        logger.warning(
            "closing %s: its TLS handshake with listener %s failed: %s%s",
            arrival.peer_name,
            listener,
            reason,
            others,
        )
        self._unlogged = 0
        self._next_log_ms = now_ms + LOG_INTERVAL_MS

    def _watch(self, handshake: Handshake, wanted: int) -> None:
        if wanted == handshake.watched:
            return
        if handshake.watched == 0:
            self._selector.register(handshake.peer, wanted, handshake)
        elif wanted == 0:
            self._selector.unregister(handshake.peer)
        else:
            self._selector.modify(handshake.peer, wanted, handshake)
        handshake.watched = wanted
