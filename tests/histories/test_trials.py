"""Whatever is done to clients and broker, no promise of Kafka's is broken.

A few seconds in `make test-all`, and as long as it is told in `make crash`. What failed is tried
again with `python -m tests.histories SEED SECONDS ROLES`.
"""

import contextlib
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.testing.history import End, Operation, Outcome, Send, check
from tests.compat.java import absence
from tests.histories.clients import PATIENCE_S, TOPIC, Silence
from tests.histories.clocks import HOUR_MS
from tests.histories.trial import (
    EXACTLY_ONCE,
    GROUP_PAUSES_S,
    IDEMPOTENT,
    JAVA_PAUSES_S,
    JAVA_TRANSACTIONAL,
    TRANSACTIONAL,
    Broker,
    Trial,
    create_topics,
)
from tests.support.ports import free_port

SECONDS = 3.0
LONG_SECONDS = 15.0
JAVA_SECONDS = 6.0

pytestmark = pytest.mark.slow


def run_trials(
    tmp_path: Path,
    roles: tuple[str, ...],
    crash_seconds: float,
    *,
    seconds: float = SECONDS,
    **more: Any,
) -> None:
    """One short trial, and longer ones until the time is over."""
    started = time.monotonic()
    seed = random.SystemRandom().randrange(10**6)
    while True:
        directory = tmp_path / str(seed)
        directory.mkdir()
        trial = Trial(
            directory=directory,
            seed=seed,
            seconds=seconds,
            roles=roles,
            is_enough=lambda history, done: not missing(history, done, roles),
            **more,
        )
        history = trial.run()
        findings = check(history)
        print(f"seed {seed}, {seconds} s: {dict(trial.done)}, {len(history)} operations")
        assert not findings, f"seed {seed}: " + "\n".join(map(str, findings[:10]))
        assert not missing(history, trial.done, roles)
        if time.monotonic() - started > crash_seconds:
            return
        seed, seconds = seed + 1, LONG_SECONDS


def missing(history: list[Operation], done: Counter[str], roles: tuple[str, ...]) -> list[str]:
    """What a trial says nothing without: much was sent, and something was hurt."""
    answered = sum(isinstance(one, Send) and one.outcome is Outcome.OK for one in history)
    found = []
    if answered <= 20:
        found.append(f"sends that are answered: {answered} of {len(history)} operations")
    if not any(done[one] for one in ("delay", "double", "kill", "pause")):
        found.append(f"harm: {done}")
    if not done["clock set"]:
        found.append(f"a clock that is set: {done}")
    if roles != IDEMPOTENT and not has_committed(history):
        found.append("a transaction that is committed")
    return found


def has_committed(history: list[Operation]) -> bool:
    return any(
        isinstance(one, End) and one.is_commit and one.outcome is Outcome.OK for one in history
    )


def test_the_broker_of_a_trial_goes_by_the_clock_that_is_set(tmp_path: Path) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    times_ms: list[int] = []
    with contextlib.closing(Broker(tmp_path / "data", port, port)) as broker:
        create_topics(address, {"message.timestamp.type": "LogAppendTime"})
        producer = Producer({"bootstrap.servers": address}, logger=Silence())
        for hours in (48, -48, 0):
            broker.clock.set(hours * HOUR_MS)
            producer.produce(
                TOPIC, b"v", on_delivery=lambda _, one: times_ms.append(one.timestamp()[1])
            )
            assert producer.flush(PATIENCE_S) == 0
    now_ms = time.time_ns() // 1_000_000
    assert [round((one - now_ms) / HOUR_MS) for one in times_ms] == [48, -48, 0]


def test_a_trial_continues_until_enough_has_happened(tmp_path: Path) -> None:
    trial = Trial(tmp_path, 7, seconds=0.1, roles=IDEMPOTENT, pauses_s=(0.1, 0.1))
    trial.is_enough = lambda history, done: not missing(history, done, IDEMPOTENT)
    history = trial.run()
    assert not missing(history, trial.done, IDEMPOTENT)
    assert trial.done["extended"]


def test_a_trial_is_missing_what_did_not_happen() -> None:
    assert len(missing([], Counter(), TRANSACTIONAL)) == 4
    assert len(missing([], Counter({"clock set": 1, "kill": 1}), IDEMPOTENT)) == 1


def test_idempotent_producers_lose_and_double_nothing(tmp_path: Path, crash_seconds: float) -> None:
    run_trials(tmp_path, IDEMPOTENT, crash_seconds)


def test_transactions_are_seen_whole_or_not_at_all(tmp_path: Path, crash_seconds: float) -> None:
    run_trials(tmp_path, TRANSACTIONAL, crash_seconds)


@pytest.mark.skipif(absence() is not None, reason=str(absence()))
def test_transactions_of_version_2_are_seen_whole_or_not_at_all(
    tmp_path: Path, crash_seconds: float
) -> None:
    """Which only Apache Kafka's Java client speaks (KIP-890)."""
    run_trials(
        tmp_path, JAVA_TRANSACTIONAL, crash_seconds, seconds=JAVA_SECONDS, pauses_s=JAVA_PAUSES_S
    )


def test_a_group_that_transforms_in_transactions_makes_one_output_of_each_input(
    tmp_path: Path, crash_seconds: float
) -> None:
    run_trials(tmp_path, EXACTLY_ONCE, crash_seconds, pauses_s=GROUP_PAUSES_S)
