"""A cluster whose brokers have logs on disks in memory: the same chaos, and broken rules of what
joins the machine of replicas with logs."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.base.errors import OttlaError
from ottla.broker.replicas.hosted_logs import HostedLog
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.replicas.replicated_partition import ReplicatedPartition
from ottla.broker.replication.effects import (
    AssignEpoch,
    BecameLeader,
    Effect,
    TruncateFullyAndStartAt,
    TruncateTo,
)
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.storage.log.leader_epochs import LeaderEpochs
from tests.simulation.cluster_world import World

pytestmark = pytest.mark.slow

SEEDS = range(10, 15)
MANY = range(15, 500)
WITHIN = 150


@pytest.mark.parametrize("seed", SEEDS)
def test_replicated_logs_live_through_chaos_and_settle(seed: int) -> None:
    World(seed, has_real_logs=True).run()


@pytest.mark.long
@pytest.mark.parametrize("seed", MANY)
def test_replicated_logs_live_through_more_chaos(seed: int) -> None:
    World(seed, has_real_logs=True).run()


def _all_that_a_restart_finds_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = HostedLog.__init__

    def with_all(self: HostedLog, partition: Any) -> None:
        made(self, partition)
        self.recorded_high_watermark = partition.log.log_end_offset

    monkeypatch.setattr(HostedLog, "__init__", with_all)


def _leave_out(kind: type[Effect]) -> Callable[[pytest.MonkeyPatch], None]:
    def break_rule(monkeypatch: pytest.MonkeyPatch) -> None:
        do = Replicas._do

        def all_others(self: Replicas, effect: Effect) -> None:
            if not isinstance(effect, kind):
                do(self, effect)

        monkeypatch.setattr(Replicas, "_do", all_others)

    return break_rule


def _a_leader_writes_in_its_old_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    do = Replicas._do

    def in_the_old_epoch(self: Replicas, effect: Effect) -> None:
        if isinstance(effect, BecameLeader):
            partition = self.partitions[effect.partition].partition
            before = partition.leader_epoch
            do(self, effect)
            partition.leader_epoch = before
        else:
            do(self, effect)

    monkeypatch.setattr(Replicas, "_do", in_the_old_epoch)


def _the_end_of_a_log_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_end(self: ReplicatedPartition) -> None:
        self._replicas.appended(self.place)

    monkeypatch.setattr(ReplicatedPartition, "written_out", without_the_end)


def _epochs_after_a_cut_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderEpochs, "truncate_from_end", lambda self, offset: None)


def _readers_never_see_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replicas, "_move_high_watermark", lambda self, replicated, offset: None)


def _deletions_in_a_failed_directory_are_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    went_offline = ReplicaManager.went_offline

    def forgotten(self: ReplicaManager, partitions: Any) -> Any:
        effects = went_offline(self, partitions)
        self.offline.clear()
        return effects

    monkeypatch.setattr(ReplicaManager, "went_offline", forgotten)


@pytest.mark.parametrize(
    ("break_rule", "first_seed"),
    [
        (_all_that_a_restart_finds_is_committed, 11),
        (_leave_out(TruncateTo), 13),
        (_leave_out(AssignEpoch), 31),
        (_leave_out(TruncateFullyAndStartAt), 12),
        (_a_leader_writes_in_its_old_epoch, 12),
        (_the_end_of_a_log_is_not_noted, 11),
        (_epochs_after_a_cut_stay, 10),
        (_readers_never_see_more, 10),
        (_deletions_in_a_failed_directory_are_confirmed, 95),
    ],
)
def test_a_broken_rule_of_replicated_logs_is_found(
    break_rule: Callable[[pytest.MonkeyPatch], None],
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Soon after the first seed, until code changes and chance falls otherwise."""
    break_rule(monkeypatch)
    with pytest.raises((AssertionError, OttlaError)):
        _run_all(range(first_seed, first_seed + WITHIN))


def _run_all(seeds: range) -> None:
    for seed in seeds:
        World(seed, has_real_logs=True).run()
