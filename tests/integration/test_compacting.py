"""The cleaner at work on real disks: in the caller's thread, in threads, and in other processes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.log_jobs.cleaner import CleaningTask
from ottla.metadata.deciding.topics import NewTopic
from ottla.runtime import cleaning_process
from ottla.runtime.cleaning import Cleaning, Engine, ThreadEngine, Throttle
from ottla.runtime.cleaning_process import ProcessEngine
from ottla.runtime.opening import open_broker
from ottla.storage.compaction.compaction import (
    CompactionResult,
    DamagedSegmentError,
    StoppedError,
)
from tests.support.patience import PATIENCE_S, wait_until

CONFIG = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0"}
EAGER = {"log.cleaner.backoff.ms": "20"}


def fill(log: ottla.Log, count: int = 300) -> None:
    log.create_topic("t", config=CONFIG)
    for number in range(count):
        log.append("t", b"%d" % number, key=b"key%d" % (number % 7))


def latest(log: ottla.Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in log.read("t")}


def test_an_embedded_log_is_compacted_when_it_is_asked_to_be(tmp_path: Path) -> None:
    with ottla.open(tmp_path, {"log.cleaner.enable": False}) as log:
        fill(log)
        before = latest(log)
        log.compact("t")
        assert latest(log) == before
        assert len(list(log.read("t"))) < 60
    with ottla.open(tmp_path) as log:
        assert latest(log) == before


def test_who_asks_waits_for_the_pass_that_is_under_way(tmp_path: Path) -> None:
    with ottla.open(tmp_path, {"log.cleaner.enable": False}) as log:
        fill(log)
        log.flush()
        cleaner = log.broker.log_jobs.cleaner
        task = cleaner.task_for(("t", 0), now())
        assert task is not None
        asking = threading.Thread(target=log.compact, args=["t"])
        asking.start()
        asking.join(0.1)
        assert asking.is_alive()
        with log._lock:
            cleaner.fail(task, StoppedError("somebody has stopped it"), now())
        asking.join(PATIENCE_S)
        assert not asking.is_alive()
        assert len(list(log.read("t"))) < 60


def test_compacting_what_is_not_compacted_is_refused(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        with pytest.raises(UserError, match=r"cleanup\.policy must contain compact"):
            log.compact("t")


def test_a_damaged_segment_is_named_to_who_asks(tmp_path: Path) -> None:
    with ottla.open(tmp_path, {"log.cleaner.enable": False}) as log:
        fill(log)
        path = log.broker.topics.partition("t", 0).log.segments.first.log.path
        content = bytearray(Path(path).read_bytes())
        content[-1] ^= 1
        Path(path).write_bytes(content)
        with pytest.raises(UserError, match=r"00000000000000000000\.log at byte"):
            log.compact("t")


@pytest.mark.slow
def test_an_embedded_log_compacts_by_itself(tmp_path: Path) -> None:
    with ottla.open(tmp_path, EAGER) as log:
        fill(log)
        before = latest(log)
        wait_until(lambda: len(list(log.read("t"))) < 60)
        assert latest(log) == before


@pytest.mark.slow
def test_a_broker_compacts_in_another_process(tmp_path: Path) -> None:
    broker, lock = broker_with_keys(tmp_path)
    cleaning = Cleaning(broker, ProcessEngine(os.environ), clock=SystemClock(), lock=lock)
    cleaning.start()
    try:
        wait_until(lambda: size_of(broker, lock) < 6000)
    finally:
        cleaning.stop()
        broker.close()


@pytest.mark.slow
@pytest.mark.parametrize("new_engine", ["thread", "process"])
def test_both_engines_make_the_same_bytes(new_engine: str, tmp_path: Path) -> None:
    broker, lock = broker_with_keys(tmp_path)
    engine = engine_of(new_engine, lock)
    task = broker.log_jobs.cleaner.next_task(now())
    assert task is not None
    result = engine(task, Throttle())
    assert result == ThreadEngine(OsFileSystem(), lock)(task, Throttle())
    broker.log_jobs.cleaner.finish(task, result, now())
    assert size_of(broker, lock) < 6000
    broker.close()


@pytest.mark.slow
@pytest.mark.parametrize("new_engine", ["thread", "process"])
def test_a_damaged_segment_is_named_by_both_engines(new_engine: str, tmp_path: Path) -> None:
    broker, lock = broker_with_keys(tmp_path)
    task = broker.log_jobs.cleaner.next_task(now())
    assert task is not None
    path = Path(task.log.segments.values[1].log.path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedSegmentError, match=path.name):
        engine_of(new_engine, lock)(task, Throttle())
    assert not list(path.parent.glob("*.cleaned"))
    broker.close()


def test_a_pass_whose_failure_cannot_be_written_down_takes_the_directory_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker, lock = broker_with_keys(tmp_path / "data")
    task = broker.log_jobs.cleaner.next_task(now())
    assert task is not None

    def fail(_: CleaningTask, __: Throttle) -> CompactionResult:
        (tmp_path / "data").rename(tmp_path / "taken away")
        raise DamagedSegmentError(task.log.segments.first.log.path, 0, "it is damaged", 0)

    Cleaning(broker, fail, clock=SystemClock(), lock=lock).carry_out(task)
    assert broker.directories[0].is_offline
    assert broker.log_jobs.cleaner.states.is_free(task.key)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("new_engine", ["thread", "process"])
def test_a_pass_that_nobody_wants_any_more_ends_soon_and_leaves_nothing(
    new_engine: str, tmp_path: Path
) -> None:
    broker, lock = broker_with_keys(tmp_path)
    task = broker.log_jobs.cleaner.next_task(now())
    assert task is not None
    outcome: list[Exception | CompactionResult] = []
    # At a byte a second it would take hours.
    thread = threading.Thread(target=note, args=[engine_of(new_engine, lock), task, outcome])
    thread.start()
    with lock:
        broker.log_jobs.cleaner.states.pause(task.key)
        broker.log_jobs.cleaner.states.resume(task.key)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert isinstance(outcome[0], StoppedError)
    assert not list(Path(task.log.directory).glob("*.cleaned"))
    broker.close()


def note(engine: Engine, task: CleaningTask, outcome: list[Exception | CompactionResult]) -> None:
    try:
        outcome.append(engine(task, at_most(1e4)))
    except Exception as error:
        outcome.append(error)


@pytest.mark.slow
def test_a_process_that_is_killed_is_a_failure_that_is_tried_again(tmp_path: Path) -> None:
    broker, lock = broker_with_keys(tmp_path)
    task = broker.log_jobs.cleaner.next_task(now())
    assert task is not None

    def killed(task: CleaningTask, limit: Throttle) -> CompactionResult:
        timer = threading.Timer(0.3, kill_children)
        timer.start()
        return ProcessEngine(os.environ)(task, at_most(1.0))

    Cleaning(broker, killed, clock=SystemClock(), lock=lock).carry_out(task)
    trouble = broker.log_jobs.cleaner.trouble_of(task.key)
    assert trouble.failure_count == 1
    assert "the cleaner's process" in trouble.reason
    broker.close()


def kill_children() -> None:
    found = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "cleaning_process"], capture_output=True, text=True
    )
    for number in found.stdout.split():
        os.kill(int(number), signal.SIGKILL)


@pytest.mark.slow
def test_what_the_process_does_not_understand_is_reported_in_its_words() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla.runtime.cleaning_process"],
        input=b"no plan",
        capture_output=True,
    )
    assert done.returncode


@pytest.mark.parametrize("engine", ["thread", "process"])
def test_no_more_than_so_many_bytes_a_second_are_read_and_written(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, lock = broker_with_keys(tmp_path)
    task = broker.log_jobs.cleaner.next_task(now())
    assert task is not None
    asleep: list[float] = []
    monkeypatch.setattr("ottla.runtime.cleaning.time.sleep", asleep.append)
    if engine == "thread":
        ThreadEngine(OsFileSystem(), lock)(task, at_most(100.0))
    else:
        assert cleaning_process._outcome(task.plan, at_most(100.0))[0] == "result"
    read = sum(one.size for one in task.plan.sources)
    # The clock stands nearly still, so one sleep is to make up for everything.
    assert max(asleep) > 0.9 * read / 100.0
    broker.close()


def test_the_limit_is_shared_by_the_passes_that_run_and_changes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In whichever process they run, and however many may run."""
    asleep: list[float] = []
    monkeypatch.setattr("ottla.runtime.cleaning.time.sleep", asleep.append)
    monkeypatch.setattr("ottla.runtime.cleaning.time.monotonic", lambda: 0.0)
    ours = at_most(100.0)
    other = Throttle(os.dup(ours.fileno()))
    for throttle in (ours, other, ours):
        throttle(50)
    assert asleep == [0.5, 1.0, 1.5]
    ours.limit(50.0)
    other(50)
    assert asleep[-1] == 2.5
    ours.limit(1e300)
    other(10**9)
    assert len(asleep) == 4


