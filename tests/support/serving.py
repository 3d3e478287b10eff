"""A server in a thread, and the plainest of clients: what tests over a socket stand on."""

import contextlib
import dataclasses
import itertools
import random
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ottla.base.clock import Clock, SystemClock
from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid
from ottla.base.tls import in_tls
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.startup.opening import BrokerOptions
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.config.broker import broker_config
from ottla.config.listeners import Listener, client_listeners
from ottla.protocol.headers import RequestHeader, encode_request, read_response_header
from ottla.protocol.messages import response_class
from ottla.server.dispatching.request_log import RequestFilter
from ottla.server.network.embedding import Embedding, Upkeep
from ottla.server.network.listener import Server
from tests.support.patience import PATIENCE_S


def open_broker(directory: Path, **settings: str) -> Broker:
    """A broker on a real directory; settings are Kafka's names with `_` for `.`."""
    chance = random.Random(7)
    options = BrokerOptions(
        now_ms=SystemClock().now_ms(),
        new_id=lambda: Uuid(chance.randbytes(16)),
        random_below=chance.randrange,
        cluster_id="test-cluster-of-ottla1",
    )
    values = {name.replace("_", "."): value for name, value in settings.items()}
    return assemble([str(directory)], OsFileSystem(), broker_config(values), options)


@contextlib.contextmanager
def serving(
    broker: Broker,
    clock: Clock | None = None,
    *,
    logged: RequestFilter | None = None,
    upkeep: Upkeep | None = None,
    lock: contextlib.AbstractContextManager[object] | None = None,
    listeners: Sequence[Listener] | None = None,
) -> Iterator[Server]:
    """Serves a broker on free ports of the loopback, by default as the listeners for clients; the
    broker is closed at the end.
    """
    wanted = client_listeners(broker.settings.config) if listeners is None else listeners
    free = [dataclasses.replace(one, address=("127.0.0.1", 0)) for one in wanted]
    embedding = Embedding(upkeep=upkeep, lock=lock or threading.RLock())
    server = Server(broker, free, clock=clock or SystemClock(), embedding=embedding)
    if logged is not None:
        server.log_requests(logged)
    server.start()
    thread = threading.Thread(target=server.run, name="server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(PATIENCE_S)
        broker.close()
    assert not thread.is_alive()


class WireClient:
    """Sends requests in the versions it is told to, and reads what comes back."""

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext | None = None,
        *,
        client_id: str = "test",
    ) -> None:
        """With a context it speaks TLS, to a server that shows a certificate of `localhost`."""
        self._client_id = client_id
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        if context is not None:
            plain = self.socket
            try:
                self.socket = in_tls(context, plain, server_hostname="localhost")
            finally:
                if self.socket is plain:
                    plain.close()
        self._numbers = itertools.count(1)

    def __enter__(self) -> "WireClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, request: Message, version: int) -> bytes:
        """A request as it is sent, under the next correlation id."""
        assert request.API_KEY is not None
        header = RequestHeader(request.API_KEY, version, next(self._numbers), self._client_id)
        output = Output()
        encode_request(header, request, output)
        return output.read_all()

    def send(self, request: Message, version: int) -> None:
        self.socket.sendall(self.frame(request, version))

    def receive(self, api_key: int, version: int) -> Any:
        """The next response, which must be of that API and version."""
        frame = self.receive_frame()
        assert frame is not None, "the server closed the connection"
        _, position = read_response_header(frame, api_key, version)
        response, end = reader(response_class(api_key), version)(frame, position)
        assert end == len(frame)
        return response

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        assert request.API_KEY is not None
        return self.receive(request.API_KEY, version)

    def receive_frame(self) -> bytes | None:
        """The next frame without its size, `None` when the connection is closed."""
        size = self._receive_exactly(4)
        return None if size is None else self._receive_exactly(int.from_bytes(size, "big"))

    def _receive_exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                some = self.socket.recv(size - len(data))
            except ConnectionResetError:
                return None
            if not some:
                return None
            data += some
        return bytes(data)
