"""Tasks of a load in this process: in their order, in threads, and ended by the first error."""

import threading
from functools import partial

import pytest

from ottla.base.errors import TaskError, UserError
from ottla.loading.local_engine import LocalEngine
from tests.support.patience import PATIENCE_S


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_come_in_the_order_of_the_tasks(threads: int) -> None:
    done: list[tuple[int, int]] = []

    def task(number: int) -> list[str]:
        return [f"{number}a", f"{number}b"]

    engine = LocalEngine(threads)
    found = engine.run([partial(task, one) for one in range(5)], lambda *one: done.append(one))
    assert found == [f"{number}{letter}" for number in range(5) for letter in "ab"]
    assert done == [(one, 5) for one in range(1, 6)]
    assert engine.run([], lambda *_: None) == []


def test_two_tasks_run_at_a_time() -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def task() -> list[str]:
        both.wait()
        return [threading.current_thread().name]

    names = LocalEngine(2).run([task, task], lambda *_: None)
    assert len(set(names)) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_a_task_that_fails_ends_the_run(threads: int) -> None:
    def task(number: int) -> list[str]:
        if number == 3:
            raise UserError("task 3")
        return []

    with pytest.raises(UserError, match="task 3"):
        LocalEngine(threads).run([partial(task, one) for one in range(9)], lambda *_: None)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_a_library_in_a_task_is_a_task_error(threads: int) -> None:
    def task() -> list[str]:
        raise ValueError("offset overflow while concatenating arrays")

    with pytest.raises(TaskError, match="ended with ValueError: offset overflow"):
        LocalEngine(threads).run([task, task], lambda *_: None)


def test_tasks_after_one_that_fails_do_not_begin() -> None:
    begun: list[int] = []

    def task(number: int) -> list[str]:
        begun.append(number)
        raise UserError("it fails")

    with pytest.raises(UserError):
        LocalEngine(1).run([partial(task, one) for one in range(9)], lambda *_: None)
    assert begun == [0]
