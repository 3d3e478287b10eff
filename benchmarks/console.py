"""The console: its lists of topics, and a search, with what it costs the broker's clients."""

import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import ottla
from benchmarks.brokers import Ottla, RunningBroker
from benchmarks.machine import cost_of
from benchmarks.measuring import MEGABYTE, Samples, Scale, percentile, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import WireClient
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest

TOPIC_COUNT = 1000
PARTITION_COUNT = 10
LISTINGS = 20
LISTING_TARGET = Target(limit=300, unit="ms")
FIRST_PAGE_TARGET = Target(limit=100, unit="ms")
MANY_TOPICS = 10_000
MANY_TARGET = Target(limit=400, unit="ms")
VALUE = b'{"tea": "Assam", "pots": 2, "note": "' + b"x" * 200 + b'"}'
BATCH = 1000
RECORD_COUNT = 4_000_000
PROBES = 300
PAUSE_S = 0.005
SPIN_S = 20.0
NOTHING = "text=no+such+thing&stream=1"


def run(scale: Scale) -> Iterator[Report]:
    report = figures_report("The console beside a broker")
    topics, partitions = scale.of(TOPIC_COUNT, 3), scale.of(PARTITION_COUNT, 2)
    with scale.data_directory() as directory:
        size = _fill(directory, scale.of(RECORD_COUNT, BATCH))
        with Ottla().start(directory) as broker:
            with WireClient(broker.host, broker.port) as client:
                _create(client, topics, partitions)
            with running_console(broker) as console:
                count = scale.of(LISTINGS, 2)
                first_page = Samples(tuple(_listings(f"{console.address}topics", count)))
                add_figure(
                    report, f"the first page of {topics:,} topics", first_page, "ms",
                    FIRST_PAGE_TARGET,
                )  # fmt: skip
                spent = _Spent(broker, console)
                listed = _listings(f"{console.address}topics?per={topics}", count)
                what = f"{topics:,} topics of {partitions} partitions, all on a page"
                add_figure(report, what, Samples(tuple(listed)), "ms", LISTING_TARGET)
                for name, seconds in spent.seconds().items():
                    each = Samples((seconds / (count + 1) * 1000,))
                    add_figure(report, f"of this, processor time of the {name}", each, "ms")
                _search(report, broker, console, size, scale.of(PROBES, 5))
    _many_topics(report, scale)
    yield report


def _many_topics(report: Report, scale: Scale) -> None:
    """The first page of topics of one partition each."""
    topics = scale.of(MANY_TOPICS, 5)
    with scale.data_directory() as directory, Ottla().start(directory) as broker:
        with WireClient(broker.host, broker.port) as client:
            _create(client, topics, 1)
        with running_console(broker) as console:
            count = scale.of(LISTINGS, 2)
            spent = _Spent(broker, console)
            first_page = Samples(tuple(_listings(f"{console.address}topics", count)))
            what = f"the first page of {topics:,} topics"
            add_figure(report, what, first_page, "ms", MANY_TARGET)
            for name, seconds in spent.seconds().items():
                each = Samples((seconds / (count + 1) * 1000,))
                add_figure(report, f"of this, processor time of the {name}", each, "ms")


@dataclass(frozen=True, slots=True)
class RunningConsole:
    address: str
    pid: int


class _Spent:
    """Processor time since it was made: other work on the machine does not change it."""

    def __init__(self, broker: RunningBroker, console: RunningConsole) -> None:
        self._pids = {"broker": broker.pid, "console": console.pid}
        self._before = self._now()

    def _now(self) -> dict[str, float]:
        costs = {name: cost_of(pid) for name, pid in self._pids.items()}
        return {name: one.cpu_seconds for name, one in costs.items() if one is not None}

    def seconds(self) -> dict[str, float]:
        """By process; nothing where there is no /proc."""
        return {name: after - self._before[name] for name, after in self._now().items()}


