"""Deletes records of `__share_group_state` that no state needs any more, partition by partition.

First states that did not change for long are written again, since the oldest snapshot that is still
the latest of its state holds back everything after it. Records are deleted a pass later: only once
the snapshots that replace them are committed and on the disk, or a crash might leave neither.
Kafka's counterpart: `ShareCoordinatorService.performRecordPruning`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.coordination.shards import Shard, Shards
from ottla.coordinator.decision import Decision
from ottla.coordinator.share.coordinator import ShareCoordinatorShard, ShareStateAnswer
from ottla.storage.log.partition_log import PartitionLog

StateShard = Shard[ShareCoordinatorShard]


class Written(NamedTuple):
    """Records before `needed` may be deleted once those before `end` are safe."""

    needed: int
    end: int


class PrunedStates(Protocol):
    """The coordinator whose records are pruned."""

    shards: Shards[ShareCoordinatorShard]

    def write_again(self, decision: Decision[ShareStateAnswer], shard: StateShard) -> bool:
        """Appends the records of a decision; returns whether that was possible."""

    def log_of(self, shard: StateShard) -> PartitionLog:
        """The log of a shard that is served; raises `StorageError`."""


class Pruning:
    """`advance` does what is due, in slices."""

    def __init__(self, states: PrunedStates, interval_ms: int, timers: AllTimers) -> None:
        self._states = states
        self._interval_ms = interval_ms
        self._next: Timers[str] = timers.new_room()
        self._written: dict[StateShard, Written] = {}
        """What the pass before has found."""
        self._pass: Iterator[None] | None = None

    def begin(self, at: Timestamps) -> None:
        """Has the first pass come an interval after the first states are loaded: which topics there
        are is known then.
        """
        if NEXT not in self._next:
            self._next.set(NEXT, at.monotonic_ms + self._interval_ms)

    def advance(self, at: Timestamps, is_spent: Callable[[], bool]) -> None:
        """Raises `StorageError`."""
        if self._next.take_due(at.monotonic_ms) is None:
            return
        self._next.set(NEXT, at.monotonic_ms + self._interval_ms)
        self._pass = self._pass or self._prune_all(at)
        for _ in self._pass:
            if is_spent():
                self._next.set(NEXT, at.monotonic_ms)
                return
        self._pass = None

    def _prune_all(self, at: Timestamps) -> Iterator[None]:
        shards = self._states.shards
        before, self._written = self._written, {}
        for shard in shards.served:
            if shard in before:
                self._delete(shard, before[shard])
                yield
            for decision in shard.machine.cold(at):
                if shards.find(shard.index) is not shard:
                    break
                if decision is not None and not self._states.write_again(decision, shard):
                    break
                yield
            if shards.find(shard.index) is shard:
                end = self._states.log_of(shard).log_end_offset
                needed = yield from shard.machine.first_needed_in_steps(end)
                self._written[shard] = Written(needed, end)

    def _delete(self, shard: StateShard, written: Written) -> None:
        if self._states.shards.find(shard.index) is not shard:
            return
        log = self._states.log_of(shard)
        if written.end <= min(log.high_watermark, log.offsets.recovery_point):
            log.maintenance.delete_records_before(written.needed)
        else:
            self._written[shard] = written
