"""Clusters with a tier in chaos, from a seed; and broken rules, each of which is detected."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.tiering.copying import _Copy
from ottla.broker.tiering.steps import Steps
from ottla.broker.tiering.tiered_partition import TieredPartition
from ottla.storage.remote.segment_index import SegmentIndex
from tests.simulation.tier_world import TierWorld

pytestmark = pytest.mark.slow

SEEDS = range(3)
MANY = range(3, 200)
WITHIN = 100


@pytest.mark.parametrize("seed", SEEDS)
def test_logs_with_a_tier_live_through_chaos_and_settle(seed: int) -> None:
    TierWorld(seed).run()


@pytest.mark.long
@pytest.mark.parametrize("seed", MANY)
def test_logs_with_a_tier_live_through_more_chaos(seed: int) -> None:
    TierWorld(seed).run()


def test_the_runs_have_what_they_are_to_be_about() -> None:
    worlds = [TierWorld(seed) for seed in range(4)]
    for one in worlds:
        one.run()
    for what in ("uploads", "offsets in the tier only", "unclean elections", "power failures"):
        assert sum(one.counts[what] for one in worlds), what


def _copied_counts_before_it_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = _Copy._finish

    def at_once(self: _Copy, segment: Any, custom: bytes | None) -> Steps[None]:
        self._tiered.log.offsets.highest_remote_offset = segment.end_offset
        self._tiered.log.maintenance.reconfigure(self._tiered.log.config)
        if segment.start_offset:
            return  # as if the record were lost
        yield from finish(self, segment, custom)

    monkeypatch.setattr(_Copy, "_finish", at_once)


def _the_highest_offset_of_any_history_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_any(self: TieredPartition, index: SegmentIndex | None) -> None:
        segments = [] if index is None else index.segments()
        ends = [one.end_offset for one in segments]
        self.log.offsets.highest_remote_offset = max(ends, default=-1)

    monkeypatch.setattr(TieredPartition, "note_highest", of_any)


@pytest.mark.parametrize(
    "break_rule",
    [_copied_counts_before_it_is_recorded, _the_highest_offset_of_any_history_counts],
)
def test_a_broken_rule_is_detected(
    monkeypatch: pytest.MonkeyPatch, break_rule: Callable[[pytest.MonkeyPatch], None]
) -> None:
    break_rule(monkeypatch)
    with pytest.raises(AssertionError):
        run_all(range(WITHIN))


def run_all(seeds: range) -> None:
    for seed in seeds:
        TierWorld(seed).run()
