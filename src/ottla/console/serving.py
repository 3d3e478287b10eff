"""Serves the console over HTTP with uvicorn on its own socket; its end awaits no streams."""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from starlette.types import ASGIApp

from ottla.base.addresses import address_text
from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.console.access import AccessPolicy
from ottla.console.app import make_app
from ottla.console.clusters import make_clusters_app
from ottla.console.state import ConsoleState

BACKLOG = 128
GOODBYE_S = 2
LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address for a browser on this machine if the console listens on all addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """PEM files for TLS."""

    certificate: str
    key: str | None = None


class ConsoleServer:
    """A server that listens from its creation and responds in `run`. Raises `UserError`."""

    def __init__(
        self,
        states: ConsoleState | Sequence[ConsoleState],
        address: tuple[str, int],
        policy: "Callable[[tuple[str, int]], AccessPolicy]",
        certificate: Certificate | None = None,
    ) -> None:
        """Several states have the names of their clusters. `policy` is called with the bound
        address, because the given port may be 0.
        """
        self._states = [states] if isinstance(states, ConsoleState) else states
        self._socket = _listening(address)
        try:
            self.address: tuple[str, int] = self._socket.getsockname()[:2]
            self.policy = policy(self.address)
            if isinstance(states, ConsoleState):
                app = make_app(states, self.policy)
            else:
                app = make_clusters_app(states, self.policy)
            self._server = _Server(_config(app, certificate))
        except BaseException:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="console", daemon=True)
        self._scheme = "http" if certificate is None else "https"

    @property
    def link(self) -> str:
        """The link for a browser, with the token if one is required."""
        host = LOCAL.get(self.address[0], self.address[0])
        token = f"?token={self.policy.token}" if self.policy.token else ""
        return f"{self._scheme}://{address_text(host, self.address[1])}/{token}"

    def run(self) -> None:
        """Serves until `stop`, or until a signal handler raises an exception here."""
        with self.in_thread():
            self._thread.join()

    def stop(self) -> None:
        """Makes `run` return soon; may be called by a signal handler."""
        for one in self._states:
            one.stopping.set()
        self._server.should_exit = True

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[str]:
        """Serves in a thread during the block; yields the link."""
        self._thread.start()
        try:
            yield self.link
        finally:
            self.stop()
            self._thread.join()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()


class _Server(uvicorn.Server):
    """Leaves signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp, certificate: Certificate | None) -> uvicorn.Config:
    """The uvicorn configuration; raises `UserError` if the certificate cannot be read."""
    found = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        loop="asyncio",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GOODBYE_S,
        ssl_certfile=None if certificate is None else certificate.certificate,
        ssl_keyfile=None if certificate is None else certificate.key,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    try:
        found.load()
    except OSError as error:
        named = certificate.certificate if certificate is not None else "the console"
        raise UserError(f"{named}: {error.strerror or error}; name PEM files") from error
    return found


def _listening(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise UserError(
            f"{address_text(*address)}: {error.strerror or error}; choose another address with "
            "--listen HOST:PORT, such as 127.0.0.1:0"
        ) from error
    return found
