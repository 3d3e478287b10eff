"""How many connections there may be, what each may hold, and who is told of the wrong address."""

import logging
import socket
from pathlib import Path

import pytest

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.framing import DEFAULT_CAPACITY
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.network.listener import Server
from tests.support.serving import WireClient, open_broker, serving

VERSIONS = ApiVersionsRequest()
ELSEWHERE = "PLAINTEXT://broker.invalid:9999"


def settle(server: Server) -> None:
    """Has the server go round: what was sent before this, it has taken in."""
    with WireClient(server.address) as client:
        assert client.ask(VERSIONS, 0).error_code == 0


def held_size(server: Server) -> int:
    """The bytes of all buffers of all connections."""
    with server.lock:
        return sum(one.reader.capacity + one._send_queue.size for one in server._connections)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_connections_per_ip": "2"},
        {"max_connections_per_ip": "9", "max_connections_per_ip_overrides": "127.0.0.1:2"},
    ],
)
def test_a_host_with_as_many_connections_as_it_may_have_is_refused_with_one_line(
    tmp_path: Path, limits: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serving(open_broker(tmp_path / "data", **limits)) as server,
        WireClient(server.address) as one,
        WireClient(server.address) as two,
    ):
        for client in (one, two):
            assert client.ask(VERSIONS, 0).error_code == 0
        with WireClient(server.address) as third:
            assert third.receive_frame() is None
        assert one.ask(VERSIONS, 0).error_code == 0
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "127.0.0.1 may have 2 connections" in caplog.text
        two.socket.shutdown(socket.SHUT_WR)
        assert two.receive_frame() is None
        settle(server)


def test_a_connection_over_the_limit_of_all_waits_until_one_has_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serving(open_broker(tmp_path / "data", max_connections="1")) as server,
        WireClient(server.address) as first,
    ):
        assert first.ask(VERSIONS, 0).error_code == 0
        with WireClient(server.address) as second:
            second.send(VERSIONS, 0)
            assert first.ask(VERSIONS, 0).error_code == 0
            first.socket.close()
            assert second.receive(ApiKey.API_VERSIONS, 0).error_code == 0
    assert "max.connections=1 are open" in caplog.text


def test_connections_that_trickle_or_stay_half_open_hold_one_buffer_each(tmp_path: Path) -> None:
    count, frame_size = 20, 50_000_000
    with serving(open_broker(tmp_path / "data")) as server:
        clients = [WireClient(server.address) for _ in range(count)]
        for client in clients[: count // 2]:
            client.socket.sendall(frame_size.to_bytes(4, "big"))
        for _ in range(50):
            for client in clients[: count // 2]:
                client.socket.send(b"x")
            settle(server)
        assert len(server._connections) in (count, count + 1)
        assert held_size(server) <= (count + 1) * DEFAULT_CAPACITY
        for client in clients:
            client.socket.close()


def test_a_client_that_leaves_after_metadata_is_reported_once_with_the_fix(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = open_broker(tmp_path / "data", advertised_listeners=ELSEWHERE)
    with serving(broker) as server:
        for _ in range(3):
            with WireClient(server.address) as client:
                client.ask(VERSIONS, 0)
                client.ask(MetadataRequest(topics=[]), 9)
            settle(server)
            settle(server)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "was sent to broker.invalid:9999" in record.message
    assert "advertised.listeners=PLAINTEXT://HOST:9999" in record.message


@pytest.mark.parametrize("advertised", ["", ELSEWHERE])
def test_a_client_that_finds_its_way_is_not_reported(
    tmp_path: Path, advertised: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"advertised_listeners": advertised}
    with serving(open_broker(tmp_path / "data", **settings)) as server:
        with WireClient(server.address) as bootstrap:
            bootstrap.ask(MetadataRequest(topics=[]), 9)
            if advertised:
                with WireClient(server.address) as at_work:
                    at_work.ask(FindCoordinatorRequest(key="g"), 0)
        settle(server)
        settle(server)
    assert caplog.records == []
