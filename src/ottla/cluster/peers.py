"""Connections to the brokers of the cluster, including this broker's own listener.

The function that connects, with TLS and login if the listener requires them, is passed in.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from ottla.base.errors import OttlaError, UserError
from ottla.codec.schema import Message
from ottla.metadata.brokers import BrokerRegistration, Endpoint

BACKOFF_S = 0.1
"""The pause between two attempts to reach a broker."""


class PeerConnection(Protocol):
    """A connection to a broker, used by one thread. Errors are `UserError`."""

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        """The version in which a request is sent: the highest common one, at most `newest`."""

    def ask(self, request: Message, *, newest: int | None = None) -> Any:
        """Returns the response; its records are valid until the next request."""

    def close(self) -> None: ...


Connect = Callable[[Endpoint, str], PeerConnection]
"""Connects to an endpoint with a client id; raises `UserError`."""


class PeerError(OttlaError):
    """A request failed; the broker may have received it nevertheless."""


class Peer:
    """A broker; reconnects if its endpoint has changed or a request failed. For one thread."""

    def __init__(self, connect: Connect, client_id: str) -> None:
        self._connect = connect
        self._client_id = client_id
        self._endpoint: Endpoint | None = None
        self._connection: PeerConnection | None = None

    def ask(self, endpoint: Endpoint | None, request: Message, newest: int | None = None) -> Any:
        """Returns the response; raises `PeerError`, also if the broker has no such endpoint."""
        with self._errors():
            return self._connected(endpoint).ask(request, newest=newest)

    def version_of(self, endpoint: Endpoint | None, api_key: int, newest: int | None) -> int:
        """See `PeerConnection.version_of`; raises `PeerError`."""
        with self._errors():
            return self._connected(endpoint).version_of(api_key, newest=newest)

    def _connected(self, endpoint: Endpoint | None) -> PeerConnection:
        if endpoint is None:
            raise PeerError("the broker is down or has no such listener")
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
        except Exception:
            self.close()  # what is left of the response would be taken for the next one
            raise

    def close(self) -> None:
        """Closes the connection; a pending request fails. May be called by another thread."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.close()


def endpoint_of(broker: BrokerRegistration | None, listener: str) -> Endpoint | None:
    return None if broker is None else broker.endpoint(listener)
