"""Partitions that move to other brokers (KIP-455).

Kafka's counterparts: `KafkaController.onPartitionReassignment` and what it calls.
"""

from collections.abc import Iterable, Sequence

from ottla.base.partitions import TopicPartition
from ottla.controller.context import ControllerContext, PartitionPhase, Replica, ReplicaPhase
from ottla.controller.elections import Strategy
from ottla.controller.operations import Delete, Set, Steps
from ottla.controller.partitions import PartitionStateMachine
from ottla.controller.replicas import ReplicaStateMachine
from ottla.controller.requests import RequestBatch
from ottla.controller.store import Store
from ottla.zookeeper import paths
from ottla.zookeeper.notices import decode_reassignment, encode_reassignment
from ottla.zookeeper.topics import ReplicaAssignment


class Reassignments:
    """Reassignments of partitions. `has_alter_partition`: leaders change ISRs by request, so no
    watches are needed.
    """

    def __init__(
        self,
        context: ControllerContext,
        store: Store,
        batch: RequestBatch,
        machines: tuple[PartitionStateMachine, ReplicaStateMachine],
        *,
        has_alter_partition: bool,
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._partitions, self._replicas = machines
        self._has_alter_partition = has_alter_partition

    def start(self, partition: TopicPartition, wanted: ReplicaAssignment) -> Steps[None]:
        """Begins or continues a reassignment, or changes its target."""
        yield from self._adopt(partition, wanted)
        if (yield from self._is_complete(partition, wanted)):
            yield from self._finish(partition, wanted)
            return
        # Old and new replicas first learn of each other, then the new ones begin to follow.
        yield from self.raise_epoch(partition)
        adding = [Replica(partition, broker) for broker in wanted.adding]
        yield from self._replicas.move(adding, ReplicaPhase.NEW)

    def advance(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Completes reassignments whose target replicas are all in the ISR."""
        for partition in partitions:
            if partition in self._context.reassigning:
                wanted = self._context.assignment(partition)
                if (yield from self._is_complete(partition, wanted)):
                    yield from self._finish(partition, wanted)

    def _adopt(self, partition: TopicPartition, wanted: ReplicaAssignment) -> Steps[None]:
        known = self._context.assignment(partition)
        if known != wanted:
            self._context.assign(partition, wanted)
            yield from self._store.write_topic(partition.topic)
            unneeded = [one for one in known.replicas if one not in wanted.replicas]
            yield from self._replace_leader(partition, unneeded)
            yield from self._remove(partition, unneeded)
        if not self._has_alter_partition:
            yield from self._store.states([partition], watch=True)
        self._context.reassigning.add(partition)

    def finish_removals(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Removes replicas that lead or are in sync, but are assigned no longer.

        The previous controller failed after it had written the assignment; the leader may let them
        in later (before 2.7-IV2). Kafka's next controller leaves them: followers and requests of
        such a leader are refused by their epochs.
        """
        context = self._context
        for partition in partitions:
            state, assigned = context.leaderships[partition].state, context.replicas_of(partition)
            left = [one for one in state.isr if one not in assigned]
            if left and set(state.isr) & set(assigned):
                removed = (Replica(partition, broker) for broker in left)
                context.replica_phases.update(dict.fromkeys(removed, ReplicaPhase.ONLINE))
                yield from self._replace_leader(partition, left)
                yield from self._remove(partition, left)

    def _replace_leader(self, partition: TopicPartition, unneeded: list[int]) -> Steps[None]:
        """Elects another leader if it was removed. Kafka leaves the partition without a leader."""
        leadership = self._context.leaderships.get(partition)
        if leadership is not None and leadership.state.leader in unneeded:
            elected = yield from self._partitions.make_online([partition], Strategy.OFFLINE)
            if not elected:
                self._partitions.move([partition], PartitionPhase.OFFLINE)

    def _is_complete(self, partition: TopicPartition, wanted: ReplicaAssignment) -> Steps[bool]:
        if not wanted.is_reassigning:
            return True
        known = (yield from self._store.states([partition])).get(partition)
        return known is not None and set(wanted.target) <= set(known.state.isr)

    def _finish(self, partition: TopicPartition, wanted: ReplicaAssignment) -> Steps[None]:
        context = self._context
        added = [Replica(partition, broker) for broker in wanted.adding]
        yield from self._replicas.move(added, ReplicaPhase.ONLINE)
        final = ReplicaAssignment(wanted.target)
        context.assign(partition, final)
        yield from self._leave_to(partition, final)
        if wanted.removing and not self._is_led_by(final.replicas, partition):
            # The ISR shrank meanwhile: only replicas that would be removed have all records. Kafka
            # removes them, and loses what was acknowledged.
            context.assign(partition, wanted)
            return
        yield from self._remove(partition, wanted.removing)
        context.assign(partition, final)
        yield from self._store.write_topic(partition.topic)
        yield from self.forget([partition])
        self._batch.tell(context.brokers, [partition])
        self._batch.send()

    def _leave_to(self, partition: TopicPartition, final: ReplicaAssignment) -> Steps[None]:
        """Keeps the leader, with a new epoch, if it is in the final assignment; else elects one."""
        leadership = self._context.leaderships.get(partition)
        leader = -1 if leadership is None else leadership.state.leader
        if leader in final.replicas and self._context.is_online(leader, partition):
            yield from self.raise_epoch(partition)
        else:
            yield from self._partitions.make_online([partition], Strategy.REASSIGNMENT)

    def _is_led_by(self, brokers: Sequence[int], partition: TopicPartition) -> bool:
        leadership = self._context.leaderships.get(partition)
        return leadership is not None and leadership.state.leader in brokers

    def raise_epoch(self, partition: TopicPartition) -> Steps[None]:
        """Announces the assignment with a new leader epoch, without which brokers ignore it."""
        leadership = yield from self._partitions.raise_epoch(partition)
        if leadership is not None:
            self._batch.lead(self._context.replicas_of(partition), partition, leadership)
            self._batch.send()

    def _remove(self, partition: TopicPartition, brokers: Iterable[int]) -> Steps[None]:
        removed = [Replica(partition, broker) for broker in brokers]
        for phase in (
            ReplicaPhase.OFFLINE,
            ReplicaPhase.DELETION_STARTED,
            ReplicaPhase.DELETION_SUCCESSFUL,
            ReplicaPhase.NON_EXISTENT,
        ):
            yield from self._replicas.move(removed, phase)

    def forget(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Removes partitions from the reassignments, and from the node that requested them."""
        gone = set(partitions)
        self._context.reassigning -= gone
        result = yield from self._store.get(paths.REASSIGN_PARTITIONS)
        if not result.is_done:
            return
        asked = decode_reassignment(result.content)
        left = {one: replicas for one, replicas in asked.items() if one not in gone}
        if not left:
            yield from self._store.write([Delete(paths.REASSIGN_PARTITIONS)])
        elif len(left) < len(asked):
            content = encode_reassignment(left)
            yield from self._store.write([Set(paths.REASSIGN_PARTITIONS, content, result.version)])
