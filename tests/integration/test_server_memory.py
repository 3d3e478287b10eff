"""What clients that say little cost a broker in memory, as the system counts it."""

import contextlib
import resource
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.machine import cost_of
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from tests.integration.cli.support import serving
from tests.support.serving import WireClient

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc"),
]

MEGABYTE = 1_000_000
COUNT = 1000
FILES_NEEDED = 2 * COUNT
PER_CONNECTION = 16_000
"""Bytes: its objects, and the pages of its buffer that something has come into."""

SPREAD = 5 * MEGABYTE
"""What memory may differ by without a meaning."""

HUGE_FRAME = struct.pack(">i", 50_000_000)


class Crowd:
    """A broker in a process of its own, and many connections to it."""

    def __init__(self, address: str, pid: int) -> None:
        host, port = address.split(":")
        self._address = (host, int(port))
        self._pid = pid
        self.clients: list[WireClient] = []
        self.prove_that_a_good_client_is_served()

    def come(self) -> None:
        self.clients = [WireClient(self._address) for _ in range(COUNT)]

    def each(self, act: Callable[[socket.socket], object]) -> None:
        for client in self.clients:
            act(client.socket)

    def vanish(self) -> None:
        """Hangs up as a machine does that fails: with a reset."""
        for client in self.clients:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.socket.close()
        self.clients = []

    def resident_size(self) -> int:
        """Bytes, once everything that was sent has been taken in."""
        self.prove_that_a_good_client_is_served()
        cost = cost_of(self._pid)
        assert cost is not None
        return cost.resident_bytes

    def prove_that_a_good_client_is_served(self) -> None:
        with WireClient(self._address) as good:
            assert good.ask(ApiVersionsRequest(), 0).error_code == 0
            assert good.ask(MetadataRequest(topics=[]), 9).controller_id == 1


@pytest.fixture
def many_files() -> Iterator[None]:
    """Lets this process and the broker it starts have a socket for everybody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_NEEDED:
        pytest.skip(f"a process may have {hard} files here, and {FILES_NEEDED} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES_NEEDED), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def crowd(tmp_path: Path, many_files: None) -> Iterator[Crowd]:
    with serving(tmp_path / "data") as (address, process), contextlib.ExitStack() as stack:
        crowd = Crowd(address, process.pid)
        stack.callback(crowd.vanish)
        yield crowd


def test_a_thousand_half_open_connections_cost_little(crowd: Crowd) -> None:
    before = crowd.resident_size()
    crowd.come()
    crowd.each(lambda one: one.sendall(b"\0\0"))
    assert crowd.resident_size() < before + COUNT * PER_CONNECTION


def test_a_thousand_clients_that_have_been_served_cost_little(crowd: Crowd) -> None:
    before = crowd.resident_size()
    crowd.come()
    for client in crowd.clients:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
    assert crowd.resident_size() < before + COUNT * PER_CONNECTION


def test_a_thousand_frames_that_trickle_in_cost_what_has_come_of_them(crowd: Crowd) -> None:
    before = crowd.resident_size()
    crowd.come()
    crowd.each(lambda one: one.sendall(HUGE_FRAME))
    announced = crowd.resident_size()
    assert announced < before + COUNT * PER_CONNECTION
    for _ in range(20):
        crowd.each(lambda one: one.send(b"slow"))
    assert crowd.resident_size() < announced + SPREAD


def test_a_thousand_connections_that_vanish_leave_nothing_however_often(crowd: Crowd) -> None:
    def storm() -> int:
        crowd.come()
        crowd.each(lambda one: one.sendall(HUGE_FRAME + b"cut"))
        crowd.prove_that_a_good_client_is_served()
        crowd.vanish()
        return crowd.resident_size()

    after_the_first = storm()
    for _ in range(4):
        assert storm() < after_the_first + SPREAD
