"""What systemd is told: by a datagram each, over the socket that NOTIFY_SOCKET names."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.runtime.service_manager import STEP_US, ServiceManager
from tests.support.patience import PATIENCE_S


@pytest.fixture(params=["path", "abstract"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "path":
        return str(tmp_path / "notify")
    return f"@ottla-test-{os.getpid()}-{threading.get_ident()}"


@pytest.fixture
def systemd(place: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(place.replace("@", "\0"))
        receiver.settimeout(PATIENCE_S)
        yield receiver


def test_a_service_reports_its_start_that_it_is_ready_and_its_stop_once(
    place: str, systemd: socket.socket
) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": place})
    service.step("recovering t-0:\n1 of 2")
    assert systemd.recv(500) == b"STATUS=recovering t-0: 1 of 2\nEXTEND_TIMEOUT_USEC=%d" % STEP_US
    with service.serving("ready 127.0.0.1:9092", threading.RLock()):
        assert systemd.recv(500) == b"READY=1\nSTATUS=ready 127.0.0.1:9092"
        service.stopping()
    assert systemd.recv(500) == b"STOPPING=1\nSTATUS=stopping"
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):
        systemd.recv(500)


def test_a_watchdog_hears_of_a_process_until_its_loop_hangs(
    place: str, systemd: socket.socket
) -> None:
    lock = threading.RLock()
    service = ServiceManager(
        {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "2000", "WATCHDOG_PID": str(os.getpid())}
    )
    with service.serving("", lock):
        assert systemd.recv(500).startswith(b"READY=1")
        assert systemd.recv(500) == b"WATCHDOG=1"
        with lock:
            systemd.settimeout(0.05)
            with pytest.raises(TimeoutError):
                list(iter(lambda: systemd.recv(500), b""))
        systemd.settimeout(PATIENCE_S)
        assert systemd.recv(500) == b"WATCHDOG=1"


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "vsock:2:1"},
        {"NOTIFY_SOCKET": "/nowhere/notify"},
        {"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"},
    ],
)
def test_a_service_runs_without_a_manager_that_can_be_reached(
    environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    before = threading.active_count()
    service = ServiceManager(environment)
    with service.serving("", threading.RLock()):
        assert threading.active_count() == before
    assert ("NOTIFY_SOCKET" in caplog.text) == bool(environment.get("NOTIFY_SOCKET"))
