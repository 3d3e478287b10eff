"""A lock that threads queue for: one at a time holds it, and an interrupt leaves it free."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

import pytest

from ottla.runtime.queued_lock import QueuedLock
from tests.support.patience import PATIENCE_S
from tests.support.queued_locks import is_queued
from tests.unit.runtime.test_interrupts import OutOfNowhereError, Tracer, appear

THREADS = 8
TURNS = 500
MOST_LINES = 20
ROOM = ("runtime/queued_lock",)


@contextmanager
def held_until_another_queues(lock: QueuedLock) -> Iterator[None]:
    """Held by a thread, until another one waits for it or the block ends."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            while not is_queued(lock) and not is_over.wait(0.001):
                pass

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_held.wait(PATIENCE_S)
    try:
        yield
    finally:
        is_over.set()
        holder.join(PATIENCE_S)


def is_free(lock: QueuedLock) -> bool:
    """Whether another thread can take the lock, also with `with`."""
    taken = threading.Event()

    def take() -> None:
        with lock:
            taken.set()

    threading.Thread(target=take, daemon=True).start()
    return taken.wait(PATIENCE_S)


def test_one_thread_at_a_time_holds_it_and_all_have_their_turns() -> None:
    lock = QueuedLock()
    inside: list[int] = []
    crowds: list[list[int]] = []
    turns = dict.fromkeys(range(THREADS), 0)

    def work(number: int) -> None:
        for _ in range(TURNS):
            with lock, lock:
                inside.append(number)
                turns[number] += 1
                if inside != [number]:
                    crowds.append(list(inside))
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in turns]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE_S)
    assert crowds == []
    assert set(turns.values()) == {TURNS}


def test_a_thread_that_holds_it_twice_keeps_it_until_it_has_released_it_twice() -> None:
    lock = QueuedLock()
    with lock:
        with lock:
            pass
        found: list[bool] = []
        other = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
        other.start()
        other.join(PATIENCE_S)
        assert found == [False]
    assert is_free(lock)


@pytest.mark.parametrize("is_held", [False, True], ids=["free before", "held by another"])
def test_an_exception_at_any_line_leaves_it_free(is_held: bool) -> None:
    for number in range(1, MOST_LINES):
        lock = QueuedLock()
        others = held_until_another_queues(lock) if is_held else nullcontext()
        tracer = Tracer(number, appear, ROOM)
        with suppress(OutOfNowhereError), others, tracer, lock:
            pass
        assert is_free(lock), f"line {number}"
        if not tracer.has_acted:
            break
    assert 2 < number < MOST_LINES - 1
