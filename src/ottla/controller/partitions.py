"""The partition state machine: new, online, offline, non-existent; and elections.

Kafka's counterpart: `ZkPartitionStateMachine`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.base.partitions import TopicPartition
from ottla.controller.context import ControllerContext, Leadership, PartitionPhase
from ottla.controller.elections import Elected, Strategy, elect
from ottla.controller.operations import Steps
from ottla.controller.requests import RequestBatch
from ottla.controller.store import Store, Updates
from ottla.zookeeper.topics import PartitionState

_BEFORE: Final = {
    PartitionPhase.NEW: {PartitionPhase.NON_EXISTENT},
    PartitionPhase.ONLINE: {PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE},
    PartitionPhase.OFFLINE: {PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE},
    PartitionPhase.NON_EXISTENT: {PartitionPhase.OFFLINE},
}
"""The phases from which each phase can be entered."""

UNCLEAN: Final = "unclean.leader.election.enable"


class PartitionStateMachine:
    """`is_unclean` is the default for topics without the setting; see `ControllerOptions`."""

    def __init__(
        self,
        context: ControllerContext,
        store: Store,
        batch: RequestBatch,
        *,
        is_unclean: bool,
        has_recovery: bool,
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._is_unclean = is_unclean
        self._has_recovery = has_recovery

    def startup(self) -> Steps[None]:
        """Derives phases from the registries, and elects leaders for partitions without one."""
        context = self._context
        for partition in context.all_partitions():
            leadership = context.leaderships.get(partition)
            if leadership is None:
                phase = PartitionPhase.NEW
            elif context.is_online(leadership.state.leader, partition):
                phase = PartitionPhase.ONLINE
            else:
                phase = PartitionPhase.OFFLINE
            context.partition_phases[partition] = phase
        yield from self.bring_online()

    def bring_online(self) -> Steps[set[TopicPartition]]:
        """Tries to elect a leader for every partition without one; returns those for which it
        succeeded.
        """
        waiting = [
            one
            for one in self._context.partitions_in(PartitionPhase.OFFLINE, PartitionPhase.NEW)
            if not self._context.is_queued_for_deletion(one.topic)
        ]
        return (yield from self.make_online(waiting, Strategy.OFFLINE))

    def move(self, partitions: Iterable[TopicPartition], phase: PartitionPhase) -> None:
        """Enters a phase that needs no operation: new, offline or non-existent."""
        for partition in self._movable(partitions, phase):
            if phase is PartitionPhase.NON_EXISTENT:
                self._context.partition_phases.pop(partition, None)
            else:
                self._context.partition_phases[partition] = phase

    def _movable(
        self, partitions: Iterable[TopicPartition], phase: PartitionPhase
    ) -> list[TopicPartition]:
        """The partitions that may enter the phase; the others are ignored. Kafka also logs them."""
        known = self._context.partition_phases
        return [
            one
            for one in partitions
            if known.get(one, PartitionPhase.NON_EXISTENT) in _BEFORE[phase]
        ]

    def make_online(
        self, partitions: Iterable[TopicPartition], strategy: Strategy
    ) -> Steps[set[TopicPartition]]:
        """Elects leaders, first ones for new partitions; returns the partitions that have one."""
        movable = self._movable(partitions, PartitionPhase.ONLINE)
        phases = self._context.partition_phases
        new = [one for one in movable if phases[one] is PartitionPhase.NEW]
        old = [one for one in movable if phases[one] is not PartitionPhase.NEW]
        done = yield from self._initialize(new)
        done |= yield from self._elect(old, strategy)
        for partition in done:
            phases[partition] = PartitionPhase.ONLINE
        self._batch.send()
        return done

    def _initialize(self, partitions: Sequence[TopicPartition]) -> Steps[set[TopicPartition]]:
        """Creates the first states: the first online replica leads, all online replicas are the
        ISR.
        """
        states = {}
        for partition in partitions:
            live = self._context.live_replicas(partition)
            if live:
                states[partition] = PartitionState(
                    leader=live[0],
                    leader_epoch=0,
                    controller_epoch=self._context.epoch,
                    isr=tuple(live),
                )
        updates = yield from self._store.create_states(states)
        # An existing state is of this epoch: it was created before a connection was lost.
        known = yield from self._store.states(updates.changed)
        for partition, leadership in {**updates.written, **known}.items():
            self._context.leaderships[partition] = leadership
            self._batch.lead(leadership.state.isr, partition, leadership, is_new=True)
        return updates.written.keys() | known.keys()

    def _elect(
        self, partitions: Sequence[TopicPartition], strategy: Strategy
    ) -> Steps[set[TopicPartition]]:
        """Elects from the known states, which are only written if their nodes are unchanged; reads
        the states again if that fails or no replica can lead.
        """
        leaderships = self._context.leaderships
        known = {one: leaderships[one] for one in partitions if one in leaderships}
        done = set((yield from self._elect_of(known, strategy)).written)
        left = [one for one in partitions if one not in done]
        while left:
            known = yield from self._store.states(left)
            updates = yield from self._elect_of(known, strategy)
            done |= updates.written.keys()
            left = updates.changed
        return done

    def _elect_of(
        self, known: dict[TopicPartition, Leadership], strategy: Strategy
    ) -> Steps[Updates]:
        strategies = yield from self._strategies(known, strategy)
        elected = self._choose(known, strategies)
        updates = yield from self._store.update_states(
            {one: Leadership(choice.state, known[one].version) for one, choice in elected.items()}
        )
        for partition, leadership in updates.written.items():
            self._context.leaderships[partition] = leadership
            self._batch.lead(elected[partition].recipients, partition, leadership)
        return updates

    def _choose(
        self, known: dict[TopicPartition, Leadership], strategies: dict[TopicPartition, Strategy]
    ) -> dict[TopicPartition, Elected]:
        elected = {}
        for partition, leadership in known.items():
            if leadership.state.controller_epoch > self._context.epoch:
                continue  # written by a later controller, which fences this one
            choice = elect(
                self._context,
                partition,
                leadership.state,
                strategies[partition],
                has_recovery=self._has_recovery,
            )
            if choice is not None:
                elected[partition] = choice
        return elected

    def _strategies(
        self, known: dict[TopicPartition, Leadership], strategy: Strategy
    ) -> Steps[dict[TopicPartition, Strategy]]:
        """The strategy per partition: unclean if the topic's or else the broker's setting allows
        it.
        """
        strategies = dict.fromkeys(known, strategy)
        if strategy is not Strategy.OFFLINE:
            return strategies
        lost = [
            one
            for one, leadership in known.items()
            if not any(self._context.is_online(broker, one) for broker in leadership.state.isr)
        ]
        settings = yield from self._store.settings(list(dict.fromkeys(one.topic for one in lost)))
        for partition in lost:
            text = settings[partition.topic].get(UNCLEAN, str(self._is_unclean))
            if text.strip().lower() == "true":
                strategies[partition] = Strategy.UNCLEAN
        return strategies

    def raise_epoch(self, partition: TopicPartition) -> Steps[Leadership | None]:
        """Raises the leader epoch and keeps the leader; `None` if the partition has no state."""
        while True:
            known = (yield from self._store.states([partition])).get(partition)
            if known is None:
                return None
            raised = self._context.next_state(partition, known.state)
            updates = yield from self._store.update_states(
                {partition: Leadership(raised, known.version)}
            )
            if updates.written:
                self._context.leaderships[partition] = updates.written[partition]
                return updates.written[partition]
            if updates.missing:
                return None
