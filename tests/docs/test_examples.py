"""Each public name has an example in its docstring, and each example does what it says."""

from collections.abc import Iterator

import pytest

from tests.docs import typed_application
from tests.docs.examples import PublicName, World, public_names

NAMES = list(public_names())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("examples"))
    yield made
    made.close()


def test_each_public_name_has_an_example() -> None:
    assert len(NAMES) > 200
    assert not [one.name for one in NAMES if not one.is_shown]


@pytest.mark.slow
def test_the_application_that_mypy_checks_runs() -> None:
    typed_application.main()


@pytest.mark.slow
@pytest.mark.xdist_group("examples")
@pytest.mark.parametrize("shown", [one for one in NAMES if one.examples], ids=lambda one: one.name)
def test_example(world: World, shown: PublicName) -> None:
    world.run(shown.examples, is_async=shown.name.startswith("ottla.aio."))
