"""A `Connection` over a socket. Kafka's counterpart: `NetworkClient`, of which little is needed for
few concurrent requests.

Only a client of a broker imports this: one of an open log needs no sockets.
"""

import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from time import monotonic
from typing import Any, Final

from ottla.base.addresses import address_text
from ottla.base.closing import Closing
from ottla.base.errors import ApiError, ProtocolError, UnreachableError, UserError
from ottla.base.files import Buffer, FileSlice
from ottla.base.memory_files import COPIED_SIZE, MemoryFile
from ottla.client.connecting.connection import ADDRESS_HINT, CLIENT_ID
from ottla.client.connecting.security import PLAINTEXT, Security
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_request, read_response_header
from ottla.protocol.messages import request_class, response_class
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.runtime.forks import bind_to_process

MAX_FRAME_SIZE = 100 << 20
CONNECT_TIMEOUT_S = 10.0
"""Time limit for a TCP connection: Kafka's `socket.connection.setup.timeout.ms`."""

RENEWED_AFTER = 0.85
"""Share of a login's lifetime after which the client logs in again."""

AHEAD_SIZE = 1 << 14
"""Minimum bytes to receive at once, if available: often responses to several requests."""

LONG_FRAME: Final = 1 << 16
"""Size from which memory is kept for the next frame."""

SECURITY_HINT = "; set security.protocol if the listener needs TLS or a login"
TRUST_HINT = "; ssl.ca.location names the file of the authority that the broker's certificate is of"
CERTIFICATE_HINT = "; ssl.certificate.location names the file of the certificate that it asks for"
EXPIRED_HINT = "; the broker's certificate is to be renewed"
REJECTED_HINT = "; the certificate that ssl.certificate.location names is not accepted there"
REJECTIONS = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED")
"""Alerts of TLS about the certificate that was shown."""
NO_TLS_HINT = "; if the listener uses no TLS, set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
CLOSED = "the connection was closed"


