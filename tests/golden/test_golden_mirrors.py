"""Directories written by Kafka, mirrored from their files and over the wire: equal bytes."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.base.files import OsFileSystem
from ottla.mirror.broker_source import BrokerSource
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.mirror import Mirror, MirrorOptions, RoundReport
from ottla.mirror.source import Selection, Source
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.mirror.verify import Verification, VerifyOptions
from ottla.storage.diagnosis.directory_check import check
from tests.golden.directories import CASES, copy_of
from tests.support.mirroring import content
from tests.support.serving import open_broker, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CASES, reason="the golden directories are not here"),
]


def mirrored(source: Source, target: Path) -> RoundReport:
    clock = SystemClock()
    with Target.open(str(target), clock) as opened:
        throttle = Throttle(None, clock, time.sleep)
        return Mirror(source, opened, MirrorOptions(), throttle=throttle).run_round()


OVER_THE_WIRE = {"txn", "old-formats", "consumer-offsets", "delete-records"}
WAYS = [(case, "files") for case in CASES]
WAYS += [(case, "wire") for case in CASES if case in OVER_THE_WIRE or "tombstones" in case]


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A case, and how it is read."""
    case, how = request.param
    return case, how


@pytest.fixture
def case(way: tuple[str, str]) -> str:
    return way[0]


@pytest.fixture
def source(way: tuple[str, str], tmp_path: Path) -> Iterator[Source]:
    copy = copy_of(way[0], tmp_path / "source")
    if way[1] == "files":
        yield DirectorySource(str(copy))
        return
    with (
        serving(open_broker(copy)) as server,
        closing(BrokerSource(*server.address, sleep=time.sleep)) as opened,
    ):
        yield opened


def test_kafkas_log_is_mirrored_byte_for_byte(case: str, source: Source, tmp_path: Path) -> None:
    target = tmp_path / "target"
    report = mirrored(source, target)
    assert report.refusals == {}
    again = mirrored(source, target)
    assert (again.size, again.refusals, again.commit_count) == (0, {}, 0)
    copy = DirectorySource(str(target))
    golden = DirectorySource(str(copy_of(case, tmp_path / "golden")))
    for topic in golden.topics(Selection()):
        for partition in range(topic.partition_count):
            place = (None, topic.name, partition)
            assert content(copy.name, *place) == content(golden.name, *place)
    for side in (source, golden):
        assert Verification(side, copy, VerifyOptions()).run().differences == []
    assert check(OsFileSystem(), str(target), deep=True).is_sound
