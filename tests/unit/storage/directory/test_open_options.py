"""What a shell that has no threads to offer gets: one log after the other."""

import pytest

from ottla.storage.directory.open_options import run_in_turn


def test_tasks_run_in_their_order() -> None:
    done: list[int] = []
    run_in_turn([lambda number=number: done.append(number) for number in range(5)])  # type: ignore[misc]
    assert done == [0, 1, 2, 3, 4]


def test_a_task_that_fails_ends_it() -> None:
    done: list[str] = []

    def fail() -> None:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        run_in_turn([lambda: done.append("first"), fail, lambda: done.append("last")])
    assert done == ["first"]
