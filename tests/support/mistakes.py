"""Mistakes in calls of a log and of clients, which are answered in one line."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla

Call = Callable[[Any], object]


@pytest.fixture(name="log")
def open_log() -> Iterator[ottla.Log]:
    """A log with a record in a topic of two partitions."""
    with ottla.open(":memory:") as opened:
        opened.create_topic("orders", partitions=2)
        opened.append("orders", b"tea", partition=0)
        yield opened


def refusal(call: Call, asked: Any) -> str:
    """The one line with which a log or a client refuses a call."""
    with pytest.raises(ottla.UserError) as refused:
        call(asked)
    (line,) = str(refused.value).splitlines()
    return line


def check_unknown_argument(call: Call, asked: Any, answer: str) -> None:
    """Asserts that the error of an unknown argument has an answer."""
    with pytest.raises(TypeError) as unknown:
        call(asked)
    assert answer in str(unknown.value)
