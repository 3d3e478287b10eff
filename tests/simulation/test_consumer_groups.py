"""Members of the new protocol in chaos, from a seed: what must hold, holds, and all settle."""

import pytest

from tests.simulation.consumer_world import ConsumerWorld

pytestmark = pytest.mark.slow

FEW = range(6)
MORE = range(6, 14)
MANY = range(14, 120)


@pytest.mark.parametrize("seed", MORE)
def test_a_group_of_the_new_protocol_lives_through_chaos_and_settles(seed: int) -> None:
    ConsumerWorld(seed).run()


@pytest.mark.long
@pytest.mark.parametrize("seed", MANY)
def test_a_group_of_the_new_protocol_lives_through_more_chaos_and_settles(seed: int) -> None:
    ConsumerWorld(seed).run()


def test_a_run_of_the_new_protocol_has_what_it_is_to_be_about() -> None:
    """Chaos that nobody notices proves nothing."""
    counts = dict.fromkeys(ConsumerWorld(0).counts, 0)
    for seed in FEW:
        world = ConsumerWorld(seed)
        world.run()
        for name, count in world.counts.items():
            counts[name] += count
    assert counts["beats"] > 1000
    assert counts["moves"] > 50
    assert counts["fenced"] > 0
    assert counts["commits"] > 1000
    assert counts["refused commits"] > 10
    assert counts["crashes"] > 5


def test_the_same_seed_of_the_new_protocol_is_the_same_run() -> None:
    first, second = ConsumerWorld(1), ConsumerWorld(1)
    first.run()
    second.run()
    assert first.runner.log == second.runner.log
