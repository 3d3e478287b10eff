"""Tasks of an opening, in as many threads as the settings allow."""

import threading

import pytest

from ottla.runtime.opening import run_in_threads


@pytest.mark.parametrize("count", [1, 2])
def test_all_tasks_are_carried_out_before_the_first_error_is_raised(count: int) -> None:
    done: list[int] = []

    def refuse(reason: str) -> None:
        raise OSError(reason)

    tasks = [lambda: refuse("first"), lambda: refuse("second"), lambda: done.append(1)]
    with pytest.raises(OSError, match="first"):
        run_in_threads(count, tasks)
    assert done == [1]


def test_the_calling_thread_does_what_one_thread_can_do() -> None:
    threads: list[threading.Thread] = []
    task = lambda: threads.append(threading.current_thread())  # noqa: E731
    run_in_threads(4, [task])
    run_in_threads(1, [task, task])
    run_in_threads(4, [])
    assert threads == [threading.current_thread()] * 3
