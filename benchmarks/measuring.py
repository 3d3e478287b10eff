"""Samples, fair turns, and the two traps of a virtual machine: cold memory and cold files.

A guest's memory that was never touched, or was handed back to the host while it lay free, is filled
in page by page at a fraction of its real speed. So files are written once before they are measured
(`touch_file`), and free memory is used once before a broker fills it (`warm_memory`).
"""

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from benchmarks.machine import busy_share

MEGABYTE = 1_000_000
CHUNK = bytes(1 << 20)

CALM_LOOK_S = 0.25
CALM_SHARE = 0.1
"""Of all cores together."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much to measure: in full, or so little that only the code is tried."""

    directory: Path
    rounds: int
    is_tiny: bool = False
    peers: bool = True
    calm_s: float = 0.0
    """How long to wait, before each measurement, for others to leave the machine alone."""
    only: str = ""
    """Of a subject with many rows those whose name contains it."""

    def of(self, full: int, tiny: int) -> int:
        return tiny if self.is_tiny else full

    @contextlib.contextmanager
    def data_directory(self) -> Iterator[Path]:
        """An empty directory on the disk that is measured, removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=self.directory) as path:
            yield Path(path)

    def take_turns(
        self, contestants: Mapping[str, Callable[[], T]], times: int = 1
    ) -> dict[str, list[T]]:
        """Every contestant in every round, `times` over."""
        return take_turns(contestants, self.rounds * times, lambda: await_calm(self.calm_s))

    def sampled(
        self, contestants: Mapping[str, Callable[[], float]], times: int = 1
    ) -> dict[str, "Samples"]:
        results = self.take_turns(contestants, times)
        return {name: Samples(tuple(all_)) for name, all_ in results.items()}


@dataclass(frozen=True, slots=True)
class Samples:
    """Repeated measurements of one thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def scaled(self, factor: float) -> "Samples":
        return Samples(tuple(value * factor for value in self.values))

    def over(self, other: "Samples") -> "Samples":
        """Ratios of the measurements that were made in the same round."""
        return Samples(
            tuple(mine / its for mine, its in zip(self.values, other.values, strict=True))
        )

    @property
    def spread(self) -> str:
        return f"{figure(min(self.values))} to {figure(max(self.values))}"

    def __str__(self) -> str:
        return f"{figure(self.median)}  ({self.spread})"


def figure(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def take_turns(
    contestants: Mapping[str, Callable[[], T]],
    rounds: int,
    before_each: Callable[[], object] = lambda: None,
) -> dict[str, list[T]]:
    """Runs all of them once a round, each round beginning with another one.

    What disturbs the machine for a while then disturbs all of them.
    """
    names = list(contestants)
    results: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            before_each()
            results[name].append(contestants[name]())
    return results


def await_calm(limit_s: float) -> None:
    """Returns when the machine is calm, or the time is over."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and busy_share(CALM_LOOK_S) > CALM_SHARE:
        pass


def seconds_of(action: Callable[[], object]) -> float:
    started = perf_counter()
    action()
    return perf_counter() - started


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def touch_file(path: Path | str, size: int, start: int = 0) -> None:
    """Puts the pages of `size` bytes of a file into the page cache, as zeros."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        for done in range(0, size, len(CHUNK)):
            os.pwrite(descriptor, CHUNK[: size - done], start + done)
    finally:
        os.close(descriptor)


def warm_memory(directory: Path, size: int) -> None:
    """Has the host back `size` bytes of free memory: to be used at once, or it is taken back."""
    path = directory / "warm"
    touch_file(path, size)
    path.unlink()
