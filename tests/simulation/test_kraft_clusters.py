"""Clusters of KRaft from a seed: no acknowledged record is lost, all images of the metadata agree,
and all that is asked for ends.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.controlling.active_controller import ActiveController
from ottla.metadata.deciding import heartbeats
from ottla.metadata.deciding.partition_changes import PartitionChanges
from ottla.quorum.leading import Leading
from tests.simulation.kraft_node import Node
from tests.simulation.kraft_world import World

pytestmark = pytest.mark.slow

FEW = range(3, 7)
MANY = (*range(3), *range(7, 500))
WITHIN = 200


def test_a_cluster_lives_through_chaos_and_settles() -> None:
    counts: Counter[str] = Counter()
    for seed in FEW:
        world = World(seed)
        world.run()
        counts += world.counts
    for what in (
        "controllers", "crashes", "kills", "clean stops", "lost", "doubled", "acknowledged", "cuts",
        "pauses", "clock jumps", "snapshots", "snapshots loaded", "decided and committed",
        "created", "grown", "deleted", "moved", "elected", "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord", "PartitionChangeRecord", "NoOpRecord",
    ):  # fmt: skip
        assert counts[what] > 1, (what, counts)


@pytest.mark.long
@pytest.mark.parametrize("seed", MANY)
def test_a_cluster_lives_through_more_chaos_and_settles(seed: int) -> None:
    World(seed).run()


def _an_image_of_the_past_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two rules that forbid it, each is enough."""
    monkeypatch.setattr(Node, "_has_registration", lambda self, image: True)
    told = property(lambda self: self._node.high_watermark)
    monkeypatch.setattr(Leading, "_told_high_watermark", told)


def _fenced_brokers_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionChanges, "_may_lead", lambda *_: True)


def _who_is_fenced_stays_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "leaving", lambda *_, most=None: [])


def _controllers_begin_without_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = ActiveController.__init__

    def empty(self: Any, parts: Any, image: Any, *others: Any) -> None:
        begin(self, parts, replace(image, brokers={}), *others)

    monkeypatch.setattr(ActiveController, "__init__", empty)


@pytest.mark.parametrize(
    ("break_rule", "first_seed"),
    [
        (_an_image_of_the_past_is_followed, 24),
        (_fenced_brokers_lead, 0),
        (_who_is_fenced_stays_in_sync, 0),
        (_controllers_begin_without_what_is_committed, 0),
    ],
)
def test_a_broken_rule_is_found(
    break_rule: Callable[[pytest.MonkeyPatch], None],
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the first seed, until code changes and chance falls otherwise; with one of many then."""
    break_rule(monkeypatch)
    with pytest.raises(AssertionError):
        _run_all(range(first_seed, first_seed + WITHIN))


def _run_all(seeds: range) -> None:
    for seed in seeds:
        World(seed).run()
