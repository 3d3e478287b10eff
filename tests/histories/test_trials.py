"""Whatever is done to clients and broker, no promise of Kafka's is broken.

A few seconds in `make test`, and as long as it is told in `make crash`. What failed is tried again
with `python -m tests.histories SEED SECONDS ROLES`.
"""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from ottla.testing.history import Operation, Outcome, Send, check
from tests.histories.trial import IDEMPOTENT, Trial

SECONDS = 5.0
LONG_SECONDS = 15.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]


def run_trials(tmp_path: Path, roles: tuple[str, ...], crash_seconds: float) -> None:
    """One short trial, and longer ones until the time is over."""
    started = time.monotonic()
    seed = random.SystemRandom().randrange(10**6)
    seconds = SECONDS
    while True:
        directory = tmp_path / str(seed)
        directory.mkdir()
        trial = Trial(directory=directory, seed=seed, seconds=seconds, roles=roles)
        history = trial.run()
        findings = check(history)
        print(f"seed {seed}, {seconds} s: {dict(trial.done)}, {len(history)} operations")
        assert not findings, f"seed {seed}: " + "\n".join(map(str, findings[:10]))
        assert_much_happened(history, trial.done)
        if time.monotonic() - started > crash_seconds:
            return
        seed, seconds = seed + 1, LONG_SECONDS


def assert_much_happened(history: list[Operation], done: Counter[str]) -> None:
    """A trial in which nothing was sent, or nothing was hurt, says nothing."""
    outcomes = Counter(one.outcome for one in history if isinstance(one, Send))
    assert outcomes[Outcome.OK] > 100, outcomes
    assert done["delay"] + done["double"] > 0, done


def test_idempotent_producers_lose_and_double_nothing(tmp_path: Path, crash_seconds: float) -> None:
    run_trials(tmp_path, IDEMPOTENT, crash_seconds)
