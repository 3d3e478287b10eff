"""A broker with something to see, and a console over it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, Browser, console_over, fill
from tests.support.leftovers import collect_leftovers


@pytest.fixture(autouse=True, scope="module")
def _collect_what_was_left_before() -> None:
    """What drives a browser makes much garbage, and its tests were blamed for others' sockets."""
    collect_leftovers()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "data", FEW_LOGS) as found:
        fill(found.log)
        yield found


@pytest.fixture
def browser(broker: LocalBroker) -> Iterator[Browser]:
    with console_over(broker.address) as found:
        yield found
