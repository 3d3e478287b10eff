"""`ottla console` and `ottla serve --console` as processes and servers: start, link, and end."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.errors import UserError
from ottla.cli.main import cli
from ottla.cli.serve.console import ConsoleProcess
from ottla.config.listeners import Listener
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, fill
from tests.console.demo import console_of
from tests.support.patience import PATIENCE_S, wait_until


def got(address: str) -> str:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A command, whose output and errors come as one text."""
    command = [sys.executable, "-m", "ottla", *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def link_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("console "):
            return line.removeprefix("console ").strip()
    raise AssertionError("the console has not started")


@pytest.mark.slow
def test_the_command_prints_its_link_and_ends_at_a_signal(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        fill(log)
    with running("console", str(tmp_path / "data"), "--listen", "127.0.0.1:0") as process:
        link = link_of(process)
        assert "orders" in got(f"{link}topics")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_the_end_of_its_time_is_one_line(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        fill(log)
    arguments = ["console", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--timeout", "3s"]
    ended = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    lines = (ended.returncode, ended.stderr)
    assert lines == (124, "ottla: the time given by --timeout is over\n")


@pytest.mark.slow
def test_a_broker_serves_a_console_beside_itself_that_ends_with_it(tmp_path: Path) -> None:
    with running(
        "serve", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"
    ) as process:
        link = link_of(process)
        # The first page may be shown before doctor has looked.
        wait_until(lambda: "No problems found" in got(link))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    address = re.fullmatch(r"http://(.+):(\d+)/", link)
    assert address is not None
    with pytest.raises(OSError), socket.create_connection((address[1], int(address[2]))):
        pass


def test_an_address_that_is_taken_is_one_line_with_the_fix(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        fill(log)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(cli, ["console", str(tmp_path / "data"), "--listen", address])
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert "choose another address with --listen" in result.output


def test_what_is_no_target_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["console", str(tmp_path / "nothing")])
    assert result.exit_code == 2
    assert "there is no such directory" in result.output
    served = CliRunner().invoke(cli, ["serve", str(tmp_path / "data"), "--console", "8095"])
    assert (served.exit_code, (tmp_path / "data").exists()) == (2, False)
    assert "an address is HOST:PORT" in served.output
    short = CliRunner().invoke(cli, ["console", str(tmp_path), "--token", "short"])
    assert short.exit_code == 2


def test_a_broker_that_only_takes_tls_says_how_to_run_the_console() -> None:
    listeners = [Listener(name="SSL", address=("127.0.0.1", 1), protocol="SSL")]
    with pytest.raises(UserError, match=r"ottla console 127\.0\.0\.1:1 -X security\.protocol=SSL"):
        ConsoleProcess("127.0.0.1:0", listeners, [("127.0.0.1", 1)], is_read_only=False)


@pytest.mark.slow
def test_streams_end_when_the_console_stops(tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "data", FEW_LOGS) as broker:
        fill(broker.log)
        with console_of(broker) as address:
            answer = urllib.request.urlopen(
                f"{address}/topics/orders/tail-stream", timeout=PATIENCE_S
            )
            assert b"event: rate" in answer.readline()
        with answer:
            answer.read()
