"""A proxy between clients and a broker that knows frames: by chance it delays a request, sends one
twice, sends a copy much later on a connection of its own, or cuts a connection in mid-frame.

Only Produce requests are doubled: that a retry of an idempotent producer changes nothing is what
Kafka promises. The answer to the second is kept from the client.
"""

import contextlib
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass

from tests.support.patience import PATIENCE_S

PRODUCE = 0
PAUSE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mischief:
    """Chances for each frame."""

    delay: float = 0.04
    max_delay_s: float = 0.15
    double: float = 0.08
    late_copy: float = 0.03
    cut: float = 0.006


class Proxy:
    """Listens until it is closed; there is no mischief while it `is_calm`, as it is at first.

    `asked` counts the requests that came by, by API key and version.
    """

    def __init__(self, broker: tuple[str, int], seed: int, mischief: Mischief) -> None:
        self.done: Counter[str] = Counter()
        self.asked: Counter[tuple[int, int]] = Counter()
        self.is_calm = True
        self.mischief = mischief
        self._broker = broker
        self._chance = random.Random(seed)
        self._is_open = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PAUSE_S)
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        self._is_open = False
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._listener.close()

    @property
    def is_open(self) -> bool:
        return self._is_open

    def happens(self, what: str) -> bool:
        """Whether to do a mischief now."""
        chance: float = getattr(self.mischief, what)
        if self.is_calm or self._chance.random() >= chance:
            return False
        self.done[what] += 1
        return True

    def a_delay(self) -> float:
        return self._chance.uniform(0.0, self.mischief.max_delay_s)

    def send_later(self, frame: bytes) -> None:
        """A copy on a connection of its own, as a packet that comes from nowhere."""
        self._start(self._send_copy, frame, self.a_delay() * 10)

    def _send_copy(self, frame: bytes, after_s: float) -> None:
        time.sleep(after_s)
        with (
            contextlib.suppress(OSError),
            socket.create_connection(self._broker, timeout=PAUSE_S) as connection,
        ):
            connection.sendall(frame)
            connection.recv(1)

    def _accept(self) -> None:
        while self._is_open:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            try:
                broker = socket.create_connection(self._broker, timeout=1.0)
            except OSError:
                client.close()
                continue
            link = Link(self, client, broker)
            self._start(link.pump_requests)
            self._start(link.pump_responses)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()


class Link:
    """One client's connection and the one to the broker that stands for it."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._swallowed: Counter[int] = Counter()
        """Correlation ids of which one answer more will come than the client has asked for."""
        self._answered: Counter[int] = Counter()
        for one in (client, broker):
            one.settimeout(PAUSE_S)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pump_requests(self) -> None:
        with self._until_closed():
            while frame := self._frame(self._client):
                self._mishandle_request(frame)

    def pump_responses(self) -> None:
        with self._until_closed():
            while frame := self._frame(self._broker):
                self._mishandle_response(frame)

    def _mishandle_request(self, frame: bytes) -> None:
        api_key = int.from_bytes(frame[4:6], "big")
        correlation_id = int.from_bytes(frame[8:12], "big")
        self._proxy.asked[api_key, int.from_bytes(frame[6:8], "big")] += 1
        self._meet(frame, self._broker)
        if api_key == PRODUCE and self._proxy.happens("late_copy"):
            self._proxy.send_later(frame)
        if api_key == PRODUCE and self._proxy.happens("double"):
            self._swallowed[correlation_id] += 1
            self._broker.sendall(frame)
        self._broker.sendall(frame)

    def _mishandle_response(self, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[4:8], "big")
        self._answered[correlation_id] += 1
        if self._answered[correlation_id] > 1 and self._swallowed[correlation_id]:
            return
        self._meet(frame, self._client)
        self._client.sendall(frame)

    def _meet(self, frame: bytes, onward: socket.socket) -> None:
        """What may befall any frame on its way."""
        if self._proxy.happens("delay"):
            time.sleep(self._proxy.a_delay())
        if self._proxy.happens("cut"):
            onward.sendall(frame[: len(frame) // 2])
            raise ConnectionAbortedError

    def _frame(self, source: socket.socket) -> bytes | None:
        head = self._exactly(source, 4)
        body = head and self._exactly(source, int.from_bytes(head, "big"))
        return head + body if head and body else None

    def _exactly(self, source: socket.socket, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = source.recv(size - len(parts))
            except TimeoutError:
                if self._proxy.is_open:
                    continue
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)

    @contextlib.contextmanager
    def _until_closed(self):  # type: ignore[no-untyped-def]
        try:
            with contextlib.suppress(OSError):
                yield
        finally:
            for one in (self._client, self._broker):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
