"""Strangers at a port of HTTP beside a broker: how many there are, and what a broken one leaves."""

import contextlib
import logging
import socket
import struct
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from ottla.base.http_threads import MAX_CONNECTIONS, HttpThreads
from tests.support.patience import PATIENCE_S, wait_until

HALF = b"GET / HTTP/1.1\r\nHost: l"


class Answering(BaseHTTPRequestHandler):
    timeout = float(PATIENCE_S)

    def do_GET(self) -> None:
        if self.path == "/broken":
            raise ValueError("a fault of ours")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"tea")

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


@pytest.fixture
def server() -> Iterator[HttpThreads]:
    server = HttpThreads(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def stranger(server: HttpThreads) -> socket.socket:
    return socket.create_connection(server.server_address[:2], PATIENCE_S)  # type: ignore[arg-type]


def answer(server: HttpThreads) -> bytes:
    address = f"http://127.0.0.1:{server.server_port}/"
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:
        return bytes(response.read())


def test_the_oldest_of_too_many_unfinished_requests_makes_room(server: HttpThreads) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(stranger(server)) for _ in range(MAX_CONNECTIONS + 10)]
        for one in strangers:
            with contextlib.suppress(ConnectionError):
                one.sendall(HALF)
        assert answer(server) == b"tea"
        with contextlib.suppress(ConnectionError):
            assert strangers[0].recv(1) == b""
        wait_until(lambda: threading.active_count() - before <= MAX_CONNECTIONS)


def test_a_client_that_hangs_up_and_a_fault_leave_a_line_and_no_traceback(
    server: HttpThreads, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ottla.base.http_threads")
    before = threading.active_count()
    with stranger(server) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.sendall(HALF)
        # A connection that is reset before it is accepted is nobody's request.
        wait_until(lambda: threading.active_count() > before)
    with stranger(server) as one:
        one.sendall(b"GET /broken HTTP/1.1\r\n\r\n")
        assert one.recv(1) == b""
    wait_until(lambda: len(caplog.records) == 2)
    assert {one.levelno for one in caplog.records} == {logging.DEBUG, logging.ERROR}
    assert capfd.readouterr().err == ""
