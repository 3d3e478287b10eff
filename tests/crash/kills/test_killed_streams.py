"""Streams from a log to a broker where a process is killed at every step of the sink, and at
random moments: each row of the log is there once."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import ottla
from ottla.spark.sink.transactions import Step
from ottla.storage.reading.read_only_directory import open_for_reading
from tests.crash.kills.feeding import feed, values_of
from tests.crash.kills.jobs import OFFSETS_PER_BATCH, TOPIC
from tests.crash.kills.plan import Victim
from tests.crash.kills.processes import KeptBroker, Trial, seeded

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 3
MAX_SECONDS = 4.0
"""What a stream of a few batches takes at the most on a quiet machine, once Spark runs."""


class StreamTrial(Trial):
    """The log is read from files; the broker is the one that is written to."""

    broker: KeptBroker

    def feed(self, batches: int) -> None:
        feed(self.directory / "log", batches * OFFSETS_PER_BATCH, self.chance)

    @property
    def arguments(self) -> dict[str, str]:
        return {"into": self.broker.address}

    def assert_each_row_is_there_once(self) -> None:
        assert values_of(self.directory / "sink") == values_of(self.directory / "log")
        sink = open_for_reading(str(self.directory / "sink"))
        for number in range(PARTITIONS):
            partition = sink.partition(TOPIC, number)
            assert partition.transactions.last_stable_offset == partition.log_end_offset, (
                "a reader waits"
            )


@contextmanager
def trial(directory: Path) -> Iterator[StreamTrial]:
    with ottla.open(directory / "sink") as sink:
        sink.create_topic(TOPIC, partitions=PARTITIONS)
    with (
        KeptBroker(directory / "sink") as broker,
        StreamTrial(directory, seeded(), broker) as opened,
    ):
        yield opened


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", Victim, ids=lambda victim: victim.value)
def test_a_kill_at_any_step_loses_and_doubles_nothing(tmp_path: Path, victim: Victim) -> None:
    with trial(tmp_path) as killed:
        for step in Step:
            killed.feed(2)
            turn = killed.chance.randint(1, 2)
            killed.kill_at(victim, step.name, turn, "stream", **killed.arguments)
            killed.until_done("stream", **killed.arguments)
            killed.assert_each_row_is_there_once()
        assert sum(killed.kills.values()) == len(Step)


@pytest.mark.timeout(3600)
def test_kills_at_random_moments_lose_and_double_nothing(
    tmp_path: Path, crash_seconds: float
) -> None:
    with trial(tmp_path) as killed:
        started = time.monotonic()
        for number in itertools.count(1):
            killed.feed(killed.chance.randint(1, 6))
            for _ in range(killed.chance.randint(1, 3)):
                victim = killed.chance.choice(list(Victim))
                seconds = killed.chance.uniform(0.0, MAX_SECONDS)
                killed.kill_at_random(victim, seconds, "stream", **killed.arguments)
            if number % 3 == 0:
                killed.until_done("stream", **killed.arguments)
                killed.assert_each_row_is_there_once()
                if time.monotonic() - started > crash_seconds:
                    break
