"""No request holds up the others: the longest that the broker is at one thing, for every API.

A server in this process gets the largest requests of each API: each array of its schema in turn,
with nearly as many elements as one request may have; of an API without any, many in a row. A
stretch is what the loop does between two checks whether others are to have their turn, in a long
request or in a round. Meanwhile another process asks one small question every few milliseconds.

What is judged is processor time. On a busy machine the rest of a stretch, and most of what the
small client waits, is time in which others have the cores. What takes long is asked again, and each
stretch is as short as in the best of all tries: the host delays one here, one there.
"""

import gc
import sys
import tempfile
import threading
import traceback
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from selectors import SelectorKey
from time import perf_counter, thread_time
from types import FrameType
from typing import TypeVar

from tests.support.busy_member import THROUGH_ITS_CLUSTER, BusyMember
from tests.support.busy_node import ASKED, BusyNode
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker, serving

from benchmarks.fairness import (
    KNOWN,
    PIPELINED,
    Burden,
    Packed,
    converted,
    largest_of,
    made_and_deleted,
    packed,
    refused,
    searched_by_time,
)
from benchmarks.measuring import MEGABYTE, Scale, figure, percentile
from benchmarks.probe import Probe, Wait
from benchmarks.report import Report
from ottla.broker.broker import Broker
from ottla.codec.compression import Compression
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.runtime.collector import Collector
from ottla.server.dispatching.apis import APIS, CLUSTER_APIS
from ottla.server.dispatching.turns import MAX_ELEMENTS, LongRequest
from ottla.server.network import listener
from ottla.server.network.listener import Server

LARGEST = MAX_ELEMENTS - 10
"""What a request of one large array may hold."""

LONG_MS = 5.0
"""Processor time on a host of the usual speed, or a faster one."""

MOST_TRIES = 15
WAITS = 100
"""Of the small client, beside each request."""

LOOK_S = 0.0005
FRAMES_SHOWN = 3
STEPS = ("_run", "_leave", "_come_back", "_suspend", "run_until")
"""Where a long request's thread begins, or it and the loop hand over to each other."""

TOPIC = "t"
MESSAGE_MAX_BYTES = 10 * MEGABYTE
"""So that what snappy and LZ4 pack less well fits too."""

T = TypeVar("T")

COLUMNS = (
    "API",
    "elements",
    "longest ms",
    "processor ms",
    "p99 beside ms",
    "own ms",
    "its longest request",
)


@dataclass(slots=True)
class Times:
    """Stretches in milliseconds, in their order: processor time, and time on the wall."""

    cpu: "array[float]" = field(default_factory=lambda: array("d"))
    wall: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, cpu_ms: float, wall_ms: float) -> None:
        self.cpu.append(cpu_ms)
        self.wall.append(wall_ms)

    def best(self, other: "Times") -> "Times":
        """The shorter ones; the others where what the first request changed made them differ."""
        if len(self.cpu) != len(other.cpu):
            return other
        return Times(
            array("d", map(min, self.cpu, other.cpu)), array("d", map(min, self.wall, other.wall))
        )


@dataclass(slots=True)
class Tried:
    """What one request took: stretches in its own thread, and the longest in the loop's."""

    slices: Times
    loop_cpu_ms: float
    loop_wall_ms: float
    where: str = ""
    """Where a thread was seen most often in the longest stretch, if somebody looked."""

    def best(self, other: "Tried") -> "Tried":
        return Tried(
            self.slices.best(other.slices),
            min(self.loop_cpu_ms, other.loop_cpu_ms),
            min(self.loop_wall_ms, other.loop_wall_ms),
            other.where or self.where,
        )

    @property
    def cpu_ms(self) -> float:
        return max(self.loop_cpu_ms, max(self.slices.cpu, default=0.0))

    @property
    def wall_ms(self) -> float:
        return max(self.loop_wall_ms, max(self.slices.wall, default=0.0))


