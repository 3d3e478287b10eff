"""Ctrl-C at every line of a call: what was appended is there once, and the log is sound.

A trace function counts the lines of Ottla's that a call runs, and sends the process SIGINT before
one of them; the next time before the next one, until the call runs to its end.
"""

import contextlib
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pytest

import ottla
from ottla.base.errors import ApiError, UnreachableError
from ottla.base.files import OsFileSystem
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.waiting.rooms import Waiting
from ottla.embedded.connection import InProcessConnection
from ottla.embedded.held_broker import HeldBroker
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.runtime.interrupts import HeldInterrupts
from ottla.storage.diagnosis.directory_check import check
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.queued_locks import is_queued

T = TypeVar("T")
PACKAGE = str(Path(ottla.__file__).parent)


class OutOfNowhereError(BaseException):
    """As another thread may set it (`PyThreadState_SetAsyncExc`), or a handler of a signal."""


class Tracer:
    """Acts before the n-th line of Ottla's, in rooms that are wanted, while it is entered."""

    def __init__(
        self, number: int, act: Callable[[], None], rooms: tuple[str, ...] = ("",)
    ) -> None:
        self._left = number
        self._act = act
        self._paths = tuple(f"{PACKAGE}/{room}" for room in rooms)
        self.has_acted = False

    def __enter__(self) -> "Tracer":
        assert threading.current_thread() is threading.main_thread()
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if self.has_acted:
            return None
        code = frame.f_code
        # Python itself lets nothing out of a finalizer.
        if not code.co_filename.startswith(self._paths) or code.co_name == "__del__":
            return None
        if frame.f_back is not None and frame.f_back.f_code.co_name == "__del__":
            return None
        if event == "line" and not self.has_acted:
            self._left -= 1
            if self._left == 0:
                self.has_acted = True
                self._act()
        return self._trace


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def appear() -> None:
    raise OutOfNowhereError


def tear(broker: Broker, at: Timestamps) -> None:
    """For `hold`: leaves its change half done."""
    raise KeyboardInterrupt


def numbers(step: int = 1) -> Iterator[int]:
    """Of lines, until one is beyond the call's last."""
    number = 1
    while True:
        yield number
        number += step


@pytest.fixture(autouse=True)
def interrupts_as_python_has_them() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def assert_sound(path: Path) -> None:
    found = check(OsFileSystem(), str(path), deep=True).findings
    assert [one for one in found if not one.is_note] == []


def assert_each_once(log: ottla.Log, sure: list[bytes], tried: list[bytes]) -> None:
    """All that was answered is there, once, in order; of the rest each is there once, or not."""
    records = list(log.read("t"))
    assert [one.offset for one in records] == list(range(len(records)))
    values = [one.value for one in records]
    assert len(set(values)) == len(values)
    assert [one for one in values if one in set(sure)] == sure
    assert set(values) <= set(tried)


SURPRISES = (KeyboardInterrupt, OutOfNowhereError)
SPAN = 56
AT_MOST = 3000
"""Lines: after a span, or more where few are tried, the log is opened again, so that a recovery has
no more to look at."""

APPENDS = {
    "to a segment": {"index.interval.bytes": 0},
    "that rolls": {"segment.bytes": 150},
    "that flushes": {"flush.messages": 1},
    "to a compacted log that rolls": {"segment.bytes": 150, "cleanup.policy": "compact"},
}


@pytest.mark.slow
@pytest.mark.parametrize("act", [interrupt, appear], ids=["Ctrl-C", "out of nowhere"])
@pytest.mark.parametrize("config", APPENDS.values(), ids=APPENDS.keys())
def test_an_exception_at_any_line_of_an_append_leaves_a_whole_log(
    tmp_path: Path, config: dict[str, Any], act: Callable[[], None], crash_seconds: float
) -> None:
    sure: list[bytes] = []
    tried: list[bytes] = []

    def append(value: bytes) -> None:
        tried.append(value)
        log.append("t", value, key=b"of " + value)
        sure.append(value)

    # Every third line, from another one each time. Of appends that differ in some lines only some
    # of all are tried, and of Ctrl-C, which is kept back where the other exception is not.
    # `make crash` tries all.
    is_tried_well = config == APPENDS["to a segment"] and act is appear
    step = 1 if crash_seconds else 3 if is_tried_well else 41
    span = SPAN * min(step, 10)
    for first in range(1 + random.randrange(step), AT_MOST, span):
        with ottla.open(tmp_path) as log:
            if not tried:
                log.create_topic("t", config=config)
            for number in range(first, first + span, step):
                with contextlib.suppress(*SURPRISES), Tracer(number, act) as tracer:
                    append(b"%d" % number)
                append(b"%d, next" % number)
            assert_each_once(log, sure, tried)
        assert_sound(tmp_path)
        if not tracer.has_acted:
            break
    assert not tracer.has_acted
    assert number > 100


