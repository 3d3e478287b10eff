"""Reports the state of a service to systemd, which has started it: the protocol of sd_notify(3)."""

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final

from ottla.runtime.tier_worker import ReleasableLock

logger = logging.getLogger(__name__)

VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

SEND_S: Final = 1.0
"""The longest wait for a service manager that does not read what it is sent."""

STEP_US: Final = 120_000_000
"""The longest time between two steps of a long start or stop that are reported."""


class ServiceManager:
    """Does nothing in a process that no service manager has asked to report."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` has the `VARIABLES` that the service manager has set."""
        self._address = _address_in(environment)
        self._watchdog_s = _watchdog_s_in(environment) if self._address is not None else 0.0
        self._is_stopping = False
        self._has_ended = Event()

    def step(self, doing: str) -> None:
        """Reports a step of a start or stop, which may then take longer; from any thread."""
        self._send(f"STATUS={_line(doing)}\nEXTEND_TIMEOUT_USEC={STEP_US}")

    @contextmanager
    def serving(self, status: str, lock: ReleasableLock) -> Iterator[None]:
        """Reports first that clients are served, and at the end that the service stops.

        If a watchdog was asked for, a thread reports from now on that the process is alive, as long
        as it gets the broker's lock: a loop that hangs in a round holds it.
        """
        self._send(f"READY=1\nSTATUS={_line(status)}")
        watchdog = None
        if self._watchdog_s:
            watchdog = Thread(target=self._watch, args=(lock,), name="ottla-watchdog", daemon=True)
            watchdog.start()
        try:
            yield
        finally:
            self.stopping()
            self._has_ended.set()
            if watchdog is not None:
                watchdog.join(SEND_S)  # it may wait for a lock that is never free again

    def stopping(self) -> None:
        """Reports that the service stops; once, so that any part of a stop may call it."""
        if not self._is_stopping:
            self._is_stopping = True
            self._send("STOPPING=1\nSTATUS=stopping")

    def _watch(self, lock: ReleasableLock) -> None:
        # Half of the time that is allowed, as sd_watchdog_enabled(3) recommends.
        pause_s = self._watchdog_s / 2
        while not self._has_ended.wait(pause_s):
            with lock:
                pass
            self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(SEND_S)
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            logger.warning("NOTIFY_SOCKET: cannot report to the service manager: %s", error)


def _address_in(environment: Mapping[str, str]) -> str | None:
    """A path, or with a zero byte the name of an abstract socket."""
    text = environment.get("NOTIFY_SOCKET")
    if not text:
        return None
    if text.startswith("@"):
        return "\0" + text[1:]
    if text.startswith("/"):
        return text
    logger.warning("NOTIFY_SOCKET=%s: neither a path nor an abstract socket, ignored", text)
    return None


def _watchdog_s_in(environment: Mapping[str, str]) -> float:
    """The time within which the process has to report that it is alive; 0 if it need not."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    with suppress(ValueError):
        return max(0, int(environment.get("WATCHDOG_USEC", "0"))) / 1_000_000
    logger.warning("WATCHDOG_USEC=%s: not a number, ignored", environment["WATCHDOG_USEC"])
    return 0.0


def _line(text: str) -> str:
    return " ".join(text.splitlines())
