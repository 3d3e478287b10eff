"""No state that grows holds up others: each kind, grown a hundredfold, and what then takes longest.

A server in this process gets a kind of state, such as 100,000 committed offsets, and then what has
to do with all of it at once: a deletion, an expiry, a request of a few bytes. `benchmarks.grown`
has the kinds. A stretch is here all that is done under the broker's lock at a time, by the loop or
by another thread, or what a long request does between two checks whether its turn is over.

What is judged is processor time, which does not depend on what else the machine does. What is long
is tried again with a new broker, and the shorter one counts.
"""

import gc
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, perf_counter
from types import TracebackType
from typing import Any

from tests.support.busy_member import BusyMember
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker, serving

from benchmarks.measuring import Scale, figure
from benchmarks.report import Report
from benchmarks.stretches import Recorder, host_millisecond
from ottla.base.clock import SystemClock
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.codec.schema import Message
from ottla.runtime.collector import Collector
from ottla.server.network.listener import Server

LONG_MS = 20.0
"""Processor time on a host of the usual speed, or a faster one."""

TRIES = 3
LOOK_S = 0.002

COLUMNS = ("state", "how much of it", "what is done", "longest stretch, processor ms")


class ShiftedClock(SystemClock):
    """The system's, but for a time that has been let pass."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.ahead_ms


class WholeRounds(Recorder):
    """Records what is done under the lock as one stretch, whoever has it."""

    def now_s(self) -> float:
        """Ends a stretch only in a long request: nobody is served in the middle of a round."""
        if self._stretch.times is not self._in_loop:
            self._begin(self._end())
        return perf_counter()

    def entered(self) -> None:
        self._begin(self._in_loop)

    def left(self) -> None:
        self._end()


class RecordedLock:
    """A broker's lock, whose holders are timed."""

    def __init__(self, recorder: WholeRounds) -> None:
        self._lock = threading.RLock()
        self._recorder = recorder
        self._depth = 0
        self.of_thread = threading.local()
        """Whose `is_ours` says that the thread is the benchmark's."""

    def __enter__(self) -> object:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1 and not self._is_ours:
            self._recorder.entered()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._depth == 1 and not self._is_ours:
            self._recorder.left()
        self._depth -= 1
        self._lock.release()

    @property
    def _is_ours(self) -> bool:
        return getattr(self.of_thread, "is_ours", False)


