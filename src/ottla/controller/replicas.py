"""The replica state machine. Kafka's counterpart: `ZkReplicaStateMachine`."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from typing import Final

from ottla.base.partitions import TopicPartition
from ottla.controller.context import ControllerContext, Leadership, Replica, ReplicaPhase
from ottla.controller.operations import Steps
from ottla.controller.requests import RequestBatch
from ottla.controller.store import Store
from ottla.zookeeper.topics import NO_LEADER, PartitionState, ReplicaAssignment

_UP_AND_DOWN: Final = {
    ReplicaPhase.NEW,
    ReplicaPhase.ONLINE,
    ReplicaPhase.OFFLINE,
    ReplicaPhase.DELETION_INELIGIBLE,
}
_BEFORE: Final = {
    ReplicaPhase.NEW: {ReplicaPhase.NON_EXISTENT},
    ReplicaPhase.ONLINE: _UP_AND_DOWN,
    ReplicaPhase.OFFLINE: _UP_AND_DOWN,
    ReplicaPhase.DELETION_STARTED: {ReplicaPhase.OFFLINE},
    ReplicaPhase.DELETION_SUCCESSFUL: {ReplicaPhase.DELETION_STARTED},
    ReplicaPhase.DELETION_INELIGIBLE: {ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED},
    ReplicaPhase.NON_EXISTENT: {ReplicaPhase.DELETION_SUCCESSFUL},
}
"""The phases from which each phase can be entered."""


class ReplicaStateMachine:
    def __init__(self, context: ControllerContext, store: Store, batch: RequestBatch) -> None:
        self._context = context
        self._store = store
        self._batch = batch

    def startup(self) -> Steps[None]:
        """Derives phases; replicas on brokers that are down are ineligible for deletion."""
        context = self._context
        replicas = context.replicas_for(context.all_partitions())
        online = [one for one in replicas if context.is_online(one.broker, one.partition)]
        offline = [one for one in replicas if not context.is_online(one.broker, one.partition)]
        context.replica_phases.update(dict.fromkeys(online, ReplicaPhase.ONLINE))
        context.replica_phases.update(dict.fromkeys(offline, ReplicaPhase.DELETION_INELIGIBLE))
        yield from self.move(online, ReplicaPhase.ONLINE)
        yield from self.move(offline, ReplicaPhase.OFFLINE)

    def move(
        self,
        replicas: Iterable[Replica],
        phase: ReplicaPhase,
        elected: Set[TopicPartition] = frozenset(),
    ) -> Steps[None]:
        """Moves replicas to a phase; those that may not enter it are ignored. Kafka also logs them.

        Partitions in `elected` have just elected a leader, with only online replicas in the ISR.
        """
        movable = [one for one in replicas if self._context.phase(one) in _BEFORE[phase]]
        if phase is ReplicaPhase.OFFLINE:
            for broker in sorted({one.broker for one in movable}):
                its = [one for one in movable if one.broker == broker]
                yield from self._stop(broker, its, elected)
        else:
            enter = self._entering(phase)
            for replica in movable:
                enter(replica)
        self._batch.send()

    def _entering(self, phase: ReplicaPhase) -> Callable[[Replica], None]:
        match phase:
            case ReplicaPhase.NEW:
                return self._begin
            case ReplicaPhase.ONLINE:
                return self._bring_up
            case ReplicaPhase.DELETION_STARTED:
                return self._delete
            case ReplicaPhase.NON_EXISTENT:
                return self._forget
            case _:
                return lambda replica: self._enter(replica, phase)

    def _enter(self, replica: Replica, phase: ReplicaPhase) -> None:
        self._context.replica_phases[replica] = phase

    def _begin(self, replica: Replica) -> None:
        leadership = self._context.leaderships.get(replica.partition)
        if leadership is not None:
            if leadership.state.leader == replica.broker:
                return
            self._batch.lead([replica.broker], replica.partition, leadership, is_new=True)
        self._enter(replica, ReplicaPhase.NEW)

    def _bring_up(self, replica: Replica) -> None:
        partition, broker = replica
        if self._context.phase(replica) is ReplicaPhase.NEW:
            assignment = self._context.assignment(partition)
            if broker not in assignment.replicas:
                grown = replace(assignment, replicas=(*assignment.replicas, broker))
                self._context.assign(partition, grown)
        else:
            leadership = self._context.leaderships.get(partition)
            if leadership is not None:
                self._batch.lead([broker], partition, leadership)
        self._enter(replica, ReplicaPhase.ONLINE)

    def _delete(self, replica: Replica) -> None:
        self._batch.stop(replica.broker, replica.partition, delete=True)
        self._enter(replica, ReplicaPhase.DELETION_STARTED)

    def _forget(self, replica: Replica) -> None:
        partition, broker = replica
        known = self._context.assignment(partition)
        self._context.assign(
            partition,
            ReplicaAssignment(
                *(
                    tuple(one for one in some if one != broker)
                    for some in (known.replicas, known.adding, known.removing)
                )
            ),
        )
        self._context.replica_phases.pop(replica, None)

    def _stop(
        self, broker: int, replicas: Sequence[Replica], elected: Set[TopicPartition]
    ) -> Steps[None]:
        """Stops replicas on a broker and removes the broker from their ISRs."""
        context = self._context
        if broker in context.brokers:
            for replica in replicas:
                self._batch.stop(broker, replica.partition, delete=False)
        led = [one.partition for one in replicas if one.partition in context.leaderships]
        known = yield from self._remove_from_isrs(
            broker, [one for one in led if one not in elected]
        )
        for partition, leadership in known.items():
            if not context.is_queued_for_deletion(partition.topic):
                others = [one for one in context.replicas_of(partition) if one != broker]
                self._batch.lead(others, partition, leadership)
        # Different from Kafka: brokers that were sent the election do not get the same epoch again.
        for partition in elected & set(led):
            unsent = context.shutting_down.intersection(context.replicas_of(partition))
            if unsent - {broker}:
                self._batch.lead(unsent - {broker}, partition, context.leaderships[partition])
        for replica in replicas:
            self._enter(replica, ReplicaPhase.OFFLINE)
        unknown = [one.partition for one in replicas if one.partition not in context.leaderships]
        if unknown:
            self._batch.tell(context.brokers, unknown)

    def _remove_from_isrs(
        self, broker: int, partitions: Sequence[TopicPartition]
    ) -> Steps[dict[TopicPartition, Leadership]]:
        """Removes the broker from ISRs of more than one; returns the leaderships of all partitions.

        A state is only written if its node is unchanged. It is read again only if that fails, or if
        the broker is not in the known ISR: before 2.7 leaders changed ISRs themselves.
        """
        done: dict[TopicPartition, Leadership] = {}
        known = {
            one: leadership
            for one in partitions
            if broker in (leadership := self._context.leaderships[one]).state.isr
        }
        left = [one for one in partitions if one not in known]
        while known or left:
            known |= yield from self._store.states(left)
            ours = {
                one: leadership
                for one, leadership in known.items()
                if leadership.state.controller_epoch <= self._context.epoch
            }
            smaller = {
                one: Leadership(self._without(broker, one, leadership.state), leadership.version)
                for one, leadership in ours.items()
                if broker in leadership.state.isr
            }
            updates = yield from self._store.update_states(smaller)
            done |= {one: leadership for one, leadership in ours.items() if one not in smaller}
            done |= updates.written
            known, left = {}, updates.changed
        self._context.leaderships.update(done)
        return done

    def _without(
        self, broker: int, partition: TopicPartition, state: PartitionState
    ) -> PartitionState:
        """A broker that was the last in the ISR remains there, without leading."""
        later = self._context.next_state(partition, state)
        return replace(
            later,
            leader=NO_LEADER if later.leader == broker else later.leader,
            isr=tuple(one for one in later.isr if one != broker) or later.isr,
        )
