"""A stop that waits for a disk ends all the same."""

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from ottla.runtime.stop_limit import EXIT_CODE, StopLimit, TimedLock
from tests.support.patience import wait_until

LIMIT_S = 0.01


class Stop:
    """What a process is that stops; `ended` has the exit codes with which it would have ended."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open = ["/a", "/b"]
        self.ended: list[int] = []

    def limit(
        self, lock: TimedLock | None = None, step: Callable[[], str] | None = None
    ) -> StopLimit:
        return StopLimit(
            lock or self.lock,
            lambda: self.open,
            step or (lambda: "closing"),
            limit_s=LIMIT_S,
            end=self.ended.append,
        )


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_stop_without_a_step_ends_and_names_what_is_not_closed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    stop = Stop()
    with stop.limit() as limit:
        stop.open.remove("/a")
        limit.closing()
        wait_until(lambda: stop.ended)
    assert stop.ended == [EXIT_CODE]
    assert capfd.readouterr().err == (
        "/b: the disk has not answered for 0.01 s; stopped without closing what is there, which "
        "the next start recovers\n"
    )


def test_a_lock_that_is_never_free_again_ends_the_process_after_a_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.runtime.stop_limit.LOOK_S", 0.001)
    stop = Stop()
    with stop.lock, stop.limit():
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: stop.ended)
    assert stop.ended == [EXIT_CODE]


def test_a_member_that_serves_until_others_have_what_it_led_is_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.runtime.stop_limit.LOOK_S", 0.001)
    stop, looks = Stop(), threading.Semaphore(0)

    class Counted:
        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            looks.release()
            return stop.lock.acquire(blocking, timeout)

        def release(self) -> None:
            stop.lock.release()

    with stop.limit(Counted()):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(20):
            assert looks.acquire(timeout=30)
    assert not stop.ended


def test_a_stop_that_goes_on_step_by_step_may_take_longer() -> None:
    stop, seen = Stop(), [0]

    def step() -> str:
        seen[0] += 1
        return str(min(seen[0], 10))

    with stop.limit(step=step) as limit:
        limit.closing()
        wait_until(lambda: stop.ended)
    assert seen[0] == 11
