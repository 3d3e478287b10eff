"""Changes that take a while, each in a thread: its progress, its end, and a way to cancel it.

They end with the console: what one had done by then stays, and the audit log has no outcome of it.
"""

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from ottla.base.errors import OttlaError
from ottla.base.values import dataclass

logger = logging.getLogger(__name__)

MOST_KEPT = 100
"""Ended runs that are still shown."""
GOODBYE_S = 5.0


class RunState(Enum):
    """What a run does, or how it ended."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class CancelledError(Exception):
    """The run was cancelled: by a person, or because the console ends."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One change at work; `done` of `total` steps, in the words of `unit`."""

    id: str
    title: str
    user: str
    path: str
    """The page of what it makes."""
    begun_ms: int
    total: int
    unit: str
    cancelled: threading.Event
    done: int = 0
    state: RunState = RunState.RUNNING
    said: str = ""

    def step(self, done: int) -> None:
        """Called by the work between its steps; raises `CancelledError`."""
        self.done = done
        if self.cancelled.is_set():
            raise CancelledError


Work = Callable[[Run], str]
"""Does the work; returns what was done as a sentence."""
OnEnd = Callable[[RunState, str], None]


class Runs:
    """The runs of a console, newest last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: OrderedDict[str, tuple[Run, threading.Thread]] = OrderedDict()

    def begin(self, run: Run, work: Work, on_end: OnEnd = lambda state, said: None) -> None:
        """Does the work in a thread; `on_end` is called there before the state changes."""
        thread = threading.Thread(
            target=_work, args=(run, work, on_end), name=f"run {run.id}", daemon=True
        )
        with self._lock:
            self._all[run.id] = run, thread
            ended = [one.id for one, _ in self._all.values() if one.state is not RunState.RUNNING]
            for name in ended[: len(self._all) - MOST_KEPT]:
                del self._all[name]
        thread.start()

    def of(self, user: str) -> list[Run]:
        """The runs of a user, newest first."""
        with self._lock:
            found = [one for one, _ in self._all.values() if one.user == user]
        return found[::-1]

    def close(self) -> None:
        """Cancels all, and waits a little for their ends."""
        with self._lock:
            every = list(self._all.values())
        for run, _ in every:
            run.cancelled.set()
        for _, thread in every:
            thread.join(GOODBYE_S)


def new_run(*, title: str, user: str, path: str, begun_ms: int, total: int, unit: str) -> Run:
    """A run that has not begun."""
    return Run(
        id=secrets.token_hex(8),
        title=title,
        user=user,
        path=path,
        begun_ms=begun_ms,
        total=total,
        unit=unit,
        cancelled=threading.Event(),
    )


def _work(run: Run, work: Work, on_end: OnEnd) -> None:
    try:
        run.said, state = work(run), RunState.DONE
    except CancelledError:
        run.said, state = "cancelled", RunState.CANCELLED
    except (OttlaError, OSError) as error:
        run.said, state = str(error), RunState.FAILED
    except Exception as error:
        logger.exception("%s", run.title)
        run.said, state = type(error).__name__, RunState.FAILED
    try:
        on_end(state, run.said)
    finally:
        run.state = state
