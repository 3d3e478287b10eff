"""Threads that work on the tier: others have the broker while a store is slow, or hangs."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from ottla.base.clock import SystemClock
from ottla.broker.broker import Broker
from ottla.broker.topics.partition import Partition
from ottla.runtime import tier_worker
from ottla.runtime.tier_worker import TierWorker
from tests.support.brokers import disk, open_broker
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    remote_logs,
    store_of,
    tiered_topic,
)


class Gate:
    """A store that hangs until it is opened."""

    def __init__(self) -> None:
        self.has_come = threading.Event()
        self.is_open = threading.Event()

    def pass_through(self, name: str) -> None:
        if name == "copy":
            self.has_come.set()
            assert self.is_open.wait(PATIENCE_S)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with closing(broker_with_tier(disk("/d"), remote_log_manager_task_interval_ms="10")) as broker:
        yield broker


def filled(broker: Broker, count: int = 35) -> Partition:
    partition = tiered_topic(broker)
    fill(broker, partition, count, moment=Moment())
    return partition


def test_segments_are_copied_while_others_have_the_broker(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, lock, gate, changes = filled(broker), threading.RLock(), Gate(), []
    monkeypatch.setattr(store_of(broker), "_called", gate.pass_through)
    worker = TierWorker(broker, clock=SystemClock(), lock=lock, on_change=lambda: changes.append(1))
    worker.start()
    assert gate.has_come.wait(PATIENCE_S)
    with lock:  # while the store hangs
        fill(broker, partition, 1, moment=Moment())
        assert len(remote_logs(broker).jobs) == 1
    gate.is_open.set()
    wait_until(lambda: partition.log.offsets.highest_remote_offset == 29)
    worker.stop()
    assert changes


def test_a_stop_waits_for_a_store_that_hangs_only_so_long(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, gate = filled(broker), Gate()
    monkeypatch.setattr(store_of(broker), "_called", gate.pass_through)
    monkeypatch.setattr(tier_worker, "STOP_S", 0.01)
    worker = TierWorker(broker, clock=SystemClock(), lock=threading.RLock())
    worker.start()
    assert gate.has_come.wait(PATIENCE_S)
    worker.stop()
    assert len(remote_logs(broker).jobs) == 0
    gate.is_open.set()  # the thread finds that its job is over
    for thread in worker.threads:
        thread.join(PATIENCE_S)
    assert partition.log.offsets.highest_remote_offset == -1


def test_an_error_does_not_end_the_work(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, begin = remote_logs(broker).jobs, remote_logs(broker).jobs.begin
    tries = []

    def fails_first(at: object) -> object:
        tries.append(at)
        if len(tries) == 1:
            raise ValueError("a slip")
        return begin(at)  # type: ignore[arg-type]

    monkeypatch.setattr(jobs, "begin", fails_first)
    monkeypatch.setattr(tier_worker, "MAX_WAIT_S", 0.01)
    worker = TierWorker(broker, clock=SystemClock(), lock=threading.RLock())
    worker.start()
    wait_until(lambda: len(tries) > 1)
    worker.stop()
    assert [one.getMessage() for one in caplog.records] == [
        "work on the tier failed, and will be tried again"
    ]


def test_a_broker_without_a_tier_needs_no_thread() -> None:
    with closing(open_broker(disk("/d"))) as broker:
        worker = TierWorker(broker, clock=SystemClock(), lock=threading.RLock())
        worker.start()
        assert worker.threads == []
        worker.stop()
