"""A broker that stands still: its system accepts connections, and nothing is answered."""

import socket
from contextlib import closing

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnreachableError
from ottla.client.connecting.cluster import ClientSettings, Cluster, SocketTransport
from ottla.client.connecting.connection import Connection
from ottla.client.connecting.socket_connection import SocketConnection
from ottla.client.refusals import RefusedError
from tests.support.patience import PATIENCE_S
from tests.support.scripted_broker import ScriptedBroker

HASTE_S = 1.0
"""In which a broker that is up answers, also on a busy machine."""


def test_a_new_connection_is_given_up_before_a_response_would_be() -> None:
    transport = SocketTransport(ClientSettings(request_timeout_s=3600, setup_timeout_s=0.02))
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        pytest.raises(UnreachableError, match="timed out"),
    ):
        transport.connect(server.getsockname())


@pytest.mark.slow
def test_who_stands_still_is_asked_once_by_a_client_in_haste() -> None:
    settings = ClientSettings(request_timeout_s=3600, setup_timeout_s=HASTE_S)
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as still,
        closing(ScriptedBroker(lambda offset: None)) as other,
    ):
        still.settimeout(0)
        addresses = [still.getsockname(), ("127.0.0.1", other.port)]
        with Cluster(addresses, settings, sleep=lambda _: None) as cluster:
            cluster.refresh()
        still.accept()[0].close()
        with pytest.raises(BlockingIOError):
            still.accept()


@pytest.mark.slow
def test_a_kept_connection_to_who_stands_still_is_given_up() -> None:
    settings = ClientSettings(request_timeout_s=3600, setup_timeout_s=HASTE_S)
    transport = SocketTransport(settings)
    with closing(ScriptedBroker(lambda offset: None)) as broker:
        address = ("127.0.0.1", broker.port)
        connection = transport.connect(address)
        assert isinstance(connection, SocketConnection)
        with connection:
            assert transport.silent_of({1: connection}) == set()
            with closing(socket.create_server(("127.0.0.1", 0))) as still:
                connection.close()
                connection._socket = socket.create_connection(still.getsockname())
                assert transport.silent_of({1: connection}) == {1}
        with pytest.raises(UnreachableError, match="no response within"):
            transport.connect(address)


def test_those_who_stand_still_are_looked_at_together() -> None:
    transport = SocketTransport(ClientSettings(request_timeout_s=3600, setup_timeout_s=0.02))
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as first,
        closing(socket.create_server(("127.0.0.1", 0))) as second,
    ):
        addresses = [first.getsockname(), second.getsockname()]
        transport.begin_look(addresses)()
        for address in addresses:
            with pytest.raises(UnreachableError) as raised:
                transport.connect(address)
            assert isinstance(raised.value.__cause__, TimeoutError)


def test_a_client_in_haste_does_not_wait_for_the_controller_whom_a_broker_asks() -> None:
    settings = ClientSettings(request_timeout_s=3600, setup_timeout_s=PATIENCE_S)
    with closing(ScriptedBroker(lambda offset: None)) as broker:
        at = [("127.0.0.1", broker.port)]
        with Cluster(at, settings, sleep=lambda _: None, topics=()) as cluster:

            def ask(connection: Connection) -> object:
                assert isinstance(connection, SocketConnection)
                raise UnreachableError("no response") from TimeoutError()

            with pytest.raises(RefusedError, match="the controller has not answered") as raised:
                cluster.ask_any(lambda one: cluster.ask_through(one, ask))
            assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
            # The connection, on which an answer may still come, is given up.
            assert cluster.ask_any(lambda one: cluster.ask_through(one, lambda _: 7)) == 7
