"""Mirroring a log: from its files and over the wire, beside a plain copy of the same files."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.brokers import Ottla
from benchmarks.logs import CHANCE, now_ms
from benchmarks.measuring import MEGABYTE, Scale, seconds_of
from benchmarks.report import Report, add_figure, figures_report
from ottla.base.clock import SystemClock
from ottla.metadata.deciding.topics import NewTopic
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.endpoints import open_source
from ottla.mirror.mirror import Mirror, MirrorOptions
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.mirror.verify import Verification, VerifyOptions
from ottla.record.builder import RecordBatchBuilder
from ottla.runtime.opening import open_broker

LOG_SIZE = 1_000_000_000
TOPIC = "mirrored"
PARTITIONS = 2
BATCHES = {"16 KB": (16, 1000), "1 KB": (1, 1000)}
"""Records in a batch, and the bytes of each."""


def run(scale: Scale) -> Iterator[Report]:
    for name, (count, record_size) in BATCHES.items():
        with scale.data_directory() as directory:
            size = fill(directory / "source", scale.of(LOG_SIZE, 100_000), count, record_size)
            report = figures_report(
                f"A log of {size:,} bytes in batches of {name}, {PARTITIONS} partitions"
            )
            served = shutil.copytree(directory / "source", directory / "served")
            with Ottla().start(served) as broker:
                address = f"{broker.host}:{broker.port}"
                contestants = contestants_of(directory, address, size)
                for what, samples in scale.sampled(contestants).items():
                    add_figure(report, what, samples, "MB/s")
            yield report


def contestants_of(directory: Path, address: str, size: int) -> dict[str, Callable[[], float]]:
    """What makes an empty directory a copy, and the check that it is one, in MB/s."""
    source, target = directory / "source", directory / "target"

    def rate(action: Callable[[], object]) -> Callable[[], float]:
        def measured() -> float:
            with suppress(FileNotFoundError):
                shutil.rmtree(target)
            return size / MEGABYTE / seconds_of(action)

        return measured

    return {
        "plain copy and fsync": rate(lambda: copy(source, target)),
        "mirror from files": rate(lambda: mirror(source, target)),
        "mirror over the wire": rate(lambda: mirror(address, target)),
        "verify two directories": rate(lambda: verify(source)),
    }


def fill(directory: Path, size: int, count: int, record_size: int) -> int:
    """Writes a source of about so many bytes; returns how many."""
    broker = open_broker([str(directory)], {}, clock=SystemClock())
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=PARTITIONS))
    logs = [one.log for one in broker.topics.get(TOPIC).partitions.values()]
    builder = RecordBatchBuilder()
    for _ in range(count):
        builder.append(b"key", CHANCE.randbytes(record_size), now_ms())
    batch = builder.build()
    for number in range(size // len(batch)):
        log = logs[number % PARTITIONS]
        log.writer.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=now_ms())
        log.writer.write_out()
    written = sum(log.size for log in logs)
    broker.close()
    return written


def copy(source: Path, target: Path) -> None:
    """What no mirror can be faster than: nothing is looked at."""
    shutil.copytree(source, target)
    for path in target.rglob("*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def mirror(source: Path | str, target: Path) -> None:
    clock = SystemClock()
    with (
        closing(open_source(str(source), sleep=time.sleep)) as opened,
        Target.open(str(target), clock) as copy,
    ):
        throttle = Throttle(None, clock, time.sleep)
        report = Mirror(opened, copy, MirrorOptions(), throttle=throttle).run_round()
    assert not report.refusals


def verify(source: Path) -> None:
    """Both sides are read, and their checksums computed."""
    sides = DirectorySource(str(source)), DirectorySource(str(source))
    assert not Verification(*sides, VerifyOptions()).run().differences