class Stretch(threading.local):
    """The one that a thread of the server is in, if it is."""

    times: Times | None = None
    cpu_s = 0.0
    wall_s = 0.0


class Recorder:
    """Times the stretches of a server.

    It stands where the server asks for the time, which is a check whether a turn is over, and where
    a thread hands over to another.
    """

    def __init__(self) -> None:
        self._slices = Times()
        self._in_loop = Times()
        self._stretch = Stretch()
        self._threads: list[threading.Thread] = []
        self._seen: dict[int, Counter[str]] = {}
        self._longest = 0.0
        self._where = ""

    def take(self) -> Tried:
        """What it found since the last call."""
        for thread in self._threads:  # a long request frees what it had after its answer has gone
            thread.join(PATIENCE_S)
        self._threads.clear()
        slices, self._slices = self._slices, Times()
        loop, self._in_loop = self._in_loop, Times()
        where, self._where, self._longest = self._where, "", 0.0
        return Tried(slices, max(loop.cpu, default=0.0), max(loop.wall, default=0.0), where)

    def now_s(self) -> float:
        """A check: one stretch ends, and the next one begins."""
        self._begin(self._end())
        return perf_counter()

    def _begin(self, times: Times | None) -> None:
        stretch = self._stretch
        stretch.times = times
        if self._seen:
            self._seen[threading.get_ident()] = Counter()
        stretch.cpu_s, stretch.wall_s = thread_time(), perf_counter()

    def _end(self) -> Times | None:
        stretch = self._stretch
        times, stretch.times = stretch.times, None
        if times is not None:
            ms = (thread_time() - stretch.cpu_s) * 1000
            times.add(ms, (perf_counter() - stretch.wall_s) * 1000)
            seen = self._seen.get(threading.get_ident())
            if seen and ms > self._longest:
                self._longest, self._where = ms, seen.most_common(1)[0][0]
        return times

    def _suspended(self, suspend: Callable[[], T]) -> T:
        """No stretch ends here: a check has just been, and each request has as many each time."""
        stretch = self._stretch
        cpu_s, wall_s = thread_time(), perf_counter()
        try:
            return suspend()
        finally:
            stretch.cpu_s += thread_time() - cpu_s
            stretch.wall_s += perf_counter() - wall_s

    @contextmanager
    def recording(self, server: Server) -> Iterator[None]:
        kept = {name: getattr(LongRequest, name) for name in STEPS}
        round_ = Server._round

        def run(request: LongRequest) -> None:
            self._threads.append(threading.current_thread())
            self._begin(self._slices)
            kept["_run"](request)
            self._end()

        def leave(request: LongRequest) -> None:
            self._end()
            kept["_leave"](request)

        def come_back(request: LongRequest) -> None:
            kept["_come_back"](request)
            self._begin(self._slices)

        def suspend(request: LongRequest) -> None:
            self._suspended(lambda: kept["_suspend"](request))

        def run_until(request: LongRequest, until_s: float) -> bool:
            return bool(self._suspended(lambda: kept["run_until"](request, until_s)))

        def round_of(server: Server, events: Sequence[tuple[SelectorKey, int]]) -> None:
            self._begin(self._in_loop)
            round_(server, events)
            self._end()

        for name, step in zip(STEPS, (run, leave, come_back, suspend, run_until), strict=True):
            setattr(LongRequest, name, step)
        Server._round = round_of  # type: ignore[assignment, method-assign]
        self._tell_time(server, self.now_s)
        try:
            yield
        finally:
            self._tell_time(server, perf_counter)
            for name, original in kept.items():
                setattr(LongRequest, name, original)
            Server._round = round_  # type: ignore[method-assign]

    def _tell_time(self, server: Server, now_s: Callable[[], float]) -> None:
        listener.perf_counter = now_s  # type: ignore[attr-defined]
        server._long_requests._now_s = now_s

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Looks where threads are, again and again, which makes all of them slower."""
        is_over = threading.Event()

        def look() -> None:
            while not is_over.wait(LOOK_S):
                for ident, frame in sys._current_frames().items():
                    if (seen := self._seen.get(ident)) is not None:
                        seen[_place(frame)] += 1

        interval = sys.getswitchinterval()
        watcher = threading.Thread(target=look, daemon=True)
        self._seen[0] = Counter()
        sys.setswitchinterval(LOOK_S)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()
            sys.setswitchinterval(interval)
            self._seen.clear()


def tried(recorder: Recorder, server: Server, burden: Burden) -> Tried | None:
    """One request; `None` if it was refused, by the end of the connection."""
    for frame in burden.before_each:
        ask(server, frame, 1)
    recorder.take()
    is_answered = ask(server, burden.frame, burden.answer_count)
    found = recorder.take()
    for frame in burden.after_each:
        ask(server, frame, 1)
    return found if is_answered or not burden.elements else None


def ask(server: Server, frame: bytes, answer_count: int) -> bool:
    """Sends requests, and waits for their answers; whether there was one for each."""
    with WireClient(server.address) as client:
        client.socket.settimeout(PATIENCE_S)
        try:
            client.socket.sendall(frame)
        except ConnectionError:
            return False
        return all(client.receive_frame() is not None for _ in range(answer_count))


def host_millisecond() -> float:
    """The processor time, in ms, of what takes a quiet host of the usual speed about one."""

    def once() -> float:
        started = thread_time()
        names = {f"name-{one}": one for one in range(5000)}
        sum(names[one] for one in names)
        return (thread_time() - started) * 1000

    return min(once() for _ in range(20))


# The tables


@dataclass(slots=True)
class Row:
    """The longest of an API's requests."""

    api: str
    elements: str = ""
    request: str = ""
    tried: Tried = field(default_factory=lambda: Tried(Times(), 0.0, 0.0))
    waits: list[Wait] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    """Requests, and how many elements were too many."""
    request_count: int = 0
    limit_ms: float = LONG_MS

    def add(self, burden: Burden, tried: Tried, waits: list[Wait]) -> None:
        self.waits += waits
        self.limit_ms = max(self.limit_ms, LONG_MS * host_millisecond())
        if not self.request or tried.cpu_ms > self.tried.cpu_ms:
            self.tried = tried
            self.request = burden.name.partition(", ")[2] or burden.name
            self.elements = _elements(burden)

    @property
    def failures(self) -> Iterator[str]:
        for name in self.refused:
            yield f"{name}: the request was refused, so that it shows nothing"
        if self.tried.cpu_ms > self.limit_ms:
            yield (
                f"{self.api}, {self.request}: {figure(self.tried.cpu_ms)} ms of processor time, "
                f"not {figure(self.limit_ms)}, mostly in {self.tried.where}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A kind of broker, and the requests that are put to it, under the names of rows."""

    title: str
    wanted: Sequence[str]
    """Rows that there must be."""
    opened: Callable[[], AbstractContextManager[tuple[Server, Mapping[str, int]]]]
    """A new server, and what fields of its requests must be."""
    asked: Callable[[str, Mapping[str, int], int], Iterator[Burden]]
    """The requests of a row, with so many elements."""


def run(scale: Scale) -> Iterator[Report]:
    with scale.data_directory() as directory, Probe() as probe:
        for subject in (
            _alone(directory, scale),
            _member(),
            _controller(),
            _few_bytes(directory, scale),
        ):
            yield _report(subject, probe, scale)


def _report(subject: Subject, probe: Probe, scale: Scale) -> Report:
    names = subject.wanted[:: scale.of(1, 8)]
    names = [name for name in names if scale.only.upper() in name.upper()]
    rows = (_measured(subject, name, probe, scale) for name in names)
    return judged(subject.title, rows, is_tiny=scale.is_tiny)


def judged(title: str, rows: Iterable[Row], *, is_tiny: bool = False) -> Report:
    """The table, each row as soon as it is measured, and what is wrong with it."""
    report = Report(f"The longest stretch of the loop: {title}", COLUMNS)
    count = 0
    for row in rows:
        count += row.request_count
        if not row.request:
            report.failures.append(f"{row.api} has no request, and so no row")
            continue
        _show(report, row)
        print(f"{row.api}: {figure(row.tried.cpu_ms)} ms", *row.failures, sep="; ", file=sys.stderr)
        if not is_tiny:
            report.failures += row.failures
    report.notes.append(
        f"{count} requests. A stretch may take {figure(LONG_MS)} ms of processor time, or more on "
        f"a host that is slower than usual: {figure(host_millisecond())} ms is here what 1 ms is "
        "there. Own is the p99 without waits for cores."
    )
    return report


def _measured(subject: Subject, name: str, probe: Probe, scale: Scale) -> Row:
    row = Row(name)
    with subject.opened() as (server, known):
        probe.ask(server.address)
        for burden in subject.asked(name, known, scale.of(LARGEST, 30)):
            row.request_count += 1
            if not _measure(server, probe, burden, row, scale):
                row.refused[burden.name] = burden.elements
            if scale.is_tiny:
                break
    _ask_for_less(subject, probe, row, scale)
    return row


def _ask_for_less(subject: Subject, probe: Probe, row: Row, scale: Scale) -> None:
    """Whose answer has more elements than the request: half as many, until they are taken."""
    while any(count > 1 for count in row.refused.values()):
        wanted = {name: count // 2 for name, count in row.refused.items()}
        with subject.opened() as (server, known):
            probe.ask(server.address)
            for burden in subject.asked(row.api, known, max(wanted.values())):
                if burden.name not in wanted:
                    continue
                if _measure(server, probe, burden, row, scale):
                    del row.refused[burden.name]
                else:
                    row.refused[burden.name] = wanted[burden.name]


def _show(report: Report, row: Row) -> None:
    report.add(
        row.api,
        row.elements,
        figure(row.tried.wall_ms),
        figure(row.tried.cpu_ms),
        figure(percentile([one.all_s for one in row.waits], 99) * 1000),
        figure(percentile([one.served_s for one in row.waits], 99) * 1000),
        row.request,
    )


def _measure(server: Server, probe: Probe, burden: Burden, row: Row, scale: Scale) -> bool:
    """Whether the broker takes the request."""
    recorder = Recorder()
    for frame in burden.before:
        ask(server, frame, 1)
    waits: list[Wait] = []
    best: Tried | None = None
    with recorder.recording(server):
        for number in range(MOST_TRIES * WAITS):
            probe.take()
            # To look slows all of it down, and is done once, where there is a failure to explain.
            with recorder.looking() if number == MOST_TRIES - 1 else nullcontext():
                found = tried(recorder, server, burden)
            if found is None:
                return False
            waits += probe.take()
            best = found if best is None else best.best(found)
            is_decided = best.cpu_ms <= LONG_MS or number >= MOST_TRIES
            if is_decided and len(waits) >= scale.of(WAITS, 1):
                break
    assert best is not None
    row.add(burden, best, waits)
    return True


def _elements(burden: Burden) -> str:
    if burden.elements:
        return f"{burden.elements:,}"
    return f"{PIPELINED} in a row" if burden.is_pipelined else ""


# The brokers and what they are asked


def _alone(directory: Path, scale: Scale) -> Subject:
    def asked(name: str, known: Mapping[str, int], count: int) -> Iterator[Burden]:
        return largest_of(APIS[ApiKey[name]], TOPIC, count, known)

    return Subject(
        title="a broker alone",
        wanted=[ApiKey(one).name for one in APIS],
        opened=partial(_opened_alone, directory, scale),
        asked=asked,
    )


def _member() -> Subject:
    def asked(name: str, known: Mapping[str, int], count: int) -> Iterator[Burden]:
        key = ApiKey[name]
        return largest_of(CLUSTER_APIS.get(key) or APIS[key], TOPIC, count, known)

    return Subject(
        title="a member of a cluster, where it does not do what a broker alone does",
        wanted=[
            one.name for one in sorted({ApiKey(one) for one in CLUSTER_APIS} | THROUGH_ITS_CLUSTER)
        ],
        opened=_opened_member,
        asked=asked,
    )


def _controller() -> Subject:
    node: list[BusyNode] = []

    @contextmanager
    def opened() -> Iterator[tuple[Server, Mapping[str, int]]]:
        node[:] = [BusyNode()]
        with node[0].serving() as server:
            yield server, {}

    def asked(name: str, _: Mapping[str, int], count: int) -> Iterator[Burden]:
        return node[0].burdens(ApiKey[name], count)

    return Subject(
        title="a controller of a quorum, by nodes and, in Envelopes, by clients",
        wanted=[key.name for key in ASKED],
        opened=opened,
        asked=asked,
    )


def _few_bytes(directory: Path, scale: Scale) -> Subject:
    """Requests of few bytes that ask for much, and such as have too many elements."""
    records = scale.of(90_000, 30)
    many = scale.of(LARGEST, 30)
    made: dict[str, Callable[[], Burden]] = {
        "LIST_OFFSETS by time": lambda: searched_by_time(TOPIC, packed(many), 5),
        "CREATE_TOPICS": lambda: made_and_deleted(scale.of(3000, 2))[0],
        "DELETE_TOPICS": lambda: made_and_deleted(scale.of(3000, 2))[1],
        "DESCRIBE_GROUPS": lambda: refused(scale.of(10 * MEGABYTE, 1000), 1)[0],
        "METADATA": lambda: refused(1, scale.of(3_000_000, 10))[1],
    }
    for codec in list(Compression)[1:]:
        batch = partial(packed, records, 1100, codec)
        made[f"LIST_OFFSETS by time, {codec.kafka_name}"] = partial(_searched, batch)
        if codec is not Compression.ZSTD:  # which old consumers cannot read
            made[f"FETCH in format 0, {codec.kafka_name}"] = partial(_converted, batch)

    def asked(name: str, _: Mapping[str, int], __: int) -> Iterator[Burden]:
        yield made[name]()

    return Subject(
        title="a broker alone, asked for much in few bytes",
        wanted=list(made),
        opened=partial(_opened_alone, directory, scale),
        asked=asked,
    )


def _searched(batch: Callable[[], Packed]) -> Burden:
    return searched_by_time(TOPIC, batch(), 3)


def _converted(batch: Callable[[], Packed]) -> Burden:
    return converted(TOPIC, batch())


@contextmanager
def _opened_alone(directory: Path, scale: Scale) -> Iterator[tuple[Server, Mapping[str, int]]]:
    with tempfile.TemporaryDirectory(dir=directory) as path:
        broker = open_broker(
            Path(path), num_partitions="1", message_max_bytes=str(MESSAGE_MAX_BYTES)
        )
        broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=scale.of(200, 2)))
        with _kept_up(broker) as server:
            yield server, KNOWN


@contextmanager
def _opened_member() -> Iterator[tuple[Server, Mapping[str, int]]]:
    member = BusyMember(2, 3)
    with _kept_up(member.broker) as server:
        yield server, {**KNOWN, **member.known}


@contextmanager
def _kept_up(broker: Broker) -> Iterator[Server]:
    """Serves as `ottla serve` does."""
    thresholds = gc.get_threshold()
    try:
        with serving(broker, upkeep=Collector()) as server:
            yield server
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _place(frame: FrameType | None) -> str:
    """Where a thread is, innermost first, without what every request passes through."""
    shown = []
    for one, line in traceback.walk_stack(frame):
        path = one.f_code.co_filename
        if "/ottla/" in path and not path.endswith(
            ("base/turns.py", "server/dispatching/turns.py")
        ):
            shown.append(f"{Path(path).stem}.{one.f_code.co_name}:{line}")
        elif path.startswith("<"):
            shown.append(f"{one.f_code.co_name}:{line}")
    return " < ".join(shown[:FRAMES_SHOWN])
