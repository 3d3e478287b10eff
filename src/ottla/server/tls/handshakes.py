"""TLS handshakes: run in a thread, limited in time and number.

A handshake takes 0.3 to 5 ms of processor time, for which OpenSSL releases the interpreter's lock.
So a thread continues the handshakes that have received bytes, one after the other, and other
clients do not wait for them. A peer that has sent nothing costs only a socket. If too many make no
progress, the oldest is closed. Kafka's counterpart: `SslTransportLayer.handshake`.
"""

import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from threading import Thread
from time import sleep
from typing import Final

from ottla.base.principal import Principal
from ottla.base.tls import in_tls
from ottla.server.network.acceptors import Arrival, RenewedTls
from ottla.server.network.stranger_log import StrangerLog
from ottla.server.network.transport import Transport
from ottla.server.tls.contexts import CertificateError, ListenerTls, Tls
from ottla.server.tls.failures import reason_of
from ottla.server.tls.transport import SLICE_SIZE, transport_of

logger = logging.getLogger(__name__)

MAX_HANDSHAKES: Final = 2048
"""Each uses about 30 KB in OpenSSL once its peer has sent something."""

PAUSE_S: Final = 0.0004
"""After each step the thread yields its core, which takes about as long as the step.

Otherwise the system lets it work for milliseconds at a time, also when the loop has a request: with
a thousand handshakes the p99 of a working client was 30 times as long as without, and is now
within twice that.
"""


class Handshake:
    """`watched` is what the selector waits for; `is_at_work`: the thread has it meanwhile.

    `outcome` is what the thread found: what to wait for, or why it failed; `None` when it is done.
    """

    __slots__ = (
        "arrival",
        "deadline_ms",
        "is_at_work",
        "is_over",
        "outcome",
        "peer",
        "tls",
        "watched",
    )

    def __init__(self, peer: socket.socket, arrival: Arrival, tls: Tls, deadline_ms: float) -> None:
        self.peer = peer
        self.arrival = arrival
        self.tls = tls
        self.deadline_ms = deadline_ms
        self.watched = 0
        self.is_at_work = False
        self.is_over = False
        self.outcome: int | str | None = EVENT_READ

    def carry_on(self) -> None:
        """Runs in the thread, as far as the received bytes allow."""
        try:
            if not isinstance(self.peer, ssl.SSLSocket):
                self.peer = in_tls(self.tls.context, self.peer, is_server=True)
            self.peer.do_handshake()
            self.outcome = None
        except ssl.SSLWantReadError:
            self.outcome = EVENT_READ
        except ssl.SSLWantWriteError:
            self.outcome = EVENT_WRITE
        except Exception as error:
            self.outcome = reason_of(error)


class Handshakes:
    """`on_secured` is given the transport of each that succeeds, `on_failed` the others.

    `wake` has the loop call `take_over` after a while: the thread has carried something on.
    """

    def __init__(
        self,
        selector: BaseSelector,
        timeout_ms: float,
        wake: Callable[[], None],
        on_secured: Callable[[Transport, Arrival, Principal], None],
        on_failed: Callable[[Arrival], None],
    ) -> None:
        self._selector = selector
        self._timeout_ms = timeout_ms
        self._wake = wake
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._open: dict[Handshake, None] = {}
        """The oldest first, whose deadline is the first too."""
        self._queue: SimpleQueue[Handshake | None] = SimpleQueue()
        self._carried_on: deque[Handshake] = deque()
        self._thread: Thread | None = None
        self._buffer = memoryview(bytearray(SLICE_SIZE))
        self._log = StrangerLog(logger)

    @property
    def deadline_ms(self) -> float | None:
        """The deadline of the oldest handshake."""
        oldest = next(iter(self._open), None)
        return None if oldest is None else oldest.deadline_ms

    def begin(self, peer: socket.socket, arrival: Arrival, tls: RenewedTls) -> None:
        assert isinstance(tls, ListenerTls)
        handshake = Handshake(peer, arrival, tls.now, arrival.came_ms + self._timeout_ms)
        self._open[handshake] = None
        self._watch(handshake, EVENT_READ)
        if len(self._open) > MAX_HANDSHAKES:
            self._fail(next(iter(self._open)), "too many others have begun", arrival.came_ms)

    def ready(self, handshake: object) -> None:
        """Bytes arrived, or the socket is writable: from now on the thread has it."""
        assert isinstance(handshake, Handshake)
        if self._thread is None:
            self._thread = Thread(target=self._run, name="ottla-handshakes", daemon=True)
            self._thread.start()
        self._watch(handshake, 0)
        handshake.is_at_work = True
        self._queue.put(handshake)

    def take_over(self, now_ms: float) -> None:
        """Takes the thread's results, and ends handshakes whose time is over."""
        while self._carried_on:
            handshake = self._carried_on.popleft()
            outcome = handshake.outcome
            handshake.is_at_work = False
            if handshake.is_over:
                handshake.peer.close()
            elif outcome is None:
                self._finish(handshake, now_ms)
            elif isinstance(outcome, str):
                self._fail(handshake, outcome, now_ms)
            else:
                self._watch(handshake, outcome)
        while self._open and next(iter(self._open)).deadline_ms <= now_ms:
            oldest = next(iter(self._open))
            reason = f"not done after ottla.authentication.timeout.ms={self._timeout_ms:.0f}"
            self._fail(oldest, reason, now_ms)

    def drop(self, listener: str) -> None:
        """A listener is closed: its handshakes are dropped."""
        for handshake in [one for one in self._open if one.arrival.client.listener == listener]:
            self._give_up(handshake)

    def close(self) -> None:
        """Returns once the thread has ended; pending handshakes are dropped."""
        if self._thread is not None:
            while not self._queue.empty():
                self._queue.get()
            self._queue.put(None)
            self._thread.join()
        self.abandon()

    def abandon(self) -> None:
        """In a forked child, which has no such thread."""
        for handshake in [*self._open, *self._carried_on]:
            handshake.peer.close()
        self._open.clear()
        self._carried_on.clear()

    def _run(self) -> None:
        while (handshake := self._queue.get()) is not None:
            handshake.carry_on()
            self._carried_on.append(handshake)
            self._wake()
            sleep(PAUSE_S)

    def _finish(self, handshake: Handshake, now_ms: float) -> None:
        peer = handshake.peer
        assert isinstance(peer, ssl.SSLSocket)
        try:
            principal = handshake.tls.principal_of(peer)
        except CertificateError as error:
            self._fail(handshake, str(error), now_ms)
            return
        del self._open[handshake]
        self._on_secured(transport_of(peer, self._buffer), handshake.arrival, principal)

    def _fail(self, handshake: Handshake, reason: str, now_ms: float) -> None:
        name, listener = handshake.arrival.peer_name, handshake.arrival.client.listener
        text = f"closing {name}: its TLS handshake with listener {listener} failed: {reason}"
        self._log.warn(text, now_ms)
        self._give_up(handshake)

    def _give_up(self, handshake: Handshake) -> None:
        del self._open[handshake]
        self._watch(handshake, 0)
        handshake.is_over = True
        if not handshake.is_at_work:
            handshake.peer.close()
        self._on_failed(handshake.arrival)

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
