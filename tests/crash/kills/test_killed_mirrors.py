"""Mirrors where a process is killed at every step, and at random moments, or the broker that they
read or write: the copy is the source, byte for byte; sent again, each record is there once."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

import ottla
from ottla.base.files import OsFileSystem
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.staging import STAGING
from ottla.mirror.verify import Verification, VerifyOptions
from ottla.spark.mirror import Step
from ottla.storage.diagnosis.directory_check import check
from tests.crash.kills.feeding import feed, feed_broker, values_of
from tests.crash.kills.jobs import COPIED, TOPIC
from tests.crash.kills.plan import Victim
from tests.crash.kills.processes import KeptBroker, Trial, seeded

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long]

MAX_SECONDS = {"spark": 2.0, "local": 0.3}
"""What a mirror takes at the most on a quiet machine, once Spark runs."""

IN_TASKS = (Step.TASK_COPYING, Step.TASK_STAGED)
STEPS = [*(step.name for step in Step), COPIED]
"""Of a bulk that Spark copies, and of the round that follows it."""


Trials = Callable[[Path, str], AbstractContextManager["MirrorTrial"]]


class MirrorTrial(Trial):
    """`log` is mirrored to `copy`; the broker, if any, is the source's, or the target's."""

    job = "mirror"
    wanted: dict[str, str]
    is_served = False
    fed = 0

    def feed(self, count: int) -> None:
        if self.is_served:
            assert self.broker is not None
            feed_broker(self.broker.address, count, self.fed)
        else:
            feed(self.directory / "log", count, self.chance)
        self.fed += count

    def finish(self) -> None:
        self.until_done(self.job, **self.wanted)

    def assert_is_the_source(self) -> None:
        sides = [DirectorySource(str(self.directory / name)) for name in ("log", "copy")]
        report = Verification(*sides, VerifyOptions()).run()
        assert report.differences == []
        found = check(OsFileSystem(), str(self.directory / "copy"), deep=True)
        assert found.is_sound, found.findings
        assert not (self.directory / "copy" / STAGING).exists()

    def assert_each_record_is_there_once(self) -> None:
        assert values_of(self.directory / "sink") == values_of(self.directory / "log")


@contextmanager
def from_files(directory: Path, engine: str) -> Iterator[MirrorTrial]:
    with MirrorTrial(directory, seeded()) as opened:
        opened.wanted = {"engine": engine}
        yield opened


@contextmanager
def from_broker(directory: Path, engine: str) -> Iterator[MirrorTrial]:
    with ottla.open(directory / "log") as log:
        log.create_topic(TOPIC, partitions=2, config={"segment.bytes": 8192})
    with (
        KeptBroker(directory / "log") as broker,
        MirrorTrial(directory, seeded(), broker) as opened,
    ):
        opened.is_served = True
        opened.wanted = {"engine": engine, "source": broker.address}
        yield opened


@contextmanager
def sent_again(directory: Path) -> Iterator[MirrorTrial]:
    with (
        KeptBroker(directory / "sink") as broker,
        MirrorTrial(directory, seeded(), broker) as opened,
    ):
        opened.job = "reproduce"
        opened.wanted = {"into": broker.address}
        yield opened


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", Victim, ids=lambda victim: victim.value)
def test_a_kill_at_any_step_of_a_mirror_on_spark_leaves_what_the_next_one_completes(
    tmp_path: Path, victim: Victim
) -> None:
    source = from_broker if victim is Victim.BROKER else from_files
    with source(tmp_path, "spark") as killed:
        for step in STEPS:
            killed.feed(800)
            if step == COPIED:
                # Nothing is left to the round after a bulk, unless it comes meanwhile.
                killed.wanted["engine"] = "local"
            turn = killed.chance.randint(1, 2) if step.startswith(("TASK", "SEG")) else 1
            killed.kill_at(victim, step, turn, killed.job, **killed.wanted)
            killed.finish()
            killed.assert_is_the_source()
        if victim is not Victim.WORKER:
            assert sum(killed.kills.values()) == len(STEPS)
        assert all(killed.kills[f"mirror {victim.value} {step.name}"] for step in IN_TASKS)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("source", [from_files, from_broker])
def test_kills_at_random_moments_leave_what_the_next_mirror_completes(
    tmp_path: Path, source: Trials, engine: str, crash_seconds: float
) -> None:
    with source(tmp_path, engine) as killed:
        victims = [Victim.DRIVER]
        victims += [Victim.BROKER] if killed.is_served else []
        victims += [Victim.JAVA, Victim.WORKER] if engine == "spark" else []
        kill_at_random_moments(killed, victims, crash_seconds)
        killed.assert_is_the_source()


@pytest.mark.timeout(3600)
def test_kills_at_random_moments_send_no_record_twice(tmp_path: Path, crash_seconds: float) -> None:
    with sent_again(tmp_path) as killed:
        for victim in (Victim.DRIVER, Victim.BROKER):
            for turn in (1, 3):
                killed.feed(400)
                killed.kill_at(victim, COPIED, turn, killed.job, **killed.wanted)
                killed.finish()
                killed.assert_each_record_is_there_once()
        assert sum(killed.kills.values()) == 4
        kill_at_random_moments(killed, [Victim.DRIVER, Victim.BROKER], crash_seconds)
        killed.assert_each_record_is_there_once()


def kill_at_random_moments(killed: MirrorTrial, victims: list[Victim], seconds: float) -> None:
    started = time.monotonic()
    for number in itertools.count(1):
        killed.feed(killed.chance.randrange(1, 3000))
        for _ in range(4):
            victim = killed.chance.choice(victims)
            most = MAX_SECONDS[killed.wanted.get("engine", "local")]
            moment = killed.chance.uniform(0.0, most)
            killed.kill_at_random(victim, moment, killed.job, **killed.wanted)
        killed.finish()
        if time.monotonic() - started > seconds and number > 1:
            return
