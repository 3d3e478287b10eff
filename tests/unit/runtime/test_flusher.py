"""The flusher, a round at a time."""

import errno
import threading

import pytest

from ottla.metadata.deciding.topics import NewTopic
from ottla.runtime.flusher import Flusher
from ottla.testing import FakeClock
from ottla.testing.faults import FaultPlan, FaultyFileSystem
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.patience import wait_until
from tests.support.shortages import ScarceFileSystem


def test_a_flush_that_fails_takes_its_directory_offline_and_is_reported() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system, log_flush_interval_ms="0")
    broker.admin.create_topic(NewTopic(name="t"))
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=NOW_MS)
    broker.appends.write_out()
    plan = FaultPlan(at_call=0, error=OSError(errno.EIO, "broken"), is_lasting=True)
    told: list[bool] = []
    flusher = Flusher(
        broker,
        FaultyFileSystem(file_system, plan),
        clock=FakeClock(),
        lock=threading.RLock(),
        on_failure=lambda: told.append(broker.directories.is_offline),
    )
    flusher.flush_due()
    assert told == [True]
    flusher.flush_due()
    assert told == [True]


def test_a_clock_that_is_set_back_holds_no_flush_up() -> None:
    file_system, clock = disk("/d"), FakeClock()
    broker = open_broker(file_system, log_flush_interval_ms="1000")
    flusher = Flusher(
        broker, file_system, clock=clock, lock=threading.RLock(), on_failure=lambda: None
    )
    broker.admin.create_topic(NewTopic(name="t"))
    log = broker.topics.partition("t", 0).log
    for _ in range(2):
        broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=clock.now_ms())
        broker.appends.write_out()
        clock.advance(1000)
        flusher.flush_due()
        assert log.offsets.recovery_point == log.log_end_offset
        clock.step(-3_600_000)


def test_a_round_that_fails_is_repeated_later_and_its_cause_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    broker = open_broker(disk("/d"))
    flusher = Flusher(broker, disk("/d"), clock=clock, lock=threading.RLock())
    with monkeypatch.context() as patch:
        patch.setattr(type(broker.log_jobs.flushes), "due_in_steps", lambda *_: [].pop())
        assert [flusher.run_once() for _ in range(3)] == pytest.approx([0.2, 0.4, 0.8])
    assert flusher.run_once() == 0.2
    assert [one.getMessage() for one in caplog.records] == [
        "flushing failed, and will be tried again"
    ]


def test_after_a_round_that_took_long_and_found_nothing_the_flusher_waits_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent_s = iter([0.0, 0.005, 1.0, 1.5, 2.0, 2.001])
    monkeypatch.setattr("ottla.runtime.flusher.thread_time", lambda: next(spent_s))
    broker = open_broker(disk("/d"))
    flusher = Flusher(broker, disk("/d"), clock=FakeClock(), lock=threading.RLock())
    assert [flusher.run_once() for _ in range(3)] == pytest.approx([0.5, 1.0, 0.2])


def test_a_stop_does_not_wait_for_ever_for_a_disk_and_leaves_its_directory_as_a_crash_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.runtime.flusher.STOP_S", 0.05)
    monkeypatch.setattr("ottla.runtime.flusher.INTERVAL_S", 0.001)
    inner = disk("/a", "/b")
    files = ScarceFileSystem(inner)
    broker = open_broker(inner, "/a", "/b", log_flush_interval_ms="0")
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    lock = threading.RLock()
    flusher = Flusher(broker, files, clock=FakeClock(), lock=lock)
    flusher.start()
    files.answers = threading.Event()
    with lock:
        broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=NOW_MS)
        broker.appends.write_out()
    wait_until(lambda: files.refused)
    flusher.stop()
    broker.close()
    files.answers.set()
    hung = broker.topics.partition("t", 0).directory.path
    (line,) = (one.getMessage() for one in caplog.records if one.levelname == "ERROR")
    assert line.startswith(f"{hung} goes offline until a restart: a sync has not returned")
    marks = [inner.status(f"{path}/.kafka_cleanshutdown") is not None for path in ("/a", "/b")]
    assert marks == [hung != "/a", hung != "/b"]
