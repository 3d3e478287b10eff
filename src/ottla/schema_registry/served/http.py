"""Serves the API over HTTP, beside the broker, with one thread per connection.

A page of another site must not be able to use a registry that only this machine or network can
reach. A form, or a script without leave, can send neither the content types that are accepted here
nor another method than GET and POST; `Origin` and `Sec-Fetch-Site` name the page; and `Host` must
be a name that no stranger can own, since theirs may resolve to this address (DNS rebinding).
"""

import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Sequence, Set
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.base.errors import UserError
from ottla.base.http_threads import HttpThreads
from ottla.schema_registry.http import MEDIA_TYPE
from ottla.schema_registry.served.api import Api, answer_text

logger = logging.getLogger(__name__)

LARGEST_BODY: Final = 2 << 20
BODY_PATIENCE_S: Final = 30.0
"""For a whole body, however slowly its parts arrive."""
MEDIA_TYPES: Final = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json")
"""What is answered, the preferred one first."""
REQUEST_TYPES: Final = (*MEDIA_TYPES, "application/octet-stream")
OUR_NAMES: Final = ("localhost", "local", "internal", "test", "home.arpa", "svc")
"""Domains that nobody can register."""
_UNREACHABLE: Final = 50003
"""The API's code if the registry cannot reach its topic."""


class RegistryServer:
    """Serves until `close`; raises `UserError` if the address is not available.

    `names` are further host names by which clients may ask.
    """

    def __init__(self, address: tuple[str, int], api: Api, names: Sequence[str] = ()) -> None:
        host, port = address
        own = {one.lower() for one in (*names, host, socket.gethostname())}
        try:
            self._server = HttpThreads((host, port), partial(_Handler, api, own))
        except OSError as error:
            raise UserError(f"--schema-registry {host}:{port}: {error.strerror}") from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="ottla-schema-registry", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _RefusedError(Exception):
    """A request that does not get to the API."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class _Handler(BaseHTTPRequestHandler):
    """Serves one connection; `own_names` are those that `Host` may have."""

    timeout = 30.0  # closes connections that send nothing, to free their threads
    protocol_version = "HTTP/1.1"

    def __init__(self, api: Api, own_names: Set[str], *connection: Any) -> None:
        self._api = api
        self._own_names = own_names
        super().__init__(*connection)  # serves until the connection ends

    def _serve(self) -> None:
        try:
            body = self._body()
            self._check_sender(body)
            accepted = media_type(self.headers.get_all("Accept") or ())
            if accepted is None:
                raise _RefusedError(406, "HTTP 406 Not Acceptable")
            method = "GET" if self.command == "HEAD" else self.command
            self._answer(*self._api.answer(method, self.path, body), accepted)
        except _RefusedError as error:
            self._refuse(error.status, error.message)
        except UserError as error:
            logger.warning("the schema registry cannot answer: %s", error)
            self._answer(500, {"error_code": _UNREACHABLE, "message": str(error)})

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - http.server's
    do_OPTIONS = do_PATCH = do_TRACE = _serve  # noqa: N815 - answered with 405

    def _body(self) -> bytes:
        """Raises `_RefusedError`; the connection then ends, as the body is not read."""
        if "Transfer-Encoding" in self.headers:
            raise _RefusedError(411, "a body needs a Content-Length")
        lengths = set(self.headers.get_all("Content-Length") or ("0",))
        length = lengths.pop()
        if lengths or not (length.isascii() and length.isdigit()):
            raise _RefusedError(400, "Content-Length is not a number")
        if len(length) > 10 or int(length) > LARGEST_BODY:
            raise _RefusedError(413, f"the body has more than {LARGEST_BODY} bytes")
        return self._read(int(length))

    def _read(self, length: int) -> bytes:
        parts, left = [], length
        until = time.monotonic() + BODY_PATIENCE_S
        while left:
            patience = until - time.monotonic()
            if patience <= 0:
                raise _RefusedError(408, f"the body took more than {BODY_PATIENCE_S:.0f} s")
            self.connection.settimeout(min(patience, self.timeout))
            try:
                part = self.rfile.read1(left)
            except TimeoutError as error:
                raise _RefusedError(408, "the body did not arrive") from error
            if not part:
                raise _RefusedError(400, "the body is shorter than its Content-Length")
            parts.append(part)
            left -= len(part)
        self.connection.settimeout(self.timeout)
        return b"".join(parts)

    def _check_sender(self, body: bytes) -> None:
        host = self.headers.get("Host", "")
        if not is_own_host(host, self._own_names):
            raise _RefusedError(
                403,
                f"{host or 'a request without Host'} is not a name of this registry; name it "
                "in --schema-registry NAME:PORT or advertised.listeners",
            )
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if (origin is not None and _netloc(origin) != host) or site not in (
            "none",
            "same-origin",
        ):
            raise _RefusedError(403, "another site's page asked for this")
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if body and kind not in REQUEST_TYPES:
            raise _RefusedError(415, "HTTP 415 Unsupported Media Type")

    def _refuse(self, status: int, message: str) -> None:
        """The rest of the connection is not read, since it may be part of the body."""
        self.close_connection = True
        self._answer(status, {"error_code": status, "message": message})

    def _answer(self, status: int, content: object, kind: str = MEDIA_TYPE) -> None:
        data = answer_text(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server refuses, such as a line that is not HTTP: in JSON as well."""
        self.command = getattr(self, "command", None) or ""
        self._refuse(code, f"HTTP {int(code)} {message or self.responses[code][0]}")

    def version_string(self) -> str:
        return "ottla"

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


def media_type(accepted: Sequence[str]) -> str | None:
    """The content type of the answer for `Accept` headers; `None` if none is accepted."""
    ranges = [_range(one) for header in accepted for one in header.split(",") if one.strip()]
    if not ranges:
        return MEDIA_TYPE
    found = [(_quality(kind, ranges), kind) for kind in MEDIA_TYPES]
    quality, kind = max(found, key=lambda one: one[0])
    return kind if quality > 0 else None


def _range(text: str) -> tuple[str, float]:
    kind, *parameters = (one.strip().lower() for one in text.split(";"))
    for one in parameters:
        name, _, value = one.partition("=")
        if name.strip() == "q":
            try:
                return kind, float(value)
            except ValueError:
                return kind, 0.0
    return kind, 1.0


def _quality(kind: str, ranges: Sequence[tuple[str, float]]) -> float:
    """That of the most specific range for the type."""
    for wanted in (kind, "application/*", "*/*"):
        found = [quality for name, quality in ranges if name == wanted]
        if found:
            return max(found)
    return 0.0


def is_own_host(host: str, names: Set[str]) -> bool:
    """Whether `Host` is an address, a name of ours, or one that no stranger can own.

    A name without a dot, or in a domain that is not sold, does not come from the public DNS.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if not name:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        is_private = "." not in name or name.endswith(tuple(f".{one}" for one in OUR_NAMES))
        return is_private or name in names
    return True


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
