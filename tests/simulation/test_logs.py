"""Thirty days of a broker's logs, from a seed: nothing goes too early, nothing stays, nothing that
was deleted comes back, and every restart is clean."""

import logging

import pytest

from tests.simulation.log_world import World

FEW = range(3)
MORE = range(3, 5)
MANY = range(5, 40)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MORE)
def test_logs_live_through_thirty_days(seed: int) -> None:
    World(seed).run()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_logs_live_through_thirty_more_days(seed: int) -> None:
    World(seed).run()


@pytest.mark.slow
def test_a_run_has_what_it_is_to_be_about() -> None:
    counts: dict[str, int] = {}
    for seed in FEW:
        world = World(seed)
        world.run()
        for name, count in world.counts.items():
            counts[name] = counts.get(name, 0) + count
    assert counts["segments retained away"] > 300
    assert counts["offline"] >= 5
    for deed in World(0).deeds:
        assert counts[deed.__name__] > 5
