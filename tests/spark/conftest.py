"""One Spark session for all tests of this folder: starting one takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import MarkDecorator

from ottla.spark.session import LocalSession, SessionSettings

pytest.importorskip("pyspark")

HERE = Path(__file__).parent
MARKS: tuple[MarkDecorator, ...] = (pytest.mark.spark, pytest.mark.slow)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for mark in MARKS:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def local_session() -> Iterator[LocalSession]:
    """The session, whichever Java it is that this machine has."""
    session = LocalSession.start(SessionSettings(cores=2, is_short=True, log_level="OFF"))
    yield session
    session.stop()
