"""The parts of the controller, constructed with what they need."""

from dataclasses import field

from ottla.base.values import dataclass
from ottla.config.inter_broker_version import LATEST, InterBrokerVersion
from ottla.controller.context import ControllerContext
from ottla.controller.deletion import TopicDeletion
from ottla.controller.partitions import PartitionStateMachine
from ottla.controller.reassignment import Reassignments
from ottla.controller.replicas import ReplicaStateMachine
from ottla.controller.requests import Outgoing, RequestBatch
from ottla.controller.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Settings of the controller, from those of its broker."""

    broker_id: int
    version: InterBrokerVersion = LATEST
    is_unclean: bool = False
    """unclean.leader.election.enable, for topics without the setting."""
    deletes_topics: bool = True
    """delete.topic.enable"""
    imbalance_percentage: int = 10
    """leader.imbalance.per.broker.percentage"""


@dataclass(slots=True)
class Parts:
    """`outgoing` are the requests to send, in order."""

    options: ControllerOptions
    context: ControllerContext = field(default_factory=ControllerContext)
    outgoing: list[Outgoing] = field(default_factory=list)
    store: Store = field(init=False)
    batch: RequestBatch = field(init=False)
    partitions: PartitionStateMachine = field(init=False)
    replicas: ReplicaStateMachine = field(init=False)
    deletion: TopicDeletion = field(init=False)
    reassignments: Reassignments = field(init=False)

    def __post_init__(self) -> None:
        context, version = self.context, self.options.version
        self.store = store = Store(context)
        self.batch = batch = RequestBatch(context, self.outgoing)
        self.partitions = PartitionStateMachine(
            context,
            store,
            batch,
            is_unclean=self.options.is_unclean,
            has_recovery=version.has_leader_recovery,
        )
        self.replicas = ReplicaStateMachine(context, store, batch)
        self.deletion = TopicDeletion(context, store, batch, self.partitions, self.replicas)
        self.reassignments = Reassignments(
            context,
            store,
            batch,
            (self.partitions, self.replicas),
            has_alter_partition=version.has_alter_partition,
        )
