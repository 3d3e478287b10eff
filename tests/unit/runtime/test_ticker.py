"""When timed jobs run in a process without a server's loop."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.clock import SystemClock
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.runtime import ticker as module
from ottla.runtime.ticker import Ticker
from tests.support.patience import PATIENCE_S


class Scheduler:
    """Has one deadline, and notes each round."""

    def __init__(self) -> None:
        self.next_deadline_ms: float | None = None
        self.rounds = threading.Semaphore(0)

    def run_due(self, at: Timestamps) -> None:
        if self.next_deadline_ms is not None and self.next_deadline_ms <= at.monotonic_ms:
            self.next_deadline_ms = None
        self.rounds.release()

    def await_round(self) -> None:
        assert self.rounds.acquire(timeout=PATIENCE_S)


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def ticker(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> Any:
    """No round begins by itself in the time that a test may take."""
    monkeypatch.setattr(module, "INTERVAL_S", 10 * PATIENCE_S)
    broker = cast(Broker, SimpleNamespace(scheduler=scheduler, directories=[]))
    made = Ticker(
        broker,
        clock=SystemClock(),
        lock=threading.RLock(),
        settle=lambda: None,
        next_due_ms=lambda: scheduler.next_deadline_ms,
    )
    made.start()
    yield made
    made.stop()


def test_a_deadline_that_is_set_while_it_sleeps_is_kept(
    ticker: Ticker, scheduler: Scheduler
) -> None:
    scheduler.await_round()
    with ticker._lock:
        scheduler.next_deadline_ms = SystemClock().monotonic_ms() + 20
        ticker.look_again()
    while scheduler.next_deadline_ms is not None:
        scheduler.await_round()


def test_a_later_deadline_wakes_nobody(ticker: Ticker, scheduler: Scheduler) -> None:
    scheduler.await_round()
    with ticker._lock:
        ticker.look_again()
        scheduler.next_deadline_ms = SystemClock().monotonic_ms() + 100_000 * PATIENCE_S
        ticker.look_again()
    assert not ticker._wake.is_set()
    assert not scheduler.rounds.acquire(blocking=False)