@pytest.mark.slow
def test_a_recovery_waits_for_a_ticker_that_settles_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_ticked = threading.Event()
    settle, stop = HeldBroker._settle_tick, HeldBroker._stop

    def noted_settle(held: HeldBroker) -> None:
        if held._is_torn:
            has_ticked.set()
        settle(held)

    def stop_in_a_tick(held: HeldBroker) -> None:
        if held._is_torn:
            assert has_ticked.wait(PATIENCE_S)
        stop(held)

    monkeypatch.setattr(HeldBroker, "_settle_tick", noted_settle)
    monkeypatch.setattr(HeldBroker, "_stop", stop_in_a_tick)
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        with pytest.raises(KeyboardInterrupt):
            log.hold(tear)
        assert log.append("t", b"value").offset == 0


def found_after_an_interrupt(log: ottla.Log, call: Callable[[], T]) -> T:
    """What a call finds that waits for the lock while the call that holds it is interrupted."""
    with ThreadPoolExecutor() as threads:
        waiting: list[Future[T]] = []

        def tear_while_another_waits(broker: Broker, at: Timestamps) -> None:
            waiting.append(threads.submit(call))
            wait_until(lambda: is_queued(log._lock))
            tear(broker, at)

        with pytest.raises(KeyboardInterrupt):
            log.hold(tear_while_another_waits)
        return waiting[0].result(PATIENCE_S)


def test_an_append_that_waits_for_an_interrupted_call_continues_in_the_recovered_log(
    tmp_path: Path,
) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        assert found_after_an_interrupt(log, lambda: log.append("t", b"value").offset) == 0
        assert [one.value for one in log.read("t")] == [b"value"]


def test_a_read_that_waits_for_an_interrupted_call_sees_the_recovered_log(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        torn = log.broker

        def look() -> Broker:
            with log.looking() as broker:
                return broker

        assert found_after_an_interrupt(log, look) is log.broker is not torn


def test_a_response_of_a_broker_that_was_replaced_meanwhile_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for = HeldBroker.wait_for

    def wait_and_tear(held: HeldBroker, pending_id: Waiting[Any], broker: Broker) -> None:
        wait_for(held, pending_id, broker)
        with contextlib.suppress(KeyboardInterrupt):
            held.hold(tear)

    monkeypatch.setattr(HeldBroker, "wait_for", wait_and_tear)
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = FetchTopic(topic="t", partitions=[partition])
        request = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=[topic])
        answer = InProcessConnection(log).send(request, newest=11)
        log.append("t", b"value")
        with pytest.raises(UnreachableError, match="a call was interrupted"):
            answer()
        assert [one.value for one in log.read("t")] == [b"value"]


@pytest.mark.slow
def test_ctrl_c_at_any_line_of_a_topics_creation_and_deletion(
    tmp_path: Path, crash_seconds: float
) -> None:
    with ottla.open(tmp_path) as log:
        for number in numbers(29 if crash_seconds else 59):
            name = f"topic-{number}"
            with contextlib.suppress(KeyboardInterrupt), Tracer(number, interrupt) as making:
                log.create_topic(name, partitions=2)
            with contextlib.suppress(ApiError):
                log.create_topic(name, partitions=2)
            assert log.topics()[name] == 2
            log.append(name, b"value", partition=1)
            with contextlib.suppress(KeyboardInterrupt), Tracer(number, interrupt) as deleting:
                log.delete_topic(name)
            with contextlib.suppress(ottla.UserError):
                log.delete_topic(name)
            assert name not in log.topics()
            if not making.has_acted and not deleting.has_acted:
                break
        assert number > 100
    assert_sound(tmp_path)


@pytest.mark.slow
def test_a_log_whose_opening_or_closing_was_interrupted_can_be_opened_and_closed(
    tmp_path: Path, crash_seconds: float
) -> None:
    made = tmp_path / "made"
    with ottla.open(made) as log:
        log.create_topic("t")
        log.append("t", b"before")
    for number in numbers(61 if crash_seconds else 127):
        directory = tmp_path / str(number)
        shutil.copytree(made, directory)
        begun: ottla.Log | None = None
        with contextlib.suppress(KeyboardInterrupt), Tracer(number, interrupt) as opening:
            begun = ottla.open(directory)
        if begun is not None:
            begun.close()
        log = ottla.open(directory)
        assert log.append("t", b"after").offset == 1
        with contextlib.suppress(KeyboardInterrupt), Tracer(number, interrupt) as closing:
            log.close()
        log.close()
        with pytest.raises(ottla.UserError, match="this log is closed"):
            log.topics()
        assert_sound(directory)
        with ottla.open(directory) as log:
            assert [one.value for one in log.read("t")] == [b"before", b"after"]
        shutil.rmtree(directory)
        if not opening.has_acted and not closing.has_acted:
            break


def test_interrupts_that_were_kept_back_come_at_the_end_and_once() -> None:
    seen = []

    def work() -> None:
        with HeldInterrupts():
            for turn in range(3):
                interrupt()
                seen.append(turn)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert seen == [0, 1, 2]


def test_another_handler_and_another_thread_are_left_alone() -> None:
    calls: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    with HeldInterrupts():
        with HeldInterrupts():
            interrupt()
        assert calls == []
    assert calls == [signal.SIGINT]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with HeldInterrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def work() -> None:
        with HeldInterrupts():
            calls.append(signal.getsignal(signal.SIGINT) is signal.default_int_handler)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert calls[1:] == [True]
