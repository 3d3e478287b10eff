"""Large requests of many clients at a time: the broker reads as many as its memory allows."""

import contextlib
import resource
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.machine import cost_of
from ottla.protocol.framing import DEFAULT_CAPACITY
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.authentication.authentication import STRANGER_CAPACITY
from ottla.server.network.listener import STRANGERS_SIZE
from tests.integration.cli import support
from tests.support.logins import log_in, login_broker
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.serving import WireClient, open_broker, serving

MEGABYTE = 1 << 20
LIMIT = 16 * MEGABYTE
FRAME = 12 * MEGABYTE
CLIENTS = 8


def large_frame(size: int = FRAME) -> bytes:
    """A request that is refused when all of it has come: its API is none."""
    return struct.pack(">i", size) + b"\x7f\xff" + bytes(size - 2)


class Crowd:
    """Clients that each send a large request, in threads since nobody may take it yet."""

    def __init__(self, address: tuple[str, int], count: int, frame: bytes) -> None:
        self.clients = [WireClient(address) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._send, args=(one, frame), daemon=True)
            for one in self.clients
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _send(client: WireClient, frame: bytes) -> None:
        with contextlib.suppress(OSError):  # it may be closed before all is sent
            client.socket.sendall(frame)

    def are_all_answered(self) -> bool:
        """Waits until each has been closed, as its request deserves."""
        return all(client.receive_frame() is None for client in self.clients)

    def close(self) -> None:
        for client in self.clients:
            with contextlib.suppress(OSError):
                client.socket.shutdown(socket.SHUT_RDWR)  # wakes who is still sending
            client.socket.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)


def prove_that_a_good_client_is_served(address: tuple[str, int]) -> None:
    with WireClient(address) as good:
        assert good.ask(ApiVersionsRequest(), 0).error_code == 0
        assert good.ask(MetadataRequest(topics=[]), 9).controller_id == 1


@pytest.mark.slow
def test_large_requests_are_read_one_after_the_other_when_the_memory_is_used_up(
    tmp_path: Path,
) -> None:
    broker = open_broker(tmp_path / "data", queued_max_request_bytes=str(LIMIT))
    with serving(broker) as server, contextlib.ExitStack() as stack:
        crowd = Crowd(server.address, CLIENTS, large_frame())
        stack.callback(crowd.close)
        prove_that_a_good_client_is_served(server.address)
        with server.lock:
            held = sum(one.reader.capacity - DEFAULT_CAPACITY for one in server._connections)
        assert held <= LIMIT + FRAME, "one may be read however large it is"
        assert crowd.are_all_answered()
        prove_that_a_good_client_is_served(server.address)
        assert not server._memory.waiting


@pytest.mark.slow
def test_clients_that_never_end_their_requests_keep_one_that_does_waiting_at_most_a_while(
    tmp_path: Path,
) -> None:
    broker = open_broker(tmp_path / "data", queued_max_request_bytes=str(LIMIT))
    with serving(broker) as server, contextlib.ExitStack() as stack:
        begun = Crowd(server.address, CLIENTS, large_frame()[: FRAME * 3 // 4])
        stack.callback(begun.close)
        while not server._memory.waiting:
            prove_that_a_good_client_is_served(server.address)
        with server.lock:
            server._monotonic_ms += 1e9
            for one in server._memory.stalled(server._monotonic_ms):
                server._close_for_memory(one)
            assert server._memory.next_waiting() is not None


@pytest.mark.slow
def test_strangers_have_little_memory_together_and_hold_up_no_login_and_no_request(
    tmp_path: Path,
) -> None:
    count = 80
    with serving(login_broker(tmp_path)) as server, contextlib.ExitStack() as stack:
        begun = large_frame(500_000)[:450_000]
        crowd = Crowd(server.address, count, begun)
        stack.callback(crowd.close)
        wait_until(lambda: bool(server._strangers_memory.waiting))
        with WireClient(server.address) as good:
            log_in(good)
            names = [f"{number}{'x' * 30_000}" for number in range(50)]
            request = MetadataRequest(topics=[MetadataRequestTopic(name=one) for one in names])
            assert len(good.ask(request, 9).topics) == 50
        with server.lock:
            held = sum(one.reader.capacity for one in server._connections)
            strangers = len(server._connections)
        assert strangers >= count
        most = STRANGERS_SIZE + MEGABYTE + (strangers + 1) * STRANGER_CAPACITY
        assert held <= most + DEFAULT_CAPACITY
        assert not server._memory.waiting


@pytest.fixture
def small_broker(tmp_path: Path) -> Iterator[tuple[tuple[str, int], int]]:
    """A broker that may have less memory than its settings allow it."""

    def set_limits() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 * MEGABYTE, 400 * MEGABYTE))

    with support.serving(tmp_path / "data", set_limits=set_limits) as (address, process):
        host, port = address.split(":")
        yield (host, int(port)), process.pid


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")
def test_a_broker_without_memory_closes_connections_and_lives(
    small_broker: tuple[tuple[str, int], int],
) -> None:
    address, pid = small_broker
    with contextlib.ExitStack() as stack:
        crowd = Crowd(address, CLIENTS, large_frame(90 * MEGABYTE))
        stack.callback(crowd.close)
        assert crowd.are_all_answered()
    prove_that_a_good_client_is_served(address)
    cost = cost_of(pid)
    assert cost is not None
    assert cost.resident_bytes < 400 * MEGABYTE
