"""A thread of a member that goes on whatever its work meets."""

from collections.abc import Iterator

import pytest

from ottla.cluster.worker import Worker
from tests.support.patience import wait_until


def test_an_error_that_comes_again_and_again_is_logged_once_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.cluster.worker.BACKOFF_S", 0.001)
    outcomes: Iterator[Exception | None] = iter(
        [*map(ValueError, "aaab"), None, ValueError("b"), None]
    )
    done: list[None] = []

    def work() -> float:
        for one in outcomes:
            if one is not None:
                raise one
            return 0.0
        done.append(None)
        return 60.0

    worker = Worker("ottla-test", work)
    worker.start()
    wait_until(lambda: done)
    worker.stop()
    assert [str(one.exc_info[1]) for one in caplog.records if one.exc_info] == ["a", "b", "b"]