@dataclass(slots=True)
class Place:
    """A served broker whose state is grown."""

    broker: Broker
    server: Server
    clock: ShiftedClock
    count: int
    known: dict[str, int] = field(default_factory=dict)
    """Fields of requests by which a member of a cluster takes them for its controller's."""
    clients: list[WireClient] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    """What one step leaves for a later one."""

    @property
    def at(self) -> Timestamps:
        return Timestamps(now_ms=self.clock.now_ms(), monotonic_ms=self.clock.monotonic_ms())

    def client(self) -> WireClient:
        client = WireClient(self.server.address)
        client.socket.settimeout(PATIENCE_S)
        self.clients.append(client)
        return client

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request that must be answered, over the first of the connections."""
        return (self.clients[0] if self.clients else self.client()).ask(request, version)

    def in_thread(self, deed: Callable[[], object]) -> None:
        """Does it as one of the broker's own threads."""
        thread = threading.Thread(target=deed)
        thread.start()
        thread.join(PATIENCE_S)

    def pass_time(self, ms: int) -> None:
        """Lets time pass, and waits until what is due then is done."""
        self.clock.ahead_ms += ms
        self.server.wake()
        self.settle()

    def settle(self) -> None:
        """Waits until the broker has nothing to do."""
        until_s = monotonic() + PATIENCE_S
        calm = 0
        while calm < 3:
            assert monotonic() < until_s, "it does not come to an end"
            threading.Event().wait(LOOK_S)
            calm = calm + 1 if self._is_calm() else 0

    def _is_calm(self) -> bool:
        with self.server.lock:
            due_ms = self.broker.scheduler.next_deadline_ms
            is_due = due_ms is not None and due_ms <= self.clock.monotonic_ms()
            long = self.server._long_requests
            return not (is_due or long.has_begun or long.has_work or self.server._ready)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A kind of state: so many of it are made by `fill`, and then each of `deeds` is done."""

    name: str
    unit: str
    count: int
    """A hundred times of what an ordinary broker has."""
    fill: Callable[[Place], None]
    deeds: Sequence[tuple[str, Callable[[Place], None]]]
    tiny: int = 20
    """Of a run that only shows that it works."""
    settings: dict[str, str] = field(default_factory=dict)
    is_of_member: bool = False


def run(scale: Scale) -> Iterator[Report]:
    from benchmarks.grown import GROWTHS

    wanted = [one for one in GROWTHS if scale.only.lower() in one.name.lower()]
    report = Report("The longest stretch where a kind of state has grown a hundredfold", COLUMNS)
    with scale.data_directory() as directory:
        for growth in wanted:
            try:
                measure(report, growth, directory, scale)
            except AssertionError as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                report.failures.append(f"{growth.name}: {where.name}, {where.line} {error}")
    report.notes.append(
        f"A stretch may take {figure(LONG_MS)} ms of processor time, or more on a host that is "
        f"slower than usual: {figure(host_millisecond())} ms is here what 1 ms is there."
    )
    yield report


def measure(report: Report, growth: Growth, directory: Path, scale: Scale) -> None:
    """Adds a row for each deed, and a failure for each long stretch."""
    count = scale.of(growth.count, growth.tiny)
    found: dict[str, tuple[float, str]] = {}
    limit_ms = LONG_MS
    tries = min(TRIES, scale.rounds)
    if not scale.is_tiny:  # what is imported at its first use, by all of it
        list(tried(growth, growth.tiny, directory, looks=False))
    for number in range(tries):
        looks = number > 0 and number == tries - 1
        for deed, ms, where in tried(growth, count, directory, looks=looks):
            best_ms, known = found.get(deed, (ms, ""))
            found[deed] = (min(best_ms, ms), where or known)
        limit_ms = LONG_MS * max(1.0, host_millisecond())
        if all(ms <= limit_ms for ms, _ in found.values()):
            break
    for deed, (ms, where) in found.items():
        report.add(growth.name, f"{count:,} {growth.unit}", deed, figure(ms))
        print(f"{growth.name}, {deed}: {figure(ms)} ms", where, file=sys.stderr)
        if ms > limit_ms and not scale.is_tiny:
            report.failures.append(
                f"{growth.name}, {deed}: {figure(ms)} ms of processor time, not "
                f"{figure(limit_ms)}, mostly in {where}"
            )


def tried(
    growth: Growth, count: int, directory: Path, *, looks: bool
) -> Iterator[tuple[str, float, str]]:
    """Each deed with its longest stretch in ms, and where it was seen if somebody looked."""
    recorder = WholeRounds()
    with opened(growth, count, directory, recorder) as place, recorder.recording(place.server):
        growth.fill(place)
        place.settle()
        for name, deed in growth.deeds:
            recorder.take()
            with recorder.looking() if looks else nullcontext():
                deed(place)
                place.settle()
            found = recorder.take()
            yield name, found.cpu_ms, found.where


@contextmanager
def opened(growth: Growth, count: int, directory: Path, recorder: WholeRounds) -> Iterator[Place]:
    thresholds = gc.get_threshold()
    clock = ShiftedClock()
    lock = RecordedLock(recorder)
    with tempfile.TemporaryDirectory(dir=directory) as path:
        known: dict[str, int] = {}
        if growth.is_of_member:
            member = BusyMember(2, 3, directory=Path(path), **growth.settings)
            broker, known = member.broker, member.known
        else:
            settings = {"num_partitions": "1", "connections_max_idle_ms": "-1", **growth.settings}
            broker = open_broker(Path(path), **settings)
        try:
            with serving(broker, clock, upkeep=Collector(), lock=lock) as server:
                place = Place(broker, server, clock, count, known)
                lock.of_thread.is_ours = True
                try:
                    yield place
                finally:
                    for client in place.clients:
                        client.socket.close()
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()
