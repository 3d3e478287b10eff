"""A table of two loads, which each test gets a copy of."""

import os
import shutil
from pathlib import Path

import pytest

from ottla.loading.job import LoadOptions
from tests.support.local_loads import load
from tests.support.topics import append

pytest.importorskip("deltalake")

HERE = f"{Path(__file__).parent}{os.sep}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def loaded_locally(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loaded")
    for counts in ({0: 700, 1: 30}, {0: 41, 1: 9}):
        append(path / "log", counts)
        options = LoadOptions(min_partitions=4)
        load(str(path / "log"), "orders", str(path / "table"), options=options)
    return path


@pytest.fixture
def loaded(loaded_locally: Path, tmp_path: Path) -> Path:
    """A log, and a table of two loads of it, in several files each."""
    for name in ("log", "table"):
        shutil.copytree(loaded_locally / name, tmp_path / name)
    return tmp_path
