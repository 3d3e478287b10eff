"""Brokers and a controller from a seed: no acknowledged record is lost, all that is asked ends."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.controller import elections
from ottla.controller.partitions import PartitionStateMachine
from ottla.controller.replicas import ReplicaStateMachine
from tests.simulation.cluster_world import World

pytestmark = pytest.mark.slow

FEW = range(4)
MORE = range(4, 14)
MANY = range(14, 500)


@pytest.mark.parametrize("seed", MORE)
def test_a_cluster_lives_through_chaos_and_settles(seed: int) -> None:
    World(seed).run()


@pytest.mark.long
@pytest.mark.parametrize("seed", MANY)
def test_a_cluster_lives_through_more_chaos_and_settles(seed: int) -> None:
    World(seed).run()


def test_a_run_has_what_it_is_to_be_about() -> None:
    counts: Counter[str] = Counter()
    for seed in FEW:
        world = World(seed)
        world.run()
        counts += world.counts
    for what in (
        "controllers", "expired", "kills", "shutdowns", "lost", "asked twice", "acknowledged",
        "deposed", "CreateTopic", "CreatePartitions", "DeleteTopic", "AlterReassignments",
        "ElectLeaders",
    ):  # fmt: skip
        assert counts[what] > 3, (what, counts)


def _any_live_replica_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    elect = elections.elect

    def unclean(context: Any, partition: Any, state: Any, strategy: Any, **options: Any) -> Any:
        everyone = elections.replace(state, isr=context.replicas_of(partition))
        return elect(context, partition, everyone, strategy, **options)

    monkeypatch.setattr("ottla.controller.partitions.elect", unclean)


def _epochs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(context: Any, state: Any, leader: int) -> Any:
        return elections.replace(state, leader=leader, controller_epoch=context.epoch)

    monkeypatch.setattr(elections, "_next", same)


def _the_last_of_an_isr_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    without = ReplicaStateMachine._without

    def emptied(self: Any, broker: int, state: Any) -> Any:
        left = tuple(one for one in state.isr if one != broker)
        return elections.replace(without(self, broker, state), isr=left)

    monkeypatch.setattr(ReplicaStateMachine, "_without", emptied)


def _nothing_is_elected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: Any) -> Any:
        return
        yield

    monkeypatch.setattr(PartitionStateMachine, "bring_online", nothing)


@pytest.mark.parametrize(
    "break_rule",
    [
        _any_live_replica_leads,
        _epochs_stay,
        _the_last_of_an_isr_may_go,
        _nothing_is_elected_again,
    ],
)
def test_a_broken_rule_is_found(
    break_rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_rule(monkeypatch)
    with pytest.raises(AssertionError):
        _run_all(range(12))


def _run_all(seeds: range) -> None:
    for seed in seeds:
        World(seed).run()