class SocketConnection(Closing):
    """A `Connection` over a socket. Network errors raise `UnreachableError`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float = 30.0,
        client_id: str = CLIENT_ID,
        security: Security = PLAINTEXT,
        keeps_memory: bool = False,
    ) -> None:
        """Connects, negotiates versions, and logs in if required.

        With `keeps_memory` the records in a response are valid until the next response: receiving
        long ones into fresh memory takes a quarter more processor time. Raises `UnreachableError`,
        and `AuthenticationError` if the login is refused.
        """
        self.address = address_text(host, port)
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._correlation_id = 0
        self._unanswered: deque[RequestHeader] = deque()
        self._answers: dict[int, Any] = {}
        self._ahead = b""
        """Bytes received beyond the frame that is being read."""
        self._keeps_memory = keeps_memory
        self._kept = memoryview(b"")
        self._versions: dict[int, tuple[int, int]] = {}
        self._security = security
        self._expires_s: float | None = None
        try:
            self._socket = socket.create_connection((host, port), min(timeout_s, CONNECT_TIMEOUT_S))
        except OSError as error:
            raise self._error(error) from error
        self._socket.settimeout(timeout_s)
        bind_to_process(self)
        try:
            if security.has_tls:
                self._socket = self._secured(security, host)
            answer = self._receive(self._send([ApiVersionsRequest()], [0])[0])
        except BaseException:
            self.close()
            raise
        self._versions = {
            one.api_key: (one.min_version, one.max_version) for one in answer.api_keys
        }
        if security.has_login:
            try:
                self._log_in()
            except BaseException:
                self.close()
                raise

    def wait_up_to(self, timeout_s: float) -> None:
        """Has each response from now on come within that time."""
        self._timeout_s = timeout_s
        self._socket.settimeout(timeout_s)

    def close(self) -> None:
        # Otherwise a thread that waits for a response would continue to wait.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def abandon(self) -> None:
        """In a forked child: closes its copy of the socket. A shutdown would end the parent's."""
        self._socket.close()

    def answers(self, api_key: ApiKey) -> bool:
        return api_key in self._versions

    @property
    def has_all_transactions(self) -> bool:
        return True

    def ask(self, request: Message, *, newest: int | None = None) -> Any:
        return self.send(request, newest=newest)()

    def send(self, request: Message, *, newest: int | None = None) -> Callable[[], Any]:
        return self.send_all([request], newest=newest)[0]

    def send_all(
        self, requests: Sequence[Message], *, newest: int | None = None
    ) -> list[Callable[[], Any]]:
        if self._expires_s is not None and monotonic() >= self._expires_s and not self._unanswered:
            self._log_in()
        versions = [self.version_of(one.API_KEY or 0, newest=newest) for one in requests]
        headers = self._send(requests, versions)
        answers: list[Callable[[], Any]] = []
        for request, header in zip(requests, headers, strict=True):
            if isinstance(request, ProduceRequest) and request.acks == 0:
                self._unanswered.remove(header)
                answers.append(lambda: None)
            else:
                answers.append(partial(self._receive, header))
        return answers

    def _log_in(self) -> None:
        """Logs in on a new connection, and again before the login expires (KIP-368)."""
        from ottla.client.connecting.login import log_in

        self._expires_s = None
        lifetime_ms = log_in(self._security, self)
        if lifetime_ms > 0:
            self._expires_s = monotonic() + lifetime_ms / 1000 * RENEWED_AFTER

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        known = request_class(api_key).VERSIONS
        oldest, last = self._versions.get(api_key, (0, -1))
        version = min(last, known.last, known.last if newest is None else newest)
        if version < max(oldest, known.first):
            name = ApiKey(api_key).name
            if ApiKey.VOTE in self._versions and ApiKey.METADATA not in self._versions:
                raise UserError(
                    f"{self.address} is a listener of controllers, which does not answer {name}; "
                    "name a broker's (ottla cluster status --controllers asks controllers)"
                )
            raise UserError(
                f"{self.address} does not answer {name} in a version that is known here"
            )
        return version

    def _secured(self, security: Security, host: str) -> socket.socket:
        from ottla.client.connecting.login import wrapped

        try:
            return wrapped(security, self._socket, host)
        except OSError as error:
            raise self._error(error) from error

    def _send(self, requests: Sequence[Message], versions: Sequence[int]) -> list[RequestHeader]:
        headers: list[RequestHeader] = []
        pieces: list[Buffer | FileSlice] = []
        for request, version in zip(requests, versions, strict=True):
            assert request.API_KEY is not None
            self._correlation_id += 1
            header = RequestHeader(request.API_KEY, version, self._correlation_id, self._client_id)
            output = Output()
            try:
                encode_request(header, request, output)
            except struct.error as error:
                what = ApiKey(request.API_KEY).name
                raise UserError(f"{what} has a number that its field cannot: {error}") from error
            pieces += output.pieces() if output.slices else [output.data]
            headers.append(header)
        try:
            self._write(pieces)
        except (OSError, ValueError) as error:
            raise self._error(error) from error
        self._unanswered += headers
        return headers

    def _write(self, pieces: Sequence[Buffer | FileSlice]) -> None:
        """One write for all but what is not to be copied: after each, the thread would wait for
        others of this process.
        """
        together: list[Buffer] = []
        for piece in pieces:
            if not isinstance(piece, FileSlice):
                together.append(piece)
            elif isinstance(piece.file, MemoryFile) and piece.size > COPIED_SIZE:
                # Otherwise what is left would wait until the peer has acknowledged the rest.
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socket.sendall(b"".join(together))
                self._socket.sendall(piece.file.view[piece.position :][: piece.size])
                together = []
            else:
                together.append(piece.read())
        if together:
            self._socket.sendall(together[0] if len(together) == 1 else b"".join(together))

    def _receive(self, header: RequestHeader) -> Any:
        while header.correlation_id not in self._answers:
            if not self._unanswered:
                raise self._error(ProtocolError(CLOSED))
            oldest = self._unanswered.popleft()
            self._answers[oldest.correlation_id] = self._next_answer(oldest)
        return self._answers.pop(header.correlation_id)

    def _next_answer(self, header: RequestHeader) -> Any:
        """Returns the next response, which belongs to the oldest pending request."""
        version = header.api_version
        try:
            size = int.from_bytes(self._read(memoryview(bytearray(4))), "big")
            if size > MAX_FRAME_SIZE:
                raise ProtocolError(f"a frame of {size} bytes")
            frame = self._read(self._memory(size))
            correlation_id, position = read_response_header(frame, header.api_key, version)
            if correlation_id != header.correlation_id:
                raise ProtocolError("a response to another request")
            response, _ = reader(response_class(header.api_key), version)(frame, position)
        except (OSError, ProtocolError, ApiError, ValueError) as error:
            # ValueError: a socket with TLS that another thread has closed.
            self.close()  # The stream's position is unknown from here on.
            raise self._error(error) from error
        return response

    def _memory(self, size: int) -> memoryview:
        """One buffer for responses, which are views of it: several megabytes."""
        if not self._keeps_memory:
            return _new_memory(size)
        if size < LONG_FRAME or size > len(self._kept):
            self._kept = _new_memory(size)
        return self._kept[:size]

    def _read(self, frame: memoryview) -> memoryview:
        """Receives until the buffer is full."""
        position, size = 0, len(frame)
        while position < size:
            left = size - position
            if not self._ahead and left >= AHEAD_SIZE:
                count = self._socket.recv_into(frame[position:])
            else:
                self._ahead = self._ahead or self._socket.recv(AHEAD_SIZE)
                piece, self._ahead = self._ahead[:left], self._ahead[left:]
                count = len(piece)
                frame[position : position + count] = piece
            if not count:
                raise ProtocolError(CLOSED)
            position += count
        return frame.toreadonly()

    def _error(self, error: Exception) -> UnreachableError:
        if isinstance(error, TimeoutError) and self._versions:
            return UnreachableError(f"{self.address}: no response within {self._timeout_s:g} s")
        reason = (
            (isinstance(error, OSError) and error.strerror) or str(error) or "no response in time"
        )
        return UnreachableError(f"{self.address}: {reason}{self._hint(error, reason)}")

    def _hint(self, error: Exception, reason: str) -> str:
        """What to change, judged by what was going on when the connection failed."""
        if self._security.has_tls and (hint := hint_of_tls(reason)):
            return hint
        if self._security.has_tls and not self._correlation_id and reason.startswith("[SSL: "):
            return NO_TLS_HINT
        is_closed = reason == CLOSED or isinstance(error, ConnectionError)
        # A listener with logins answers the request for versions, and closes at the next one; one
        # with TLS closes, or resets the connection, at the first.
        is_early = 0 < self._correlation_id <= 2
        return (
            SECURITY_HINT
            if is_closed and is_early and not self._security.has_login
            else (ADDRESS_HINT)
        )


def hint_of_tls(reason: str) -> str:
    """What to do after an error of OpenSSL; empty if it is not about a certificate."""
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return EXPIRED_HINT if "has expired" in reason else TRUST_HINT
    if "CERTIFICATE_REQUIRED" in reason:
        return CERTIFICATE_HINT
    return REJECTED_HINT if any(f"_ALERT_{one}]" in reason for one in REJECTIONS) else ""


def _new_memory(size: int) -> memoryview:
    """A `bytearray` is filled with zeros first, while no other thread of the process runs."""
    if size < LONG_FRAME:
        return memoryview(bytearray(size))
    return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))
