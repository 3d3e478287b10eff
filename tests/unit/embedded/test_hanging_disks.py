"""An open log whose disk does not answer: closing it ends, and says what hangs."""

import threading
from collections.abc import Callable, Iterator
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.broker.scheduler import Scheduler
from ottla.embedded.environment import Environment
from ottla.embedded.log import Log, open_in
from ottla.runtime import thread_ends
from ottla.server.network.listener import Server
from tests.support.patience import wait_until

PATCHED_SERVER = pytest.mark.skipif(
    not isfunction(Server._settle), reason="what is compiled cannot be replaced"
)


class Hanging:
    """A deed that does not end before the test does."""

    def __init__(self, replace: Callable[[type, str, object], None]) -> None:
        self.replace = replace
        self.count = 0
        self.answers = threading.Event()

    def __call__(self, *_: Any) -> None:
        self.count += 1
        self.answers.wait()


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    monkeypatch.setattr(thread_ends, "LIMIT_S", 0.05)
    hanging = Hanging(monkeypatch.setattr)
    yield hanging
    hanging.answers.set()


def ticker(log: Log, hanging: Hanging) -> str:
    hanging.replace(Scheduler, "run_due", hanging)
    log._ticker._wake.set()
    return "the thread ottla-ticker has not ended"


def server(log: Log, hanging: Hanging) -> str:
    hanging.replace(Server, "_settle", hanging)
    log.listen("127.0.0.1:0").wake()
    return "the thread ottla-server has not ended"


def call(log: Log, hanging: Hanging) -> str:
    def hang() -> None:
        with log.looking():
            hanging()

    threading.Thread(target=hang, daemon=True).start()
    return "a call has kept this log|ottla-ticker has not ended"


@pytest.mark.parametrize("hang", [ticker, pytest.param(server, marks=PATCHED_SERVER), call])
def test_closing_a_log_names_what_waits_for_the_disk_and_leaves_it_as_a_crash_does(
    tmp_path: Path, hanging: Hanging, hang: Callable[[Log, Hanging], str]
) -> None:
    log = open_in(Environment(), str(tmp_path))
    log.create_topic("orders")
    text = hang(log, hanging)
    wait_until(lambda: hanging.count)
    with pytest.raises(ottla.StorageError, match=f"{tmp_path}: ({text}) for 0.05 s"):
        log.close()
    log.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with pytest.raises(ottla.UserError, match="this log is closed"):
        log.topics()
    hanging.answers.set()


@PATCHED_SERVER
def test_a_server_whose_request_hangs_is_named_when_it_is_closed(
    tmp_path: Path, hanging: Hanging
) -> None:
    with open_in(Environment(), str(tmp_path)) as log:
        text = server(log, hanging)
        wait_until(lambda: hanging.count)
        listening = log._listening
        assert listening is not None
        with pytest.raises(ottla.StorageError, match=text):
            listening.close()
        hanging.answers.set()
        listening.close()
