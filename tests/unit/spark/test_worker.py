"""What a process of Spark's does once."""

import gc
from collections.abc import Iterator

import pytest

from ottla.spark.worker import exempt_imports


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    exempt_imports.cache_clear()
    yield
    gc.unfreeze()


def test_what_is_there_is_not_looked_at_again_and_what_comes_later_is() -> None:
    exempt_imports()
    count = gc.get_freeze_count()
    later: list[object] = []
    later.append(later)
    exempt_imports()
    assert 0 < gc.get_freeze_count() <= count
    assert any(one is later for one in gc.get_objects())
    assert not any(one is gc for one in gc.get_objects())
