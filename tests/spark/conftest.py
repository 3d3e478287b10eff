"""One Spark session for all tests of this folder: starting one takes seconds."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import MarkDecorator

from ottla.loading.job import LoadOptions
from ottla.spark.load import load
from ottla.spark.session import LocalSession, SessionSettings
from tests.support.ports import free_port
from tests.support.stores import environment_of, new_bucket, served
from tests.support.topics import append

pytest.importorskip("pyspark")

HERE = f"{Path(__file__).parent}{os.sep}"
MARKS: tuple[MarkDecorator, ...] = (pytest.mark.spark, pytest.mark.slow)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE):
            for mark in MARKS:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def store_port() -> int:
    """Where an object store would be: Spark's processes must know it from their start."""
    port = free_port()
    os.environ.update(environment_of(port))
    return port


@pytest.fixture(scope="session")
def object_store(store_port: int) -> Iterator[int]:
    with served(store_port) as port:
        yield port


@pytest.fixture
def bucket(object_store: int) -> str:
    """The address of an empty bucket."""
    return new_bucket(object_store)


@pytest.fixture(scope="session")
def local_session(store_port: int) -> Iterator[LocalSession]:
    """The session, whichever Java it is that this machine has."""
    session = LocalSession.start(SessionSettings(cores=2, is_short=True, log_level="OFF"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def loaded_once(tmp_path_factory: pytest.TempPathFactory, local_session: LocalSession) -> Path:
    path = tmp_path_factory.mktemp("loaded")
    for counts in ({0: 700, 1: 30}, {0: 41, 1: 9}):
        append(path / "log", counts)
        load(
            str(path / "log"),
            "orders",
            str(path / "table"),
            spark=local_session.spark,
            options=LoadOptions(min_partitions=4),
        )
    return path


@pytest.fixture
def loaded(loaded_once: Path, tmp_path: Path) -> Path:
    """A log, and a table of two loads of it, in several files each."""
    for name in ("log", "table"):
        shutil.copytree(loaded_once / name, tmp_path / name)
    return tmp_path
