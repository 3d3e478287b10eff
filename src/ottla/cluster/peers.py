"""Connections to the other brokers of the cluster, and to this one's own listener.

A function that connects, with TLS and a login if the listener requires them, is passed in.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from ottla.base.errors import OttlaError, UserError
from ottla.codec.schema import Message
from ottla.registries.brokers import BrokerRegistration, Endpoint

BACKOFF_S = 0.1
"""Between two tries to reach a broker."""


class PeerConnection(Protocol):
    """A broker, asked from one thread. What goes wrong on the way is a `UserError`."""

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        """The version in which a request goes out: `newest`, or an older one that both know."""

    def ask(self, request: Message, *, newest: int | None = None) -> Any:
        """The response to a request; records in it are there until the next one is asked for."""

    def close(self) -> None: ...


Connect = Callable[[Endpoint, str], PeerConnection]
"""Connects to an endpoint under a client id; raises `UserError`."""


class PeerError(OttlaError):
    """A broker could not be asked; the request may have arrived all the same."""


class Peer:
    """One broker, connected to again where it has moved or did not answer. For one thread."""

    def __init__(self, connect: Connect, client_id: str) -> None:
        self._connect = connect
        self._client_id = client_id
        self._endpoint: Endpoint | None = None
        self._connection: PeerConnection | None = None

    def ask(self, endpoint: Endpoint | None, request: Message, newest: int | None = None) -> Any:
        """Raises `PeerError`, also for a broker that has no such endpoint."""
        with self._errors():
            return self._connected(endpoint).ask(request, newest=newest)

    def version_of(self, endpoint: Endpoint | None, api_key: int, newest: int | None) -> int:
        """As `ask`."""
        with self._errors():
            return self._connected(endpoint).version_of(api_key, newest=newest)

    def _connected(self, endpoint: Endpoint | None) -> PeerConnection:
        if endpoint is None:
            raise PeerError("the broker is not up, or has no such listener")
        if endpoint != self._endpoint:
            self.close()
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect(endpoint, self._client_id)
            self._endpoint = endpoint
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (UserError, OSError) as error:
            self.close()
            raise PeerError(str(error)) from error

    def close(self) -> None:
        """From another thread too: what waits for an answer gets none."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.close()


def endpoint_of(broker: BrokerRegistration | None, listener: str) -> Endpoint | None:
    return None if broker is None else broker.endpoint(listener)
