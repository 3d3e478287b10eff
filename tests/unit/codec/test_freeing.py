"""The messages of a long request are freed in turns."""

from collections.abc import Iterator

import pytest

from ottla.base.turns import CURRENT, Turn, freed_in_turns
from ottla.codec.freeing import free_in_turns
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

MANY = 2000


class Counted:
    """A turn that is over at each check."""

    def __init__(self) -> None:
        self.count = 0
        self.turn = Turn(self._suspend, lambda: 1.0, max_elements=MANY, max_size=MANY)

    def _suspend(self) -> None:
        self.count += 1


@pytest.fixture
def counted() -> Iterator[Counted]:
    counted = Counted()
    token = CURRENT.set(counted.turn)
    yield counted
    CURRENT.reset(token)


def request(resources: int, keys: int) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_name=f"t{one}", configuration_keys=[f"{one}-{key}" for key in range(keys)]
            )
            for one in range(resources)
        ]
    )


@pytest.mark.parametrize(("resources", "keys"), [(MANY, 0), (1, MANY), (20, MANY // 20)])
def test_arrays_at_any_depth_are_emptied_and_others_have_their_turn(
    resources: int, keys: int, counted: Counted
) -> None:
    message = request(resources, keys)
    free_in_turns(message)
    assert message.resources == []
    assert counted.count >= MANY / 256


def test_what_somebody_else_holds_stays_whole(counted: Counted) -> None:
    message = request(3, 300)
    kept, keys = message.resources[1], message.resources[2].configuration_keys
    free_in_turns(message)
    assert message.resources == []
    assert kept == request(3, 300).resources[1]
    assert keys == request(3, 300).resources[2].configuration_keys


def test_a_list_that_somebody_else_holds_stays_whole(counted: Counted) -> None:
    message = request(3, 1)
    resources = message.resources
    free_in_turns(message)
    assert message.resources is resources
    assert message == request(3, 1)


def test_a_short_request_is_left_as_it_is() -> None:
    message = request(3, 1)
    free_in_turns(message)
    assert message == request(3, 1)


@pytest.mark.parametrize("items", [list(range(MANY)), dict.fromkeys(range(MANY))])
def test_what_a_handler_made_is_emptied_in_turns_when_its_request_is_over(
    items: list[int] | dict[int, None], counted: Counted
) -> None:
    assert freed_in_turns(items) is items
    assert len(items) == MANY
    counted.turn.free()
    assert not items
    assert counted.count >= MANY / 256
