"""Streams whose Python process connects too late."""

import logging
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from ottla.spark import restarts
from ottla.spark.restarts import run_to_end, warn_if_slow

LATE = "Python worker failed to connect back."


class Query:
    def __init__(self, error: str | None) -> None:
        self._error = error

    def awaitTermination(self) -> None:  # noqa: N802
        if self._error is not None:
            raise StreamingQueryException(self._error)


def starting(*errors: str | None) -> Any:
    left: Iterator[str | None] = iter(errors)
    return lambda: Query(next(left))


def test_a_query_is_started_again_until_its_process_connects_in_time() -> None:
    assert len(run_to_end(starting(LATE, LATE, None))) == 3


def test_another_error_is_raised_and_so_is_the_last() -> None:
    with pytest.raises(StreamingQueryException, match="boom"):
        run_to_end(starting(LATE, "boom", None))
    with pytest.raises(StreamingQueryException, match="connect back"):
        run_to_end(starting(LATE, LATE, None), tries=2)


def test_a_slow_start_names_what_helps_before_the_query_dies(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(restarts, "_age_s", lambda: 7.25)
    # Processes that Spark's daemon forked serve one query after the other.
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
    warn_if_slow()
    planning = ModuleSpec("pyspark.sql.streaming.python_streaming_source_runner", None)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", planning)
    monkeypatch.setattr(restarts, "_age_s", lambda: 1.0)
    warn_if_slow()
    assert not caplog.records
    monkeypatch.setattr(restarts, "_age_s", lambda: 7.25)
    with caplog.at_level(logging.WARNING):
        warn_if_slow()
    assert "took 7.2 s to start; Spark waits 10 s" in caplog.text
    assert "ottla.spark.restarts.run_to_end" in caplog.text


def test_the_age_of_this_process_is_known_on_linux() -> None:
    age_s = restarts._age_s()
    assert age_s is None or age_s > 0
