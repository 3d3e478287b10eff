"""`ottla serve --table`: tables that a process beside the broker keeps fresh.

The process is `ottla load --follow --engine local` on the broker's directories. It reads segment
files, so it needs neither the loop nor the broker's lock, and it commits the rest after the broker
has answered its last client. A thread reads the lines in which it reports its state, and restarts
it if it dies.

A broker of a cluster may have only some of a topic's partitions, and records that are not committed
yet. There the process reads through the brokers, and only loads topics whose first partition this
broker leads; when that leadership moves, another broker's process takes the table over.
"""

import json
import logging
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import IO, Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.values import dataclass
from ottla.loading.follow import FIRST_PAUSE_S, LAST_PAUSE_S, FollowStatus

logger = logging.getLogger(__name__)

GOODBYE_S = 30.0


class ServedTables:
    """Runs from its creation until `close`, or until this process ends for any reason."""

    def __init__(
        self,
        command: Sequence[str],
        on_change: Callable[[Sequence[dict[str, Any]]], None],
    ) -> None:
        """`on_change` is called in a thread, with the statuses as objects."""
        self._command = command
        self._on_change = on_change
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._statuses: dict[str, FollowStatus] = {}
        self._pause_s = FIRST_PAUSE_S
        self._thread = threading.Thread(target=self._run, name="ottla-tables", daemon=True)
        self._thread.start()

    @property
    def process_id(self) -> int | None:
        """The id of the loading process."""
        process = self._process
        return None if process is None else process.pid

    def statuses(self) -> list[FollowStatus]:
        """The state of each table, as last reported."""
        return list(self._statuses.values())

    def close(self) -> None:
        """Waits until the rest is committed; may be called again."""
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            _end_input(process)
            try:
                process.wait(GOODBYE_S)
            except subprocess.TimeoutExpired:
                logger.warning("tables: the last commit takes too long, and is abandoned")
                process.kill()
        self._thread.join(GOODBYE_S)

    def _run(self) -> None:
        while True:
            try:
                process = self._begin()
                if process is None:
                    return
                reason = self._watch(process)
            except OSError as error:
                reason = f"no process could be started: {error.strerror}"
            if self._stopping.is_set():
                return
            self._report(reason)
            self._stopping.wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LAST_PAUSE_S)

    def _begin(self) -> "subprocess.Popen[str] | None":
        """Starts the process, unless this is closing; raises `OSError`."""
        with self._lock:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the broker, which then stops this process.
            )
            return self._process

    def _watch(self, process: "subprocess.Popen[str]") -> str:
        """Reads the process's reports until it ends; returns how it ended."""
        assert process.stdout is not None
        with process.stdout as lines:
            self._hear(lines)
        code = process.wait()
        with suppress(OSError):
            _end_input(process)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        return f"the loading process {how}"

    def _hear(self, lines: IO[str]) -> None:
        for line in lines:
            try:
                fields = json.loads(line)
            except ValueError:
                logger.warning("tables: %s", line.rstrip())
                continue
            event = fields.pop("event")
            if event == "elsewhere":
                others = self._statuses.items()
                self._note({into: one for into, one in others if into != fields["table"]})
            if event != "lag":
                continue
            fields["into"] = fields.pop("table")
            del fields["lag_seconds"]
            status = FollowStatus(**fields)
            if status.error is None:
                self._pause_s = FIRST_PAUSE_S
            self._note({**self._statuses, status.into: status})

    def _report(self, reason: str) -> None:
        logger.warning("tables: %s; another one starts in %g s", reason, self._pause_s)
        known = self._statuses.items()
        self._note({into: replace(one, error=reason) for into, one in known})

    def _note(self, statuses: dict[str, FollowStatus]) -> None:
        self._statuses = statuses
        self._on_change([asdict(one) for one in statuses.values()])


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where tables beside a broker are loaded from."""

    text: str
    """Directories or addresses, as `ottla load` takes them."""
    broker: int | None = None
    """The broker's id, in a cluster."""


def directories_source(paths: Sequence[str]) -> TableSource:
    """The source for a broker without a cluster."""
    return TableSource(",".join(os.path.abspath(one) for one in paths))


def loading_command(pairs: Sequence[str], source: TableSource, options: str) -> list[str]:
    """Returns the command that loads the tables, by options of `ottla load`; raises `UserError`."""
    from ottla.tables import check_location

    with needed_for("--table"):
        if find_spec("deltalake") is None:
            raise ModuleNotFoundError("deltalake", name="deltalake")
    for one in pairs:
        topic, sign, path = one.partition("=")
        if not (topic and sign and path):
            raise UserError(f"--table takes TOPIC=PATH, such as orders=tables/orders, not {one!r}")
        check_location(path)
    tables = [f"--table={one}" for one in pairs]
    start = [sys.executable, "-m", "ottla", "load", source.text, "--follow", "--engine", "local"]
    command = [*start, "--json", "--until-eof", *tables]
    if source.broker is not None:
        command.append(f"--with-leader={source.broker}")
    return [*command, *_checked(options, command)] if options else command


def _checked(text: str, command: Sequence[str]) -> list[str]:
    """Splits the options in a text, after the load command has checked them."""
    try:
        options = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--table-options {text!r}: {error}") from error
    asked = [*command, *options, "--check"]
    done = subprocess.run(asked, capture_output=True, text=True, env=_environment())
    if done.returncode:
        # Click prints the usage first.
        reason = " ".join(done.stderr.split()).removeprefix("ottla: ").rpartition("Error: ")[2]
        raise UserError(f"--table-options {text!r}: {reason}")
    return options


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _end_input(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
