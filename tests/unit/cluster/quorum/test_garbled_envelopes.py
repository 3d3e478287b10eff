"""A controller that answers Envelopes with garbage, over a socket: clients get what is theirs."""

import socket
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.principal import ANONYMOUS
from ottla.broker.waiting.rooms import Waiting
from ottla.client.connecting.socket_connection import SocketConnection
from ottla.cluster.quorum import forwarding
from ottla.cluster.quorum.forwarding import Forwarding, ForwardingParts
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.metadata.brokers import Endpoint
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_response, read_request_header
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tests.support.patience import PATIENCE_S
from tests.support.threaded_server import ThreadedServer

SILENCE_S = 0.05
"""How long an answer is waited for."""


def framed(header: RequestHeader, response: Message) -> bytes:
    output = Output()
    encode_response(header, response, output)
    return bytes(output.read_all())


def sound(header: RequestHeader, request: EnvelopeRequest) -> bytes:
    return framed(header, EnvelopeResponse(response_data=bytes(request.request_data)[::-1]))


def of_another(header: RequestHeader, request: EnvelopeRequest) -> bytes:
    other = replace(header, correlation_id=header.correlation_id + 1)
    return framed(other, EnvelopeResponse(response_data=b"not yours"))


def coded(code: int) -> "Deed":
    return lambda header, _: framed(header, EnvelopeResponse(error_code=code))


def of_length(size: int, content: bytes = b"\x00" * 8) -> "Deed":
    return lambda *_: (size & 0xFFFFFFFF).to_bytes(4, "big") + content


def cut_at(size: int) -> "Deed":
    """And no more: the connection is closed."""
    return lambda *given: Cut(sound(*given)[:size])


def twice(header: RequestHeader, request: EnvelopeRequest) -> bytes:
    return 2 * sound(header, request)


def silence(*_: object) -> bytes:
    return b""


class Cut(bytes):
    """After it the connection is closed."""


Deed = Callable[[RequestHeader, EnvelopeRequest], bytes]


def named(name: str, deed: Deed) -> Deed:
    deed.__name__ = name
    return deed


GARBAGE: st.SearchStrategy[Deed] = st.one_of(
    st.sampled_from([of_another, twice, silence]),
    st.integers(0, 30).map(lambda size: named(f"cut at {size}", cut_at(size))),
    st.sampled_from([-(1 << 31), -1, 0, 1, 5, 1 << 27, (1 << 31) - 1]).map(
        lambda size: named(f"of length {size}", of_length(size))
    ),
    st.binary(max_size=40).map(lambda one: named(repr(one), of_length(len(one), one))),
    st.sampled_from([-2, 41, 137, 32767]).map(lambda one: named(f"error {one}", coded(one))),
)


class Garbler(ThreadedServer):
    """Does its deeds in turn, and then answers as a controller."""

    def __init__(self) -> None:
        self.deeds: deque[Deed] = deque()
        super().__init__()

    def serve(self, peer: socket.socket) -> None:
        with peer.makefile("rb") as frames:
            while size := frames.read(4):
                frame = memoryview(frames.read(int.from_bytes(size, "big")))
                header, position = read_request_header(frame)
                if header.api_key == ApiKey.API_VERSIONS:
                    known = [ApiVersion(api_key=ApiKey.ENVELOPE, min_version=0, max_version=0)]
                    peer.sendall(framed(header, ApiVersionsResponse(api_keys=known)))
                    continue
                request, _ = reader(EnvelopeRequest, 0)(frame, position)
                deed = self.deeds.popleft() if self.deeds else sound
                answer = deed(header, request)
                peer.sendall(answer)
                if isinstance(answer, Cut):
                    return


class Client:
    """Of a broker that passes on what it is asked."""

    def __init__(self, controller: Garbler) -> None:
        self.complaints: list[str] = []
        self._answers: SimpleQueue[tuple[Waiting[Buffer | ApiError], bytes | ApiError]] = (
            SimpleQueue()
        )
        where = Endpoint(
            listener="C", host="127.0.0.1", port=controller.port, security_protocol="PLAINTEXT"
        )
        self.forwarding = Forwarding(
            ForwardingParts(
                connect=lambda *_: SocketConnection(
                    "127.0.0.1", controller.port, timeout_s=SILENCE_S
                ),
                quick_connect=lambda *_: SocketConnection(
                    "127.0.0.1", controller.port, timeout_s=SILENCE_S
                ),
                client_id="1",
                controller=lambda: where,
                answered=self._answered,
                clock=SystemClock(),
                timeout_ms=PATIENCE_S * 1000,
                complain=self.complaints.append,
            )
        )

    def _answered(self, waiting: Waiting[Buffer | ApiError], answer: Buffer | ApiError) -> None:
        self._answers.put((waiting, answer if isinstance(answer, ApiError) else bytes(answer)))

    def ask_all(self, requests: list[bytes]) -> list[bytes | ApiError]:
        asked = [self.forwarding.forward(one, ANONYMOUS, "10.0.0.7") for one in requests]
        found = dict(self._answers.get(timeout=PATIENCE_S) for _ in requests)
        return [found[one] for one in asked]


@pytest.fixture(scope="module")
def controller() -> Iterator[Garbler]:
    found = Garbler()
    yield found
    found.close()


@pytest.fixture(scope="module")
def client(controller: Garbler) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forwarding, "BACKOFF_S", 0.001)
        found = Client(controller)
        found.forwarding.start()
        yield found
        found.forwarding.stop()


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(GARBAGE, max_size=4))
@example([of_another, of_another])
@example([twice])
@example([silence])
@example([of_length((1 << 31) - 1)])
def test_whatever_a_controller_answers_each_request_gets_its_own_answer(
    controller: Garbler, client: Client, deeds: list[Deed]
) -> None:
    controller.deeds = deque(deeds)
    requests = [b"%d of the clients" % number for number in range(3)]
    for request, answer in zip(requests, client.ask_all(requests), strict=True):
        if isinstance(answer, ApiError):
            assert answer.code is ErrorCode.UNKNOWN_SERVER_ERROR, "a code that is not known"
        else:
            assert answer in (request[::-1], b""), "an Envelope of garbage may have nothing"
    controller.deeds.clear()
    (answer,) = client.ask_all([b"sound"])
    assert answer == b"dnuos"
