"""One-record produce requests while closed segments of another topic are copied to a tier.

Two topics take turns, one with a tier and one without, and get the same batches: only the copying
differs. A turn is short, so that neighbours on the machine disturb both alike, and some turns of
each not at all. The tier is a directory in memory, as a store has disks of its own.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brokers import Ottla
from benchmarks.measuring import MEGABYTE, Samples, Scale, percentile
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.requests import one_by_one
from benchmarks.tiers import arguments, settings_of
from benchmarks.wire import Producing

SEGMENT_SIZE = 4 << 20
BATCH_RECORDS = 64
VALUE_SIZE = 1000
REQUESTS_PER_BATCH = 20
BATCHES = 200
"""13 MB in a turn, which fill three segments."""

TURNS = 8
"""Of each topic in a round."""

SETTLE_S = 0.5
TARGET = Target(limit=1.2, unit="x")


@dataclass(frozen=True, slots=True)
class Measured:
    """`p50` and `p99` in microseconds; `copied` in bytes, while requests were measured."""

    p50: float
    p99: float
    copied: float


def run(scale: Scale) -> Iterator[Report]:
    with scale.data_directory() as directory, _place() as place:
        (place / "tier").mkdir()
        quick = {"remote.log.manager.task.interval.ms": "250", "log.retention.ms": "-1"}
        with Ottla(arguments(settings_of(place, **quick))).start(directory / "data") as broker:
            turns = _Turns(scale, place / "tier", broker.host, broker.port)
            try:
                found = scale.take_turns(
                    {"without": lambda: turns.take(False), "with": lambda: turns.take(True)},
                    times=scale.of(TURNS, 1),
                )
            finally:
                turns.close()
    report = _report(found)
    if not scale.is_tiny and not any(one.copied for one in found["with"]):
        report.failures.append("no segment was copied while requests were measured")
    yield report


def _report(found: dict[str, list[Measured]]) -> Report:
    report = figures_report(
        f"One-record produce requests, acks=all, while another topic gets "
        f"{BATCH_RECORDS * VALUE_SIZE // 1000} kB after every {REQUESTS_PER_BATCH} of them, in "
        f"segments of {SEGMENT_SIZE >> 20} MiB"
    )
    p99 = {}
    for name, all_ in found.items():
        halves = Samples(tuple(one.p50 for one in all_))
        p99[name] = Samples(tuple(one.p99 for one in all_))
        add_figure(report, f"p50, {name} copying to a tier", halves, "us")
        add_figure(report, f"p99, {name} copying to a tier", p99[name], "us")
    quiet = {
        name: Samples(tuple(sorted(some.values)[: (len(some.values) + 3) // 4]))
        for name, some in p99.items()
    }
    for name, samples in quiet.items():
        add_figure(report, f"p99, {name}, in the quietest quarter of the turns", samples, "us")
    ratio = Samples((quiet["with"].median / quiet["without"].median,))
    add_figure(report, "  p99 with over without, of these", ratio, "x", TARGET)
    copied = Samples(tuple(one.copied / MEGABYTE for one in found["with"]))
    add_figure(report, "copied in a turn", copied, "MB")
    return report


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=memory) as path:
        yield Path(path)


class _Turns:
    def __init__(self, scale: Scale, tier: Path, host: str, port: int) -> None:
        self._scale = scale
        self._tier = tier
        self._small = Producing(host, port)
        self._large = {
            has_tier: Producing(
                host,
                port,
                VALUE_SIZE,
                BATCH_RECORDS,
                segment_bytes=str(scale.of(SEGMENT_SIZE, 100_000)),
                remote_storage_enable=str(has_tier).lower(),
            )
            for has_tier in (False, True)
        }

    def close(self) -> None:
        for one in (self._small, *self._large.values()):
            one.close()

    def take(self, has_tier: bool) -> Measured:
        before = self._settled()
        latencies: list[float] = []
        for _ in range(self._scale.of(BATCHES, 10)):
            latencies += one_by_one(self._small, REQUESTS_PER_BATCH)
            one_by_one(self._large[has_tier], 1)
        copied = self._copied() - before
        return Measured(percentile(latencies, 50) * 1e6, percentile(latencies, 99) * 1e6, copied)

    def _settled(self) -> int:
        """What the tier has once nothing more is copied, in bytes."""
        known = self._copied()
        while True:
            time.sleep(SETTLE_S)
            now = self._copied()
            if now == known:
                return now
            known = now

    def _copied(self) -> int:
        return sum(one.stat().st_size for one in self._tier.glob("kafka-tiered-storage/*/*.log"))
