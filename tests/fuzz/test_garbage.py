"""Whatever bytes come, what reads them takes them or raises its own error, and soon."""

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import TARGET_NAMES
from tests.fuzz.targets import (
    REQUESTS,
    RESPONSES,
    TARGETS,
    Declared,
    framed,
    headers,
    read_as,
    requests,
    seeds,
    valid,
)

SECOND_MS = 1000


@cache
def seeds_of(name: str) -> list[bytes]:
    return list(seeds(name))


each_target = pytest.mark.parametrize("name", list(TARGETS))
Change = tuple[float, bytes, bool]
"""Where, what, and whether it is put in between rather than over what is there."""

CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.binary(max_size=5) | st.sampled_from((b"\x7f\xff\xff\xff", b"\xff" * 5, b"\x80" * 10)),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


def changed(data: bytes, changes: list[Change], kept: float) -> bytes:
    for place, piece, is_between in changes:
        position = int(place * len(data))
        data = data[:position] + piece + data[position + (0 if is_between else len(piece)) :]
    return data[: int(kept * len(data)) + 1]


@pytest.mark.slow
@each_target
@settings(max_examples=60, deadline=SECOND_MS)
@given(data=st.binary(max_size=200))
def test_noise_is_taken_or_refused(name: str, data: bytes) -> None:
    TARGETS[name]()(data)


@pytest.mark.slow
@each_target
@settings(max_examples=150, deadline=SECOND_MS)
@given(data=st.data(), changes=CHANGES, kept=st.floats(0.5, 1))
def test_what_was_valid_before_it_was_changed_is_taken_or_refused(
    name: str, data: st.DataObject, changes: list[Change], kept: float
) -> None:
    seed = data.draw(st.sampled_from(seeds_of(name)))
    TARGETS[name]()(changed(seed, changes, kept))


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_request_in_every_version_is_taken_or_refused_when_it_is_broken(seed: int) -> None:
    chance = random.Random(seed)
    for number, (message, version) in enumerate(REQUESTS):
        data = bytearray(number.to_bytes(2, "big") + valid(message, version, chance))
        headers(bytes(framed(message, version, data[2:])))
        for _ in range(chance.randrange(1, 4)):
            if len(data) > 2:
                data[chance.randrange(2, len(data))] = chance.choice((0, 1, 127, 128, 255))
        requests(bytes(data))
        requests(bytes(data[: chance.randrange(2, len(data) + 1)]))


@pytest.mark.parametrize("choices", [REQUESTS, RESPONSES], ids=["requests", "responses"])
def test_what_was_not_changed_is_read_to_its_end(choices: Declared) -> None:
    chance = random.Random(3)
    for number, (message, version) in enumerate(choices):
        body = valid(message, version, chance)
        assert read_as(number.to_bytes(2, "big") + body, choices) == len(body)


def test_every_target_can_be_fuzzed_for_longer() -> None:
    assert list(TARGET_NAMES) == list(TARGETS)
