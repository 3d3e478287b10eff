"""A broker with something to see, and a console over it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, Browser, console_over, fill


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "data", FEW_LOGS) as found:
        fill(found.log)
        yield found


@pytest.fixture
def browser(broker: LocalBroker) -> Iterator[Browser]:
    with console_over(broker.address, allows_writes=True) as found:
        yield found
