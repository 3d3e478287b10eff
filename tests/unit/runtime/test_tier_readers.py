"""The threads that read the tier: as many as are needed, and a dead store holds up nobody else."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from ottla.runtime.tier_readers import TierReaders
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.serving import WireClient, serving
from tests.support.tier_reading import TieredBroker, fetch_of, list_offsets_of, offsets_in


class Gate:
    """Has all reads of logs wait until it is opened."""

    def __init__(self, tiered: TieredBroker) -> None:
        self._open = threading.Event()
        self.waiting = 0
        storage = tiered.reads.tier.storage
        self._read_log = storage.read_log
        storage.read_log = self.read_log  # type: ignore[method-assign]

    def read_log(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        self.waiting += 1
        assert self._open.wait(PATIENCE_S)
        return self._read_log(segment, position, size)

    def open(self) -> None:
        self._open.set()


class Served:
    """A broker whose store answers when its gate is opened."""

    def __init__(self, **settings: str) -> None:
        self.tiered = TieredBroker("orders", "payments", **settings)
        self.gate = Gate(self.tiered)
        self.lock = threading.RLock()


@pytest.fixture
def served() -> Iterator[tuple[Served, tuple[str, int]]]:
    made = Served(remote_fetch_max_wait_ms="50")
    broker, reads = made.tiered.broker, made.tiered.reads
    with serving(broker, lock=made.lock) as server:
        readers = TierReaders(broker, reads, lock=made.lock, on_done=server.wake)
        try:
            yield made, server.address
        finally:
            made.gate.open()
            readers.stop()


def test_over_a_dead_store_other_fetches_and_produces_go_on(
    served: tuple[Served, tuple[str, int]],
) -> None:
    made, address = served
    with WireClient(address) as slow, WireClient(address) as other:
        slow.send(fetch_of(("orders", 10), ("payments", 70)), 12)
        wait_until(lambda: made.gate.waiting > 0)
        local = other.ask(fetch_of(("payments", 70)), 12)
        assert offsets_in(local) == [list(range(70, 80))]
        assert other.ask(list_offsets_of([-2, -1]), 7).topics[0].partitions[0].offset == 0
        # After remote.fetch.max.wait.ms what is local comes alone.
        assert offsets_in(slow.receive(1, 12)) == [[], list(range(70, 80))]
        made.gate.open()
        received: list[object] = []
        while not received:
            received += offsets_in(slow.ask(fetch_of(("orders", 10)), 12))[0]  # type: ignore[arg-type]
        assert received == list(range(10, 20))


def test_a_search_by_time_waits_for_the_store_and_nobody_for_the_search(
    served: tuple[Served, tuple[str, int]],
) -> None:
    made, address = served
    with WireClient(address) as slow, WireClient(address) as other:
        slow.send(list_offsets_of([0]), 7)
        wait_until(lambda: made.gate.waiting > 0)
        assert offsets_in(other.ask(fetch_of(("orders", 70)), 12)) == [list(range(70, 80))]
        made.gate.open()
        assert slow.receive(2, 7).topics[0].partitions[0].offset == 0


def test_there_are_as_many_threads_as_reads_up_to_the_setting() -> None:
    made = Served(remote_log_reader_threads="2", remote_log_reader_max_pending_tasks="1")
    tiered = made.tiered
    with closing(tiered.broker) as broker:
        done = threading.Semaphore(0)
        readers = TierReaders(broker, tiered.reads, lock=made.lock, on_done=done.release)
        try:
            for number, offset in enumerate((0, 10), start=1):
                later, _ = tiered.client.send(fetch_of(("orders", offset)), 12)
                assert later is not None
                wait_until(lambda wanted=number: made.gate.waiting == wanted)
            assert readers.queue_size == 0
            later, _ = tiered.client.send(fetch_of(("orders", 20)), 12)
            assert later is not None
            assert readers.queue_size == 1
            # The queue is full.
            answer = tiered.client.ask(fetch_of(("orders", 30)), 12)
            assert answer.responses[0].partitions[0].error_code
            made.gate.open()
            for _ in range(3):
                assert done.acquire(timeout=PATIENCE_S)
            assert tiered.answered() == 3
        finally:
            made.gate.open()
            readers.stop()


def test_a_stop_does_not_wait_for_a_dead_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.runtime.tier_readers.STOP_S", 0.01)
    made = Served()
    with closing(made.tiered.broker) as broker:
        readers = TierReaders(broker, made.tiered.reads, lock=made.lock, on_done=lambda: None)
        later, _ = made.tiered.client.send(fetch_of(("orders", 0)), 12)
        assert later is not None
        wait_until(lambda: made.gate.waiting == 1)
        readers.stop()
        assert not readers.submit(made.tiered.reads._kept.popitem()[1])
        made.gate.open()
