"""Topics that are being deleted. Kafka's counterpart: `TopicDeletionManager`.

All replicas of a topic are stopped, then deleted; when all brokers have confirmed it, the topic's
nodes are deleted. A broker that is down or a failed log directory makes the topic ineligible until
it is back.

Different from Kafka: deletion of a topic ends a reassignment of its partitions. Kafka waits for the
end of the reassignment, forever if a partition has no leader, because topics to be deleted elect
none.
"""

from collections.abc import Iterable, Sequence

from ottla.controller.context import ControllerContext, PartitionPhase, Replica, ReplicaPhase
from ottla.controller.operations import Steps
from ottla.controller.partitions import PartitionStateMachine
from ottla.controller.replicas import ReplicaStateMachine
from ottla.controller.requests import RequestBatch
from ottla.controller.store import Store
from ottla.zookeeper import paths


class TopicDeletion:
    def __init__(
        self,
        context: ControllerContext,
        store: Store,
        batch: RequestBatch,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._partitions = partitions
        self._replicas = replicas

    def enqueue(self, topics: Iterable[str]) -> Steps[None]:
        wanted = set(topics)
        self._context.to_delete |= wanted
        self._context.reassigning -= {x for x in self._context.reassigning if x.topic in wanted}
        yield from self.resume()

    def _mark_ineligible(self, topics: Iterable[str]) -> None:
        self._context.deletion_ineligible |= self._context.to_delete & set(topics)

    def resume_for(self, topics: Iterable[str]) -> Steps[None]:
        """Resumes the deletion of topics that are no longer blocked."""
        resumed = self._context.to_delete & set(topics)
        if resumed:
            self._context.deletion_ineligible -= resumed
            yield from self.resume()

    def resume(self) -> Steps[None]:
        """Continues the deletion of every topic that is not blocked."""
        context = self._context
        eligible = []
        for topic in sorted(context.to_delete):
            phases = {context.phase(one) for one in self._replicas_of(topic)}
            if phases <= {ReplicaPhase.DELETION_SUCCESSFUL}:
                yield from self._complete(topic)
                continue
            if topic in context.deletion_ineligible or ReplicaPhase.DELETION_STARTED in phases:
                continue
            if ReplicaPhase.DELETION_INELIGIBLE in phases:
                again = context.replicas_in(topic, ReplicaPhase.DELETION_INELIGIBLE)
                yield from self._replicas.move(again, ReplicaPhase.OFFLINE)
            eligible.append(topic)
        if eligible:
            yield from self._begin(eligible)

    def succeeded(self, replicas: Sequence[Replica]) -> Steps[None]:
        """Handles replicas that brokers have deleted."""
        queued = [one for one in replicas if one.partition.topic in self._context.to_delete]
        yield from self._replicas.move(queued, ReplicaPhase.DELETION_SUCCESSFUL)
        yield from self.resume()

    def failed(self, replicas: Sequence[Replica]) -> Steps[None]:
        """Handles replicas that brokers could not delete, or whose brokers are down."""
        queued = [one for one in replicas if one.partition.topic in self._context.to_delete]
        if queued:
            yield from self._replicas.move(queued, ReplicaPhase.DELETION_INELIGIBLE)
            self._mark_ineligible({one.partition.topic for one in queued})
            yield from self.resume()

    def _replicas_of(self, topic: str) -> list[Replica]:
        return self._context.replicas_for(self._context.partitions_of([topic]))

    def _begin(self, topics: Sequence[str]) -> Steps[None]:
        context = self._context
        unseen = [topic for topic in topics if topic not in context.deletion_started]
        if unseen:
            going = context.partitions_of(unseen)
            self._partitions.move(going, PartitionPhase.OFFLINE)
            self._partitions.move(going, PartitionPhase.NON_EXISTENT)
            context.deletion_started |= set(unseen)
        # Brokers now answer UNKNOWN_TOPIC_OR_PARTITION.
        self._batch.tell(context.brokers, context.partitions_of(topics))
        self._batch.send()
        replicas = context.replicas_for(context.partitions_of(topics))
        dead = [one for one in replicas if not context.is_online(one.broker, one.partition)]
        alive = [
            one
            for one in replicas
            if context.is_online(one.broker, one.partition)
            and context.phase(one) is not ReplicaPhase.DELETION_SUCCESSFUL
        ]
        yield from self._replicas.move(dead, ReplicaPhase.DELETION_INELIGIBLE)
        yield from self._replicas.move(alive, ReplicaPhase.OFFLINE)
        yield from self._replicas.move(alive, ReplicaPhase.DELETION_STARTED)
        self._mark_ineligible({one.partition.topic for one in dead})

    def _complete(self, topic: str) -> Steps[None]:
        """Deletes the topic's nodes; the request's node is last, so that a new controller can
        resume.
        """
        yield from self._store.delete(
            [
                paths.topic_path(topic),
                paths.config_path(f"topics/{topic}"),
                paths.delete_topic_path(topic),
            ]
        )
        self._context.remove_topic(topic)