def at_most(bytes_per_second: float) -> Throttle:
    throttle = Throttle()
    throttle.limit(bytes_per_second)
    return throttle


def test_another_number_of_threads_holds_from_the_next_look_on(tmp_path: Path) -> None:
    broker, lock = broker_with_keys(tmp_path)
    for name in ("u", "v"):
        broker.admin.create_topic(NewTopic(name=name, partition_count=1, overrides=CONFIG))
        for number in range(60):
            builder = ottla.RecordBatchBuilder()
            builder.append(b"key", b"%d" % number + bytes(100), now().now_ms)
            broker.appends.append(
                broker.topics.partition(name, 0), bytearray(builder.build()), now_ms=now().now_ms
            )
        broker.appends.write_out()
        broker.topics.partition(name, 0).log.writer.flush()
    begun: list[str] = []
    may_end = threading.Event()

    def engine(task: CleaningTask, throttle: Throttle) -> CompactionResult:
        begun.append(task.log.name)
        may_end.wait(PATIENCE_S)
        return ThreadEngine(OsFileSystem(), lock)(task, throttle)

    cleaning = Cleaning(broker, engine, clock=SystemClock(), lock=lock)
    cleaning.start()
    try:
        wait_until(lambda: len(begun) == 1)
        change = ConfigChange(name="log.cleaner.threads", operation=ConfigOperation.SET, value="2")
        with lock:
            broker.admin.alter_broker(ConfigSource.BROKER, Alteration(changes=(change,)))
        wait_until(lambda: len(set(begun)) == 2)
    finally:
        may_end.set()
        cleaning.stop()
        broker.close()


def broker_with_keys(path: Path) -> tuple[Broker, threading.RLock]:
    clock = SystemClock()
    broker = open_broker([str(path)], EAGER, clock=clock)
    broker.admin.create_topic(NewTopic(name="t", partition_count=1, overrides=CONFIG))
    for number in range(300):
        builder = ottla.RecordBatchBuilder()
        builder.append(b"key%d" % (number % 7), b"%d" % number, clock.now_ms())
        broker.appends.append(
            broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=clock.now_ms()
        )
    broker.appends.write_out()
    broker.topics.partition("t", 0).log.writer.flush()
    return broker, threading.RLock()


def engine_of(name: str, lock: threading.RLock) -> Engine:
    engines: dict[str, Callable[[], Engine]] = {
        "thread": lambda: ThreadEngine(OsFileSystem(), lock),
        "process": lambda: ProcessEngine(os.environ),
    }
    return engines[name]()


def size_of(broker: Broker, lock: threading.RLock) -> int:
    with lock:
        return broker.topics.partition("t", 0).log.size


def now() -> Timestamps:
    clock = SystemClock()
    return Timestamps(now_ms=clock.now_ms(), monotonic_ms=clock.monotonic_ms())
