"""Thirty days of compacted logs, from a seed: no last value is lost, and every delete is seen."""

import logging

import pytest

from tests.simulation.compacting_world import CompactingWorld

FEW = range(3)
MORE = range(3, 4)
MANY = range(4, 30)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MORE)
def test_compacted_logs_live_through_thirty_days(seed: int) -> None:
    CompactingWorld(seed).run()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_compacted_logs_live_through_thirty_more_days(seed: int) -> None:
    CompactingWorld(seed).run()


@pytest.mark.slow
def test_a_run_has_what_it_is_to_be_about() -> None:
    counts: dict[str, int] = {}
    for seed in FEW:
        world = CompactingWorld(seed)
        world.run()
        for name, count in world.counts.items():
            counts[name] = counts.get(name, 0) + count
    assert counts["records compacted away"] > 500
    assert counts["reads on"] > 50
    assert counts["offline while cleaning"] >= 3
    for deed in CompactingWorld(0).deeds:
        assert counts[deed.__name__] > 3
