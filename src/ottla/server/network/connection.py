"""One client: its socket, received frames, pending responses, and what blocks them.

Responses are sent in the order of the requests. While a request waits (a long poll), later ones
stay unread in the receive buffer, as Kafka mutes a channel: a connection has one active request.
"""

import socket
from collections.abc import Iterator
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE
from typing import Final

from ottla.base.addresses import Address
from ottla.codec.primitives import Output
from ottla.protocol.framing import DEFAULT_CAPACITY, FrameReader
from ottla.server.authentication.authentication import Authentication
from ottla.server.dispatching.request_context import Client, PendingResponse
from ottla.server.network.connection_events import ClientWent, CloseReason
from ottla.server.network.send_queue import SendQueue
from ottla.server.network.transport import Transport

NUMBERS: Final = count(1)


class Connection:
    """`peer` says to handlers which client asks; `peer_name` is for people.

    `has_metadata`: it was sent the broker's address; `has_found_us`: it has asked more than clients
    ask before they go there. `client_id` is that of its first request. `ends_for`: why it is closed
    once the answers before that are sent. `login` takes its requests where clients must log in.
    `is_starved`: there is no memory for its request yet.
    """

    __slots__ = (
        "_max_request_size",
        "_receive_into",
        "_send_bytes",
        "_send_queue",
        "_transport",
        "came_ms",
        "came_to",
        "client_id",
        "ends_for",
        "frames",
        "has_found_us",
        "has_metadata",
        "interest",
        "is_closed",
        "is_muted",
        "is_starved",
        "is_touched",
        "last_active_ms",
        "later",
        "login",
        "output",
        "peer",
        "peer_name",
        "reader",
        "socket",
    )

    def __init__(
        self, transport: Transport, peer_name: str, client: Client, max_request_size: int
    ) -> None:
        self.socket: socket.socket = transport.socket
        self.peer_name = peer_name
        self.came_to = address_of(transport.socket)
        self.peer = client._replace(connection=next(NUMBERS))
        self._max_request_size = max_request_size
        self.reader = FrameReader(max_request_size, least_space=transport.least_space)
        self.login: Authentication | None = None
        self.frames: Iterator[memoryview] | None = None
        self.output = Output()
        self.later: PendingResponse | None = None
        self.has_metadata = False
        self.has_found_us = False
        self.is_muted = False
        self.is_starved = False
        self.is_closed = False
        self.ends_for: CloseReason | None = None
        self.client_id: str | None = None
        self.came_ms = 0.0
        self.is_touched = False
        self.interest = EVENT_READ
        self.last_active_ms = 0.0
        self._send_queue = SendQueue()
        self._transport = transport
        # Looked up once instead of for each request.
        self._receive_into = transport.recv_into
        self._send_bytes = transport.send

    def advertise(self, advertised: Address | None) -> None:
        """Sends the client to another address from now on, or to the one it used."""
        self.peer = self.peer._replace(address=advertised or self.came_to)

    def has_logged_in(self) -> None:
        """Allows requests of full size from now on."""
        self.reader.limit(self._max_request_size, DEFAULT_CAPACITY)

    def has_failed_to_log_in(self) -> None:
        self.end(CloseReason.REFUSED)

    def receive(self) -> bool:
        """Receives available bytes; returns `False` when the client has closed the connection."""
        assert self.frames is None, "frames are still in the buffer"
        size = self._receive_into(self.reader.writable())
        if size == 0:
            return False
        self.frames = self.reader.received(size)
        return True

    def has_hung_up(self) -> bool:
        """Checks a muted connection without receiving anything."""
        return self._transport.has_hung_up()

    def send(self) -> bool:
        """Sends as much of the encoded responses as the socket accepts; returns `False` if some
        are left.
        """
        output = self.output
        if output.data:
            self.output = Output()
            if not self._send_queue and not output.slices:
                return self._send_at_once(output.data)
            self._send_queue.add(output.data, output.slices)
        return self._send_queue.send(self._transport)

    def _send_at_once(self, data: bytearray) -> bool:
        """Small responses to a client that keeps up need no queue."""
        try:
            sent = self._send_bytes(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return True
        self._send_queue.add(data[sent:], [])
        return False

    @property
    def is_at_rest(self) -> bool:
        """Whether no request is active, and none is being received."""
        return self.frames is None and self.later is None and self.reader.is_empty

    @property
    def is_amid_transfer(self) -> bool:
        """Whether the peer must act: send the rest of a request, or read responses."""
        if self._send_queue:
            return True
        is_waiting = self.is_muted or self.is_starved or self.later is not None
        return not (is_waiting or self.frames is not None or self.reader.is_empty)

    @property
    def wanted_interest(self) -> int:
        """The events to wait for: never further requests while responses are unread."""
        if self._send_queue:
            return EVENT_WRITE
        if self.is_muted or self.is_starved or (self.frames is not None and self.later is None):
            return 0
        return EVENT_READ

    def went(self, reason: CloseReason, error: Exception | None, now_ms: float) -> ClientWent:
        """The event for a client that has sent a request and disconnected."""
        return ClientWent(
            client=self.peer_name,
            client_id=self.client_id or "",
            reason=reason.value if error is None else f"{reason.value}: {error}",
            connected_ms=int(now_ms - self.came_ms),
        )

    def end(self, reason: CloseReason) -> None:
        """Accepts no further requests."""
        self.ends_for = reason
        self.frames = None

    def close(self) -> None:
        self.is_closed = True
        self.frames = None
        self.later = None
        self.login = None
        self._send_queue.clear()
        self._transport.close()


def host_of(peer_name: str) -> str:
    """The address without its port; IPv4 through an IPv6 socket is the same host."""
    return peer_name.rpartition(":")[0].removeprefix("::ffff:")


def address_of(peer: socket.socket) -> tuple[str, int]:
    """The local address of a connection; the IPv4 form for IPv4 through an IPv6 socket."""
    address: tuple[str, int] | tuple[str, int, int, int] = peer.getsockname()
    host = address[0].removeprefix("::ffff:") if "." in address[0] else address[0]
    return host, address[1]
