"""What a long request has yields to others between its elements, and is freed in turns."""

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from ottla.base.turns import CURRENT, Turn, at_once, counted, turn_dict, turn_list
from ottla.codec.primitives import Output
from ottla.codec.schema import reader, writer
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

MANY = 2000


class Counted:
    """A turn that is over at each check."""

    def __init__(self) -> None:
        self.count = 0
        self.turn = Turn(self._suspend, lambda: 1.0, max_elements=3 * MANY, max_size=100 * MANY)

    def _suspend(self) -> None:
        self.count += 1

    def freed(self) -> int:
        """Frees what there is; how often others had their turn meanwhile."""
        before = self.count
        self.turn.free()
        return self.count - before


@pytest.fixture
def counted_turn() -> Iterator[Counted]:
    """Nothing is collected meanwhile: garbage of other tests would be freed in this turn."""
    one = Counted()
    token = CURRENT.set(one.turn)
    gc.disable()
    yield one
    gc.enable()
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


def encoded(message: Any) -> bytearray:
    output = Output()
    writer(type(message), 4 if isinstance(message, DescribeConfigsRequest) else 2)(message, output)
    return output.data


def decoded(data: bytearray, turn: Turn) -> DescribeConfigsRequest:
    return reader(DescribeConfigsRequest, 4)(data, 0, turn)[0]


ITERATIONS: list[Callable[[Iterable[Any]], object]] = [
    list,
    tuple,
    set,
    sorted,
    dict.fromkeys,
    lambda items: [*items],
    lambda items: [str(one) for one in items],
    lambda items: list(zip(items, range(MANY), strict=True)),
    lambda items: list(enumerate(items)),
    lambda items: list(map(str, items)),
    lambda items: all(True for _ in items),
    lambda items: [].extend(items),
    lambda items: counted(items),
]


@pytest.mark.parametrize("iterate", ITERATIONS)
def test_others_have_their_turn_at_each_element_of_what_a_long_request_has(
    iterate: Callable[[Iterable[Any]], object], counted_turn: Counted
) -> None:
    pairs = turn_dict((one, one) for one in range(MANY))
    for items in (turn_list(range(MANY)), pairs, pairs.values(), pairs.items(), pairs.keys()):
        before = counted_turn.count
        iterate(items)
        assert counted_turn.count - before >= MANY


def test_in_what_is_done_at_once_and_without_a_turn_nobody_else_has_one(
    counted_turn: Counted,
) -> None:
    items, pairs = turn_list(range(MANY)), turn_dict((one, one) for one in range(MANY))
    before = counted_turn.count
    with at_once():
        assert list(items) == list(pairs) == list(pairs.values()) == list(range(MANY))
        assert list(pairs.items()) == list(zip(range(MANY), range(MANY), strict=True))
    assert counted_turn.count == before


def test_in_a_short_request_lists_and_dicts_are_plain() -> None:
    made = [1, 2]
    assert turn_list(made) is made
    assert type(turn_list(iter(made))) is list
    assert type(turn_dict()) is dict


def test_the_arrays_of_a_long_request_yield_and_those_without_one_do_not(
    counted_turn: Counted,
) -> None:
    message = decoded(encoded(request(20, 30)), counted_turn.turn)
    assert message == request(20, 30)
    before = counted_turn.count
    assert sum(1 for one in message.resources for _ in one.configuration_keys or ()) == 600
    assert counted_turn.count - before == 20 + 600
    numbers = ElectLeadersRequest(topic_partitions=[TopicPartitions(partitions=[*range(50)])])
    read, _ = reader(ElectLeadersRequest, 2)(encoded(numbers), 0, counted_turn.turn)
    assert read == numbers
    before = counted_turn.count
    assert sum(1 for one in read.topic_partitions or () for _ in one.partitions) == 50
    assert counted_turn.count - before == 50


@pytest.mark.parametrize(("resources", "keys"), [(MANY, 0), (1, MANY), (10, 200), (200, 10)])
def test_the_arrays_of_a_request_are_freed_in_turns_at_any_depth(
    resources: int, keys: int, counted_turn: Counted
) -> None:
    message = decoded(encoded(request(resources, keys)), counted_turn.turn)
    assert counted_turn.freed() == 0
    del message
    assert counted_turn.freed() >= MANY / 256


@pytest.mark.parametrize(("results", "configs"), [(MANY, 0), (1, MANY), (10, 200), (200, 10)])
def test_the_arrays_of_a_response_are_freed_in_turns_when_it_is_written(
    results: int, configs: int, counted_turn: Counted
) -> None:
    response = DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_name="t", configs=[_config(number) for number in range(configs)]
            )
            for _ in range(results)
        ]
    )
    output = Output()
    output.turn = counted_turn.turn
    writer(DescribeConfigsResponse, 4)(response, output)
    del response
    assert counted_turn.freed() >= MANY / 256


def _config(number: int) -> Any:
    field = next(one for one in DescribeConfigsResult.FIELDS if one.name == "configs")
    assert field.struct is not None
    return field.struct(name=str(number), value="")


def test_what_somebody_else_holds_stays_whole(counted_turn: Counted) -> None:
    message = decoded(encoded(request(300, 300 // 100)), counted_turn.turn)
    kept = message.resources
    response = DescribeConfigsResponse(results=[DescribeConfigsResult() for _ in range(MANY)])
    output = Output()
    output.turn = counted_turn.turn
    writer(DescribeConfigsResponse, 4)(response, output)
    del message
    counted_turn.freed()
    assert kept == request(300, 3).resources
    assert len(response.results) == MANY


def test_what_a_handler_made_is_freed_in_turns_when_nobody_has_it_any_more(
    counted_turn: Counted,
) -> None:
    made: list[Any] = [turn_list(range(MANY)), turn_dict((one, one) for one in range(MANY))]
    assert counted_turn.freed() == 0
    made.pop()
    assert counted_turn.freed() >= MANY / 256
    made.pop()
    assert counted_turn.freed() >= MANY / 256


def test_names_are_counted() -> None:
    assert counted(["a", "b", "a"]) == {"a": 2, "b": 1}
