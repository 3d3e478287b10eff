"""A server whose rounds a test takes one by one."""

import itertools
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from select import select
from time import monotonic

from ottla.base.clock import Clock, SystemClock
from ottla.broker.broker import Broker
from ottla.config.listeners import Listener
from ottla.metadata.deciding.topics import NewTopic
from ottla.server.network.embedding import Embedding, Upkeep
from ottla.server.network.listener import Server
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker

MANY_ROUNDS = 200_000


class SteppedServer:
    """A server whose rounds are taken one by one, each slice as short as it can be.

    It closes its clients at the end, so that those of a test that fails are not left to others.
    """

    def __init__(self, broker: Broker, clock: Clock, upkeep: Upkeep | None) -> None:
        listener = Listener(name="PLAINTEXT", address=("127.0.0.1", 0), advertised=None)
        embedding = Embedding(upkeep=upkeep)
        self.server = Server(broker, [listener], clock=clock, embedding=embedding)
        self.server.start()
        ticks = itertools.count()
        self.server._long_requests._now_s = lambda: float(next(ticks))
        self.rounds = 0
        self._clients: list[WireClient] = []

    def step(self) -> None:
        server = self.server
        wait_s = 0 if server._ready or server._long_requests.has_work else 0.01
        server._round(server._selector.select(wait_s))
        self.rounds += 1

    def step_until(self, is_done: Callable[[], bool]) -> None:
        until_s = monotonic() + PATIENCE_S
        for _ in range(MANY_ROUNDS):
            if is_done():
                return
            self.step()
            if monotonic() > until_s:
                break
        raise AssertionError("it does not come to an end")

    def client(self) -> WireClient:
        client = WireClient(self.server.address)
        self._clients.append(client)
        return client

    def await_arrival(self, *clients: WireClient) -> None:
        """Waits until the server, which has accepted them, can receive what each has sent."""
        ends = {one.socket.getpeername(): one.socket for one in self.server._connections}
        for client in clients:
            assert readable([ends[client.socket.getsockname()]])

    def is_idle(self) -> bool:
        return not self.server._long_requests._begun and not self.server._long_requests._waiting

    def close(self) -> None:
        with self.server.lock:
            self.server._close_all()
        for client in self._clients:
            client.socket.close()


@contextmanager
def stepped(
    broker: Broker, clock: Clock | None = None, upkeep: Upkeep | None = None
) -> Iterator[SteppedServer]:
    server = SteppedServer(broker, clock or SystemClock(), upkeep)
    try:
        yield server
    finally:
        server.close()
        broker.close()


def readable(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    """Those to which something has come, as soon as there are any."""
    return select(sockets, (), (), PATIENCE_S)[0]


def has_answer(client: WireClient) -> bool:
    """Whether something has come, or the connection was closed."""
    client.socket.setblocking(False)
    try:
        client.socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    finally:
        client.socket.settimeout(PATIENCE_S)
    return True


def with_topic(directory: Path, partition_count: int = 20, **settings: str) -> Broker:
    broker = open_broker(directory, **settings)
    broker.admin.create_topic(NewTopic(name="t", partition_count=partition_count))
    return broker
