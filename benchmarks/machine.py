"""What the figures were measured on, and what a process has cost so far (Linux only)."""

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SETTLED_S = 1.0


def description() -> str:
    """One line: a figure without its machine says nothing."""
    return (
        f"{date.today().isoformat()}, {os.cpu_count()} cores of {_processor()}, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def load() -> str:
    """How busy the machine was in the last minute, with others' work too."""
    return f"{os.getloadavg()[0]:.2f}"


def busy_share(seconds: float) -> float:
    """Looks for a while at how busy all cores are together; 0 where there is no /proc to ask."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    if before is None or after is None or after[1] == before[1]:
        return 0.0
    return (after[0] - before[0]) / (after[1] - before[1])


def _ticks() -> tuple[int, int] | None:
    """What the cores have worked so far, and could have."""
    try:
        fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    except OSError:
        return None
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """Processor seconds since a process began, and the memory it holds now."""

    cpu_seconds: float
    resident_bytes: int


def cost_of(pid: int) -> ProcessCost | None:
    """`None` where there is no /proc to ask."""
    try:
        # The name, in parentheses, may hold blanks: fields count from after it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    user, system, resident_pages = int(fields[11]), int(fields[12]), int(fields[21])
    return ProcessCost(
        (user + system) / TICKS_PER_SECOND, resident_pages * os.sysconf("SC_PAGE_SIZE")
    )


def can_pin() -> bool:
    """Whether a process can be kept on some cores, and there is more than one to choose from."""
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


@contextmanager
def pinned(pid: int, cores: set[int]) -> Iterator[None]:
    """Keeps all threads of a process on these cores (Linux)."""
    before = {
        thread: os.sched_getaffinity(thread) for thread in map(int, os.listdir(f"/proc/{pid}/task"))
    }
    try:
        for thread in before:
            os.sched_setaffinity(thread, cores)
        yield
    finally:
        for thread, those in before.items():
            with suppress(ProcessLookupError):  # a thread that has ended
                os.sched_setaffinity(thread, those)


@contextmanager
def on_one_core(pid: int) -> Iterator[None]:
    """This process and another share one: none has to be woken on a core that sleeps."""
    core = {min(os.sched_getaffinity(0))}
    with pinned(pid, core), pinned(os.getpid(), core):
        yield


@contextmanager
def on_a_core_each(pid: int) -> Iterator[None]:
    """Where the system puts them most of the time."""
    ours, *_, its = sorted(os.sched_getaffinity(0))
    with pinned(pid, {its}), pinned(os.getpid(), {ours}):
        yield


def first_thread_seconds(pid: int) -> float | None:
    """Processor seconds of a process's first thread, finer than ticks; `None` without /proc.

    Of a thread that runs the kernel counts the last milliseconds only when it next looks, so this
    waits until the thread sleeps, for a second at most.
    """
    deadline = time.monotonic() + SETTLED_S
    try:
        while not _sleeps(pid) and time.monotonic() < deadline:
            time.sleep(0)
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return None


def queued_seconds(pid: int, thread: int | None = None) -> float:
    """How long the threads of a process that are alive, or one, could have run so far while all
    cores were others'; 0 where the kernel does not say."""
    seconds = 0.0
    for one in os.listdir(f"/proc/{pid}/task") if thread is None else [thread]:
        with suppress(OSError, IndexError):  # a thread that has ended, or no such file
            fields = Path(f"/proc/{pid}/task/{one}/schedstat").read_text().split()
            seconds += int(fields[1]) / 1e9
    return seconds


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
