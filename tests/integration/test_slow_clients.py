"""Clients that send requests or take answers too slowly are cut off; those that keep up stay."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.server.network.connection import Connection
from ottla.server.network.connection_events import CloseReason
from ottla.server.network.listener import Server
from ottla.server.network.transfer_rates import moved_bytes
from ottla.testing.clock import FakeClock
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker, serving

pytestmark = pytest.mark.slow

VERSIONS = ApiVersionsRequest()
RATE, WINDOW_MS, LOOK_MS = 1000, 60_000, 10_000
ENOUGH = RATE * LOOK_MS // 1000
LOOKS = 2 * WINDOW_MS // LOOK_MS
LIMITS = {
    "ottla_min_transfer_rate": str(RATE),
    "ottla_min_transfer_rate_window_ms": str(WINDOW_MS),
    "connections_max_idle_ms": str(WINDOW_MS),
}
LARGE = DescribeConfigsRequest(
    resources=[
        DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    ],
    include_documentation=True,
)
ANSWERS = 1000
"""Of `LARGE`: more than the sockets on the way have room for."""


@pytest.fixture(autouse=True)
def kernel_says() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        if moved_bytes(one) is None:
            pytest.skip("this system does not say how much a connection has moved")


class Slow:
    """A broker whose clock the test moves, and its only client that does not keep up."""

    def __init__(self, server: Server, clock: FakeClock, client: WireClient) -> None:
        self.server = server
        self.client = client
        self._clock = clock
        assert client.ask(VERSIONS, 0).error_code == 0
        (self.connection,) = server._connections

    @property
    def cut_off(self) -> bool:
        return self.connection.is_closed

    def look(self) -> None:
        """Has the server look after its connections, ten seconds later."""
        self._clock.advance(LOOK_MS + 1)
        self.server.wake()
        with WireClient(self.server.address) as other:
            assert other.ask(VERSIONS, 0).error_code == 0

    def wait_until(self, is_so: Callable[[Connection], bool]) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not is_so(self.connection):
            assert time.monotonic() < until_s
            time.sleep(0.001)


@pytest.fixture(params=[LIMITS])
def slow(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Slow]:
    clock = FakeClock()
    broker = open_broker(tmp_path / "data", **request.param)
    with serving(broker, clock) as server, WireClient(server.address) as client:
        yield Slow(server, clock, client)


def test_a_client_that_trickles_a_request_is_cut_off(slow: Slow) -> None:
    slow.client.socket.sendall((1_000_000).to_bytes(4, "big"))
    for _ in range(WINDOW_MS // LOOK_MS):
        slow.look()
        assert not slow.cut_off
        slow.client.socket.sendall(b"x")
    slow.look()
    slow.look()
    assert slow.cut_off
    assert slow.server.connection_counts.closed[CloseReason.SLOW] == 1


def test_a_client_that_sends_a_large_request_steadily_stays(slow: Slow) -> None:
    slow.client.socket.sendall((1_000_000).to_bytes(4, "big"))
    for sent in range(LOOKS):
        slow.client.socket.sendall(bytes(2 * ENOUGH))
        expected = 4 + (sent + 1) * 2 * ENOUGH
        slow.wait_until(lambda one, expected=expected: one.reader.pending_size == expected)  # type: ignore[misc]
        slow.look()
        assert not slow.cut_off


def asks_for_much(slow: Slow) -> None:
    frame = slow.client.frame(LARGE, 4)
    slow.client.socket.setblocking(False)
    left = frame * ANSWERS
    until_s = time.monotonic() + PATIENCE_S
    while not slow.connection._send_queue:
        assert time.monotonic() < until_s
        try:
            left = left[slow.client.socket.send(left) :]
        except BlockingIOError:
            time.sleep(0.001)


def test_a_client_that_takes_no_answers_is_cut_off(slow: Slow) -> None:
    asks_for_much(slow)
    for _ in range(WINDOW_MS // LOOK_MS):
        slow.look()
        assert not slow.cut_off
    slow.look()
    slow.look()
    assert slow.cut_off


def test_a_client_that_takes_answers_steadily_stays(slow: Slow) -> None:
    asks_for_much(slow)
    for _ in range(LOOKS):
        before = moved_bytes(slow.connection.socket) or 0
        taken = 0
        while (moved_bytes(slow.connection.socket) or 0) < before + 2 * ENOUGH:
            try:
                taken += len(slow.client.socket.recv(65536))
            except BlockingIOError:
                time.sleep(0.001)
        slow.look()
        assert not slow.cut_off


@pytest.mark.parametrize("slow", [{**LIMITS, "ottla_min_transfer_rate": "0"}], indirect=True)
def test_without_a_rate_only_idleness_counts(slow: Slow) -> None:
    slow.client.socket.sendall((1_000_000).to_bytes(4, "big"))
    for _ in range(WINDOW_MS // LOOK_MS + 1):
        slow.look()
    assert slow.cut_off
    assert slow.server.connection_counts.closed[CloseReason.IDLE] == 1
