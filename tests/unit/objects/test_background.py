"""Work in another thread: its result, or its error, is that of who waits for it."""

import threading

import pytest

from ottla.objects.background import begin


def test_the_result_is_waited_for_and_may_be_asked_for_again() -> None:
    may_end = threading.Event()

    def work() -> str:
        may_end.wait(60)
        return threading.current_thread().name

    wait = begin(work)
    may_end.set()
    assert wait() == wait() == "ottla-read-ahead"


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    def fail() -> str:
        raise ValueError("no store")

    wait = begin(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="no store"):
            wait()


def test_the_thread_does_not_keep_the_process() -> None:
    found = begin(threading.current_thread)()
    assert found.daemon
