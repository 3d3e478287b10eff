"""What is promised of every command, tried with its own example, whatever commands there are."""

import fcntl
import io
import json
import os
import re
import shlex
import signal
import socket
import struct
import sys
import termios
import threading
from contextlib import suppress
from typing import TextIO

import click
import pytest
from click.testing import CliRunner

import ottla
from ottla.base.partitions import TopicPartition
from ottla.cli.main import cli, main
from ottla.cli.output import ERRORS_ONLY
from ottla.cli.target import TargetCommand
from ottla.embedded.log import Log
from tests.docs.help_surroundings import (
    BROKERS,
    Prepared,
    Surroundings,
    make_template,
    needs_process,
)
from tests.docs.test_help_examples import EXAMPLES, is_endless
from tests.unit.cli.test_help import COMMANDS, calls_in

pytestmark = pytest.mark.slow

NARROW = 40
OBEYED = re.compile(r"(?!\r\n|\n|\t)[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys: colours, and what else names and data of others may have."""
LINE_IN_PLACE = re.compile(r"\x1b\[\?25[lh]|\r?(?:\x1b\[\d?[AK])+")
"""What draws a line of progress, and removes it."""
HOSTILE = "\x1b[35m\x1b]0;owned\x07\x9b35m\u202eevil\x7f\r"
ESCAPE = re.compile(r"\\[xu]")
NAMING = ("groups list", "transactions list", "quotas list", "acls list")
"""Commands whose examples print the hostile name."""
DATA = (
    "ottla records data/ --topic logs-web --format line",
    "ottla records data/ --topic logs-web --format '%h %k: %s\\n'",
    "ottla records data/ --topic logs-web --format '{headers} {key}: {value}'",
    "ottla records data/ --topic logs-web --format json",
    "ottla consume data/ logs-web --from beginning --grep evil",
    "ottla sql data/ 'select * from \"logs-web\"'",
    "ottla sql data/ --json 'select * from \"logs-web\"'",
    "ottla log dump data/logs-web-0 --deep",
    "ottla groups describe data/ '{hostile}'",
    "ottla groups delete data/ '{hostile} of nobody' --yes",
    "ottla topics describe data/ '{hostile}'",
    "ottla records '{hostile}/' --topic logs-web",
    "ottla '{hostile}'",
)
"""Lines that print names or data of others, and their errors."""


def own_example(name: str) -> str | None:
    """The first that this process can run, and that ends."""
    own = ["ottla", *name.split()]
    for example in EXAMPLES.get(name, ()):
        calls = list(calls_in(example))
        if len(calls) == 1 and calls[0][: len(own)] == own and not is_endless(example):
            return example
    return None


OWN = {name: example for name in COMMANDS if (example := own_example(name)) is not None}
HERE = [name for name, example in OWN.items() if not needs_process(example)]
"""Without those that start a process and leave it running."""

OF_BROKERS = {
    name: example
    for name, example in OWN.items()
    if isinstance(COMMANDS[name], TargetCommand) and any(one in example for one in BROKERS)
}


def option_of(name: str, variable: str) -> str | None:
    """How a command calls an option."""
    for one in COMMANDS[name].params:
        if one.name == variable:
            return one.opts[0]
    return None


def with_option(name: str, variable: str) -> str:
    start = f"ottla {name}"
    return f"{start} {option_of(name, variable)}{OWN[name].removeprefix(start)}"


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    folder = tmp_path_factory.mktemp("every")
    make_template(folder / "template")
    return Surroundings(folder / "here", folder / "template")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    folder = tmp_path_factory.mktemp("hostile")
    make_template(folder / "template", make_hostile)
    return Surroundings(folder / "here", folder / "template")


def make_hostile(log: Log) -> None:
    """What others may name so, on their way to the terminal of who looks."""
    data = HOSTILE.encode() + b"\x9b"
    for topic in ("orders", "logs-web", "orders-eu", "shop.carts", "test-1"):
        log.append(topic, data, key=data, partition=0, headers=[(HOSTILE, data)])
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets(HOSTILE, {TopicPartition("orders", 0): 1})
    with ottla.Producer(log, settings={"transactional.id": HOSTILE}) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", data, key=data, partition=0)
    address = log.listen("127.0.0.1:0").address
    for words in (
        ("quotas", "set", address, "--client-id", HOSTILE, "producer_byte_rate=10M"),
        ("acls", "add", address, f"User:{HOSTILE}", "--role", "consumer", "--topic", "orders"),
    ):
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output


PRINTING_JSON = [one for one in OWN if option_of(one, "as_json") and " -- " not in OWN[one]]
"""Without `quick -- COMMAND`, whose command prints what it likes."""


@pytest.mark.parametrize("name", PRINTING_JSON)
def test_what_json_prints_is_an_object_on_each_line(name: str, surroundings: Surroundings) -> None:
    with surroundings.of(OWN[name]) as prepared:
        done = prepared.run(with_option(name, "as_json"))
    assert done.code == 0, done
    assert all(isinstance(json.loads(one), dict) for one in done.output.splitlines()), done.output


@pytest.mark.parametrize("name", [one for one in OWN if option_of(one, "is_quiet")])
def test_quiet_prints_results_alone(name: str, surroundings: Surroundings) -> None:
    with surroundings.of(OWN[name]) as prepared:
        done = prepared.run(with_option(name, "is_quiet"))
    assert (done.code, done.errors) == (0, "")
    (quiet,) = (one for one in COMMANDS[name].params if one.name == "is_quiet")
    assert isinstance(quiet, click.Option)
    if quiet.help == ERRORS_ONLY and " -- " not in OWN[name]:
        assert done.output == ""


@pytest.mark.parametrize("name", HERE)
def test_a_reader_that_is_gone_is_no_failure(name: str, surroundings: Surroundings) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with surroundings.of(OWN[name]) as prepared, open(writing, "w") as closed:
        code, errors = run_here(words_of(OWN[name], prepared), closed)
    assert code == 0, errors
    assert not re.search("Traceback|Broken pipe", errors), errors


@pytest.mark.parametrize("name", HERE)
def test_a_narrow_terminal_without_colour_gets_plain_text_whatever_names_and_data_hold(
    name: str, hostile: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with hostile.of(OWN[name]) as prepared, Screen() as screen:
        code, _ = run_here(words_of(OWN[name], prepared), screen.file, screen.file)
    assert code == 0, screen.text
    found = LINE_IN_PLACE.sub("", screen.text)
    assert not OBEYED.search(found), OBEYED.findall(found)
    if name in NAMING:
        assert ESCAPE.search(found)


def test_a_terminal_shows_what_is_hostile_in_data_names_and_errors(
    hostile: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for line in DATA:
        with hostile.of(line) as prepared, Screen() as screen:
            words = [one.replace("{hostile}", HOSTILE) for one in words_of(line, prepared)]
            run_here(words, screen.file, screen.file)
        found = LINE_IN_PLACE.sub("", screen.text)
        assert not OBEYED.search(found), (line, found)
        assert ESCAPE.search(found), (line, found)


@pytest.mark.parametrize("name", OF_BROKERS)
def test_what_waits_for_a_broker_is_ended_by_ctrl_c(name: str, surroundings: Surroundings) -> None:
    with SilentBroker(signal.SIGINT) as silent:
        code, errors = ask(name, silent, surroundings)
    assert (code, errors) == (130, "")


@pytest.mark.parametrize("name", OF_BROKERS)
def test_what_waits_for_a_broker_is_ended_by_its_timeout(
    name: str, surroundings: Surroundings
) -> None:
    """Time is over when the broker is asked, and not before, however slow this host is."""
    with SilentBroker(signal.SIGALRM) as silent:
        code, errors = ask(name, silent, surroundings, "--timeout=1h")
    assert (code, errors) == (124, "ottla: the time given by --timeout is over\n")


def ask(
    name: str, silent: "SilentBroker", surroundings: Surroundings, *more: str
) -> tuple[int, str]:
    line = OF_BROKERS[name]
    for one in BROKERS:
        line = line.replace(one, silent.address)
    with surroundings.of(line):
        return run_here([*shlex.split(line)[1:], *more], io.StringIO())


def words_of(example: str, prepared: Prepared) -> list[str]:
    return next(calls_in(prepared.placed(example)))[1:]


def run_here(words: list[str], output: TextIO, errors: TextIO | None = None) -> tuple[int, str]:
    """As the shell runs it, with another standard output; the exit code and what was complained."""
    complaints = io.StringIO()
    with pytest.MonkeyPatch.context() as streams, open(os.devnull) as nothing:
        streams.setattr(sys, "stdin", nothing)
        streams.setattr(sys, "stdout", output)
        streams.setattr(sys, "stderr", errors or complaints)
        # A worker of a parallel run leaves Ctrl-C to its parent.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            main(words)
        except SystemExit as end:
            return int(end.code or 0), complaints.getvalue()
        finally:
            signal.signal(signal.SIGINT, before)
    return 0, complaints.getvalue()


class Screen:
    """A narrow terminal."""

    def __init__(self) -> None:
        self._shown, drawn = os.openpty()
        fcntl.ioctl(drawn, termios.TIOCSWINSZ, struct.pack("HHHH", 24, NARROW, 0, 0))
        self.file = open(drawn, "w")  # noqa: SIM115
        self._parts: list[bytes] = []
        self._reading = threading.Thread(target=self._read)

    @property
    def text(self) -> str:
        return b"".join(self._parts).decode()

    def __enter__(self) -> "Screen":
        self._reading.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self._reading.join()
        os.close(self._shown)

    def _read(self) -> None:
        with suppress(OSError):  # The other end is closed.
            while part := os.read(self._shown, 4096):
                self._parts.append(part)


class SilentBroker:
    """Takes requests and answers nothing; the first one has the main thread get a signal."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._accepted: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> "SilentBroker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for one in (*self._accepted, self._listening):
            one.close()

    def _run(self) -> None:
        asking = threading.main_thread().ident
        assert asking is not None
        with suppress(OSError):
            while True:
                accepted, _ = self._listening.accept()
                self._accepted.append(accepted)
                if len(self._accepted) == 1 and accepted.recv(1):
                    signal.pthread_kill(asking, self._number)
