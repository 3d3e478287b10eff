"""A dispatcher asked without a socket: a request goes in as bytes, the response comes out."""

from typing import Any

from ottla.base.clock import Clock
from ottla.broker.broker import Broker
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.protocol.headers import RequestHeader, encode_request, read_response_header
from ottla.protocol.messages import response_class
from ottla.server.dispatching.dispatch import Dispatcher
from ottla.server.dispatching.request_context import Client, PendingResponse
from ottla.testing.clock import FakeClock
from tests.support.brokers import at

ADDRESS = ("10.0.0.1", 9092)
PEER = Client(ADDRESS, "10.0.0.9")
CORRELATION_ID = 77


class Asker:
    """One client of a broker; the clock stands still unless `monotonic_ms` is moved."""

    def __init__(self, broker: Broker, clock: Clock | None = None, client: Client = PEER) -> None:
        self.broker = broker
        self.client = client
        self.monotonic_ms = 0.0
        self._dispatcher = Dispatcher(broker, clock or FakeClock())

    def pass_to(self, monotonic_ms: float) -> None:
        """Moves the clock, also for responses that have to wait."""
        self.monotonic_ms = monotonic_ms
        self._dispatcher.set_time(at(monotonic_ms))

    def send(self, request: Message, version: int) -> tuple[PendingResponse | None, Output]:
        """Dispatches a request and writes out what it appended."""
        assert request.API_KEY is not None
        incoming = Output()
        header = RequestHeader(request.API_KEY, version, CORRELATION_ID, "test")
        encode_request(header, request, incoming)
        frame = memoryview(bytearray(incoming.read_all()))[4:]
        output = Output()
        self._dispatcher.set_time(at(self.monotonic_ms))
        later = self._dispatcher.dispatch(frame, self.client, output)
        self.broker.appends.write_out()
        return later, output

    def ask(self, request: Message, version: int) -> Any:
        """The response, which must come at once."""
        later, output = self.send(request, version)
        assert later is None, "the answer has to wait"
        return self.decode(request, version, output)

    def finish(self, later: PendingResponse, request: Message, version: int) -> Any:
        """The response that had to wait, when the broker has handed its pending_id back."""
        _, output = self.go_on(later)
        return self.decode(request, version, output)

    def go_on(self, later: PendingResponse) -> tuple[PendingResponse | None, Output]:
        """As `send`, when the broker has handed the pending_id back."""
        output = Output()
        return self._dispatcher.finish(later, output), output

    def decode(self, request: Message, version: int, output: Output) -> Any:
        assert request.API_KEY is not None
        frame = output.read_all()
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        correlation_id, position = read_response_header(frame[4:], request.API_KEY, version)
        assert correlation_id == CORRELATION_ID
        message = response_class(request.API_KEY)
        response, end = reader(message, version)(frame[4:], position)
        assert end == len(frame) - 4
        return response
