"""The one place that asks whether a broker is alone: it has then no membership of a cluster."""

from typing import TYPE_CHECKING, Protocol

from ottla.broker.by_itself import NoMembership
from ottla.broker.only_replicas import OnlyReplicas
from ottla.broker.startup.opening import BrokerOptions
from ottla.broker.topics.topic_rules import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from ottla.broker.control.alone import TopicBroker
    from ottla.broker.control.controller import Controller
    from ottla.broker.membership import Membership
    from ottla.broker.replicas import Replicas
    from ottla.broker.transactions.coordinator import TransactionCoordinator
    from ottla.metadata.cluster_view import ClusterView

    class Whole(TopicBroker, Protocol):
        """A broker with all its parts."""

        membership: Membership | NoMembership
        replicas: Replicas | OnlyReplicas
        options: BrokerOptions

        @property
        def transactions(self) -> TransactionCoordinator: ...


def controller_for(broker: "Whole") -> "Controller":
    membership, replicas = broker.membership, broker.replicas
    if isinstance(membership, NoMembership) or isinstance(replicas, OnlyReplicas):
        from ottla.broker.control.alone import AloneController

        return AloneController(broker)
    from ottla.broker.control.zookeeper import ZooKeeperController

    return ZooKeeperController(
        node_id=broker.node_id,
        membership=membership,
        replicas=replicas,
        topics=broker.topics,
        security=broker.security,
        settings=broker.settings,
        new_id=broker.options.new_id,
    )


def view_for(broker: "Whole") -> "ClusterView":
    if not isinstance(broker.replicas, OnlyReplicas):
        from ottla.broker.control.view_of_many import ViewOfMany

        return ViewOfMany(broker.replicas.manager)
    from ottla.broker.control.view_of_one import ViewOfOne

    def is_available(topic: str, key: str) -> bool:
        """Whether the partition of an internal topic is online and was read."""
        is_of_groups = topic == CONSUMER_OFFSETS
        return (broker.groups if is_of_groups else broker.transactions).is_available(key)

    return ViewOfOne(broker.node_id, broker.topics, is_available)
