"""How long the broker is at one thing: processor time between two turns of others.

What `fairness` measures from outside depends on who else has the machine; this does not. A server
in this process gets each of those requests. A stretch is a slice of a long request, or all else
that the loop does in one round. The longest stretch of each request is listed, in the best of all
rounds, with the place at which the thread was seen most often, and the longest collection.
"""

import gc
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import thread_time
from types import FrameType
from typing import Any

from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker, serving

from benchmarks.fairness import Burden, burdens
from benchmarks.measuring import Scale, figure
from benchmarks.report import Report
from ottla.broker.topics.topics import NewTopic
from ottla.runtime.collector import Collector
from ottla.server.listener import Server
from ottla.server.turns import LongRequest

LOOK_S = 0.0005
LONG_MS = 5.0
FRAMES_SHOWN = 3

STEPS = ("_run", "_suspend", "_leave", "_come_back")
"""Where a long request's thread begins, or another one's turn does."""

COLUMNS = ("request", "MB", "slice ms", "round ms", "GC ms", "where the longest was seen")


@dataclass(slots=True)
class Longest:
    """The longest stretch of a kind, and the frames it was found in."""

    ms: float = 0.0
    where: str = ""


@dataclass(slots=True)
class Stretches:
    """What is known of one request's stretches."""

    slices: Longest = field(default_factory=Longest)
    rounds: Longest = field(default_factory=Longest)
    collections: Longest = field(default_factory=Longest)


class Recorder:
    """Times stretches in the threads of a server; `take` returns what it found since the last."""

    def __init__(self) -> None:
        self.found = Stretches()
        self._at_work: dict[int, tuple[float, Counter[str]]] = {}
        self._is_over = threading.Event()
        self._collecting = 0.0
        self._threads: list[threading.Thread] = []

    def take(self) -> Stretches:
        for thread in self._threads:  # a long request frees what it had after its answer has gone
            thread.join(PATIENCE_S)
        self._threads.clear()
        found, self.found = self.found, Stretches()
        return found

    def begin(self) -> None:
        self._at_work[threading.get_ident()] = (thread_time(), Counter())

    def end(self, longest: Longest) -> None:
        started = self._at_work.pop(threading.get_ident(), None)
        if started is None:
            return
        ms = (thread_time() - started[0]) * 1000
        if ms > longest.ms:
            longest.ms = ms
            seen = started[1].most_common(1)
            longest.where = seen[0][0] if seen else _place(sys._getframe(2))

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = thread_time()
            return
        ms = (thread_time() - self._collecting) * 1000
        if ms > self.found.collections.ms:
            self.found.collections = Longest(ms, f"generation {info['generation']}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        originals = {name: getattr(LongRequest, name) for name in STEPS}
        round_, run_until = Server._round, LongRequest.run_until
        watcher = threading.Thread(target=self._watch, daemon=True)
        interval = sys.getswitchinterval()

        def timed(name: str) -> Callable[[LongRequest], None]:
            def step(request: LongRequest) -> None:
                if name == "_run":
                    self._threads.append(threading.current_thread())
                    self.begin()
                else:
                    self.end(self.found.slices)
                originals[name](request)
                if name == "_run":
                    self.end(self.found.slices)
                elif name != "_leave":
                    self.begin()

            return step

        def timed_round(server: Server, events: Any) -> None:
            self.begin()
            round_(server, events)
            self.end(self.found.rounds)

        def timed_run(request: LongRequest, until_s: float) -> bool:
            self.end(self.found.rounds)
            try:
                return run_until(request, until_s)
            finally:
                self.begin()

        for name in originals:
            setattr(LongRequest, name, timed(name))
        Server._round, LongRequest.run_until = timed_round, timed_run  # type: ignore[method-assign]
        gc.callbacks.append(self.on_collection)
        sys.setswitchinterval(LOOK_S)
        watcher.start()
        try:
            yield
        finally:
            self._is_over.set()
            watcher.join()
            sys.setswitchinterval(interval)
            gc.callbacks.remove(self.on_collection)
            for name, original in originals.items():
                setattr(LongRequest, name, original)
            Server._round, LongRequest.run_until = round_, run_until  # type: ignore[method-assign]

    def _watch(self) -> None:
        while not self._is_over.is_set():
            time.sleep(LOOK_S)
            frames = sys._current_frames()
            for ident, (_, seen) in list(self._at_work.items()):
                frame = frames.get(ident)
                if frame is not None:
                    seen[_place(frame)] += 1


def run(scale: Scale) -> Iterator[Report]:
    report = Report("Processor time without a break", COLUMNS)
    longest = 0
    with scale.data_directory() as directory:
        recorder = Recorder()
        with recorder.watching(), serving(_broker(directory, scale)) as server:
            thresholds = gc.get_threshold()
            server.upkeep = Collector()
            for burden in burdens("t", scale):
                for one in burden.before:
                    ask(server, one, 1)
                recorder.take()
                found = []
                for _ in range(min(scale.rounds, burden.times)):
                    ask(server, burden.frame, burden.answer_count)
                    found.append(recorder.take())
                longest += _add(report, burden, found)
            gc.set_threshold(*thresholds)
            gc.unfreeze()
    report.notes.append(f"Longer than {figure(LONG_MS)} ms: {longest} of {len(report.rows)}.")
    yield report


def _broker(directory: Path, scale: Scale) -> Any:
    broker = open_broker(directory, num_partitions="1", auto_create_topics_enable="true")
    broker.create_topic(NewTopic(name="t", partition_count=scale.of(200, 2)))
    return broker


def ask(server: Server, frame: bytes, answer_count: int) -> None:
    """Sends requests, and waits for their answers, or for the connection's end."""
    with WireClient(server.address) as client, suppress(ConnectionError):
        client.socket.settimeout(PATIENCE_S)
        client.socket.sendall(frame)
        for _ in range(answer_count):
            if client.receive_frame() is None:
                return


def _add(report: Report, burden: Burden, found: list[Stretches]) -> bool:
    """Of each kind the least of all rounds: what else the machine does only makes them longer."""
    slices = min((one.slices for one in found), key=_ms)
    rounds = min((one.rounds for one in found), key=_ms)
    collections = max((one.collections for one in found), key=_ms)
    worst = max(slices, rounds, key=_ms)
    report.add(
        burden.name,
        figure(len(burden.frame) / 1e6),
        figure(slices.ms),
        figure(rounds.ms),
        figure(collections.ms),
        worst.where if worst.ms > LONG_MS else "",
    )
    return worst.ms > LONG_MS


def _ms(longest: Longest) -> float:
    return longest.ms


def _place(frame: FrameType | None) -> str:
    """Where a thread is, innermost first, without what every request passes through."""
    shown = []
    for one, line in traceback.walk_stack(frame):
        path = one.f_code.co_filename
        if "/ottla/" in path and not path.endswith(("base/turns.py", "server/turns.py")):
            shown.append(f"{Path(path).stem}.{one.f_code.co_name}:{line}")
        elif path.startswith("<"):
            shown.append(f"{one.f_code.co_name}:{line}")
    return " < ".join(shown[:FRAMES_SHOWN])
