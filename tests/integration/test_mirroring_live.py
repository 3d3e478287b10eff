"""Mirrors of logs that are written to, rolled, compacted and cut in the meantime."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.client.bulk.reading import EARLIEST, FetchFrom, fetch, list_offset
from ottla.client.connecting.cluster import ClientSettings, Cluster
from ottla.client.connecting.connection import Connection
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.endpoints import open_source
from ottla.mirror.mirror import Mirror, MirrorOptions
from ottla.mirror.source import Source
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.mirror.verify import Verification, VerifyOptions
from ottla.record.builder import RecordBatchBuilder
from ottla.testing import FakeClock
from tests.support.mirroring import (
    SOURCE,
    SourceLog,
    assert_is_mirrored,
    mirror_round,
    target_disk,
    target_on,
)

pytestmark = pytest.mark.slow

SETTINGS = {"log.segment.bytes": 8000, "log.index.size.max.bytes": 4000}
SECONDS = 2.0


class Writer:
    """Appends, compacts and deletes from a thread of its own until it is stopped."""

    def __init__(self, log: ottla.Log) -> None:
        self._log = log
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failure: BaseException | None = None
        log.create_topic("t", config={"file.delete.delay.ms": 0})
        log.create_topic(
            "c", config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0}
        )

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            number = 0
            while not self._is_stopping.wait(0.001):
                self._append(number)
                number += 1
                if number % 50 == 0:
                    self._log.compact("c")
                if number % 70 == 0:
                    end = self._log.offsets("t")[0][1]
                    with self._log._lock:
                        self._log.broker.admin.delete_records({("t", 0): end - 40})
        except BaseException as error:
            self.failure = error

    def _append(self, number: int) -> None:
        for topic in ("t", "c"):
            builder = RecordBatchBuilder()
            for one in range(5):
                builder.append(b"k%d" % ((number + one) % 7), b"%d" % number * 20, 1)
            self._log.append_batch(topic, 0, builder)


@contextmanager
def opened(how: str, directory: Path, log: ottla.Log) -> Iterator[Source]:
    if how == "files":
        yield DirectorySource(str(directory))
        return
    listening = log.listen("127.0.0.1:0")
    with closing(open_source(listening.address, sleep=time.sleep)) as source:
        yield source


@pytest.mark.parametrize("how", ["files", "wire"])
def test_a_log_in_use_is_mirrored_as_it_changes(how: str, tmp_path: Path) -> None:
    directory, clock = tmp_path / "source", SystemClock()
    options = MirrorOptions(allow_gaps=True, with_groups=False)
    with (
        ottla.open(directory, SETTINGS) as log,
        Target.open(str(tmp_path / "target"), clock) as target,
    ):
        writer = Writer(log)
        with opened(how, directory, log) as source:
            throttle = Throttle(None, clock, time.sleep)
            mirror = Mirror(source, target, options, throttle=throttle)
            rounds = 0
            with writer:
                until = time.monotonic() + SECONDS
                while time.monotonic() < until:
                    report = mirror.run_round()
                    assert report.refusals == {}
                    rounds += 1
            assert writer.failure is None
            assert rounds > 3
            mirror.run_round()
            copy = DirectorySource(str(tmp_path / "target"))
            verify = VerifyOptions(with_groups=False)
            report = Verification(source, copy, verify).run()
    assert report.differences == []
    assert report.batch_count > 10


class OvertakenSource(DirectorySource):
    """Retention removes what is about to be read."""

    def __init__(self, source: SourceLog, start: int) -> None:
        super().__init__(SOURCE, source.files)
        self._source_log = source
        self._start = start

    def batches(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[memoryview]:
        log = self._source_log.log()
        if log.log_start_offset < self._start:
            self._source_log.delete_before(self._start)
            for retired in log.maintenance.delete_segments_below_start():
                retired.remove()
        return super().batches(topic, partition, from_offset, until_offset)


@pytest.mark.parametrize("allow_gaps", [False, True])
def test_retention_that_overtakes_a_copy_is_reported_exactly(allow_gaps: bool) -> None:
    source, files = SourceLog(), target_disk()
    source.create()
    source.fill(2)
    with target_on(files) as target:
        mirror_round(source.files, target)
        source.fill(40)
        overtaken = OvertakenSource(source, 60)
        throttle = Throttle(None, FakeClock(), lambda _: None)
        options = MirrorOptions(allow_gaps=allow_gaps)
        report = Mirror(overtaken, target, options, throttle=throttle).run_round()
        if not allow_gaps:
            assert "offsets 4 to 59 were removed" in report.refusals["t-0"]
            return
        (gap,) = report.partitions[0].gaps
        assert (gap.from_offset, gap.until_offset) == (4, 60)
    assert_is_mirrored(source.files, files)


# The client


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("t")
        log.append("t", b"v")
        host, _, port = log.listen("127.0.0.1:0").address.rpartition(":")
        yield host, int(port)


def test_a_leader_that_moves_is_asked_again(address: tuple[str, int]) -> None:
    waits: list[float] = []
    refusals = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE]

    def ask(broker: Connection) -> int:
        if refusals:
            raise ApiError(refusals.pop())
        return list_offset(broker, "t", 0, EARLIEST)

    with Cluster([address], sleep=waits.append) as cluster:
        assert cluster.ask_leader("t", 0, ask) == 0
        assert len(waits) == 2


def test_a_refusal_for_good_is_not_asked_again(address: tuple[str, int]) -> None:
    waits: list[float] = []
    with Cluster([address], sleep=waits.append) as cluster:
        wanted = FetchFrom(topic="t", partition=0, offset=9, max_size=100)
        with pytest.raises(ApiError) as refused:
            cluster.ask_leader("t", 0, lambda broker: fetch(broker, wanted))
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(ApiError) as unknown:
            cluster.ask_leader("none", 0, lambda broker: fetch(broker, wanted))
        assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert waits == []


def test_a_cluster_that_never_settles_is_given_up(address: tuple[str, int]) -> None:
    waits: list[float] = []

    def ask(_: Connection) -> int:
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)

    with Cluster([address], sleep=waits.append) as cluster, pytest.raises(ApiError):
        cluster.ask_leader("t", 0, ask)
    assert waits == list(ClientSettings().pauses())


def test_nobody_there_is_an_error_that_may_pass() -> None:
    with pytest.raises(UnreachableError, match="name a broker's HOST:PORT"):
        Cluster([("127.0.0.1", 1)], sleep=lambda _: None)
    assert issubclass(UnreachableError, UserError)