def _fill(directory: Path, count: int) -> int:
    """A topic to search; its size in bytes."""
    with ottla.open(directory) as log:
        # Its records are dated: retention by time must not count them as old.
        log.create_topic("searched", config={"retention.ms": -1})
        for _ in range(count // BATCH):
            builder = ottla.RecordBatchBuilder()
            for _ in range(BATCH):
                builder.append(None, VALUE, 1_767_225_600_000)
            log.append_batch("searched", 0, builder)
    return sum(one.stat().st_size for one in directory.rglob("*.log"))


def _create(client: WireClient, count: int, partitions: int) -> None:
    """A hundred in a request."""
    for first in range(0, count, 100):
        wanted = [
            CreatableTopic(name=f"topic-{one:05}", num_partitions=partitions, replication_factor=1)
            for one in range(first, min(first + 100, count))
        ]
        answer = client.ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), 4)
        assert not any(one.error_code for one in answer.topics)


def _search(
    report: Report, broker: RunningBroker, console: RunningConsole, size: int, probes: int
) -> None:
    """A search that finds nothing, to its end; meanwhile another client asks small questions.

    The same client asks beside a process that only computes: what it then waits longer for is the
    machine, and not the search.
    """
    with WireClient(broker.host, broker.port) as client:

        def ask() -> float:
            began = perf_counter()
            client.ask(MetadataRequest(topics=[]), 9)
            return (perf_counter() - began) * 1000

        search = f"{console.address}topics/searched/messages-stream?{NOTHING}"
        stopped = _stop(search)
        alone = _asked_beside(ask, lambda: time.sleep(probes * PAUSE_S))
        spent = _Spent(broker, console)
        began = perf_counter()
        reports = list[int]()
        beside = _asked_beside(ask, lambda: reports.append(_read(search)))
        took = perf_counter() - began
        seconds = spent.seconds()
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
            try:
                computing = _asked_beside(ask, lambda: time.sleep(min(took, SPIN_S)))
            finally:
                spinning.kill()
    megabytes = size / MEGABYTE
    speed = Samples((megabytes / took,))
    add_figure(report, "progress shown, after another search was stopped", Samples((stopped,)), "s")
    add_figure(report, "reports of progress in a whole search", Samples((float(sum(reports)),)), "")
    add_figure(report, f"a search through {megabytes:,.0f} MB", speed, "MB/s")
    for name, cost in seconds.items():
        each = Samples((cost / megabytes * 1000,))
        add_figure(report, f"processor time of the {name}, per MB searched", each, "ms")
    for name, found in (
        ("without a search", alone),
        ("beside a process that computes", computing),
        ("during the search", beside),
    ):
        worst = Samples((percentile(found, 99),))
        add_figure(report, f"99th percentile of a small request, {name}", worst, "ms")


def _asked_beside(ask: Callable[[], float], work: Callable[[], object]) -> list[float]:
    """How long each of a client's small questions takes while something is done; at least one."""
    took: list[float] = []
    is_done = threading.Event()

    def probe() -> None:
        took.append(ask())
        while not is_done.wait(PAUSE_S):
            took.append(ask())

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        work()
    finally:
        is_done.set()
        thread.join()
    return took


def _read(address: str) -> int:
    """A search to its end: how often it has said how far it is."""
    with urllib.request.urlopen(address) as answer:
        return sum(line.startswith(b"event: progress") for line in answer)


def _stop(address: str) -> float:
    """Leaves a search when it has shown its progress; how long the next one takes to do so."""
    with urllib.request.urlopen(address) as answer:
        _until_progress(answer)
    return seconds_of(lambda: _until_progress(urllib.request.urlopen(address)))


def _until_progress(answer: Iterable[bytes]) -> None:
    next(line for line in answer if line.startswith(b"event: progress"))


def _listings(address: str, count: int) -> list[float]:
    took = []
    for _ in range(count + 1):
        began = perf_counter()
        with urllib.request.urlopen(address) as answer:
            answer.read()
        took.append((perf_counter() - began) * 1000)
    return took[1:]


@contextmanager
def running_console(broker: RunningBroker) -> Iterator[RunningConsole]:
    command = [sys.executable, "-m", "ottla", "console", "-b", f"{broker.host}:{broker.port}"]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--until-eof"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("console ").strip()
        yield RunningConsole(address, process.pid)
        assert process.stdin is not None
        process.stdin.close()
