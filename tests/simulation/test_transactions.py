"""Transactions from a seed: whatever is lost, doubled, late or killed, no history is wrong."""

import logging
from collections import Counter

import pytest

from ottla.testing.history import check
from tests.simulation.transaction_world import TransactionWorld


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_promise_is_broken_to_producers_and_readers(seed: int) -> None:
    assert list(map(str, check(TransactionWorld(seed).run()))) == []


@pytest.mark.slow
def test_a_run_has_what_it_is_to_be_about() -> None:
    counts: Counter[str] = Counter()
    for seed in range(3):
        world = TransactionWorld(seed)
        world.run()
        counts += world.counts
    for what in ("commits", "aborts", "kills", "late", "twice", "unanswered", "refused"):
        assert counts[what] > 5, counts
