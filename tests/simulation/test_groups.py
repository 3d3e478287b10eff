"""Many members joining, dying and lagging, from a seed: what must hold, holds, and all settle."""

import pytest

from tests.simulation.group_world import World

FEW = range(6)
MORE = range(6, 30)
MANY = range(30, 120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MORE)
def test_a_group_lives_through_chaos_and_settles(seed: int) -> None:
    World(seed).run()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_a_group_lives_through_more_chaos_and_settles(seed: int) -> None:
    World(seed).run()


@pytest.mark.slow
def test_a_run_has_what_it_is_to_be_about() -> None:
    """Chaos that nobody notices proves nothing."""
    counts = {"synced": 0, "commits": 0, "refused commits": 0, "crashes": 0}
    for seed in FEW:
        world = World(seed)
        world.run()
        for name, count in world.counts.items():
            counts[name] += count
    assert counts["synced"] > 100
    assert counts["commits"] > 1000
    assert counts["refused commits"] > 10
    assert counts["crashes"] > 5


@pytest.mark.slow
def test_the_same_seed_is_the_same_run() -> None:
    first, second = World(1), World(1)
    first.run()
    second.run()
    assert first.runner.log == second.runner.log
