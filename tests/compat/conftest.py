"""What other people's clients leave behind is not ours to complain of."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _collect_what_clients_leave() -> Iterator[None]:
    """Sockets that a client could not connect would be found unclosed during another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
