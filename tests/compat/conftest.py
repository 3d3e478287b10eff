"""Other people's clients take part in every test here."""

from collections.abc import Iterator

import pytest

from tests.support.leftovers import collect_leftovers, of_clients


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/compat/"):
            item.add_marker(of_clients)


@pytest.fixture(autouse=True)
def _collect_what_clients_leave(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test of a client that has an event loop, which takes a tenth of a second."""
    yield
    if "aiokafka" in request.node.nodeid or hasattr(request.module, "asyncio"):
        collect_leftovers()


@pytest.fixture(autouse=True, scope="module")
def _collect_what_modules_leave() -> Iterator[None]:
    yield
    collect_leftovers()
