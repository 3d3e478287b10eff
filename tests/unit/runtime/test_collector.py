"""When the broker's process looks for cycles, and at which objects."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from ottla.runtime import collector as module
from ottla.runtime.collector import Collector


class Cycle:
    """Only a collection ends it."""

    def __init__(self) -> None:
        self.itself = self


class Clock:
    """Each look at it takes a second; time passes otherwise when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Collector]:
    """One that is always overdue; what it changes in this process is put back."""
    monkeypatch.setattr(module, "COLLECTIONS_UNTIL_OVERDUE", 0)
    thresholds = gc.get_threshold()
    collector = Collector(clock)
    collector.begin()
    yield collector
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.freeze()  # as tests/conftest.py leaves the process


@pytest.mark.slow
def test_what_survives_is_not_looked_at_again(collector: Collector) -> None:
    gc.disable()
    kept = [Cycle() for _ in range(100)]
    before = gc.get_freeze_count()
    collector.collect_when_overdue()
    gc.enable()
    assert gc.get_freeze_count() >= before + len(kept)


@pytest.mark.slow
def test_quiet_collections_look_at_frozen_objects_for_a_small_share_of_the_time(
    collector: Collector, clock: Clock
) -> None:
    frozen = Cycle()
    collector.collect_when_overdue()
    fresh = Cycle()
    references = weakref.ref(frozen), weakref.ref(fresh)
    del frozen, fresh
    collector.collect_when_quiet()
    assert [one() is None for one in references] == [False, True]
    clock.now_s += 1 / module.LONGEST_SHARE
    collector.collect_when_quiet()
    assert references[0]() is None


@pytest.mark.slow
def test_cycles_are_found_beside_clients_unless_they_were_frozen(
    collector: Collector, clock: Clock
) -> None:
    frozen = Cycle()
    collector.collect_when_overdue()
    fresh = Cycle()
    references = weakref.ref(frozen), weakref.ref(fresh)
    del frozen, fresh
    collector.collect_when_overdue()
    assert [one() is None for one in references] == [False, True]
    clock.now_s += 1 / module.LONGEST_SHARE
    collector.collect_when_quiet()
    assert references[0]() is None


@pytest.mark.slow
def test_a_broker_that_is_never_quiet_finds_frozen_cycles_in_the_end(collector: Collector) -> None:
    frozen = Cycle()
    collector.collect_when_overdue()
    reference = weakref.ref(frozen)
    del frozen
    for _ in range(module.FROZEN_COLLECTIONS):
        collector.collect_when_overdue()
    assert reference() is None


@pytest.mark.slow
def test_nothing_is_collected_beside_clients_before_it_is_overdue(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COLLECTIONS_UNTIL_OVERDUE", 1_000_000)
    reference = weakref.ref(Cycle())
    gc.disable()
    try:
        collector.collect_when_overdue()
        assert reference() is not None
    finally:
        gc.enable()
