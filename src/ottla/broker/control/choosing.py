"""The one place that asks whether a broker is alone: it has then no membership of a cluster."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.membership.by_itself import NoMembership
from ottla.broker.replicas.only_replicas import OnlyReplicas
from ottla.broker.startup.opening import BrokerOptions
from ottla.metadata.image import METADATA_VERSION

if TYPE_CHECKING:
    from ottla.broker.control.alone import TopicBroker
    from ottla.broker.control.controller import Controller
    from ottla.broker.control.image_view import ViewingBroker
    from ottla.broker.membership.membership import AnyMembership
    from ottla.broker.replicas.replicas import Replicas
    from ottla.metadata.cluster_view import ClusterView

    class Whole(TopicBroker, ViewingBroker, Protocol):
        """A broker with all its parts."""

        membership: AnyMembership | NoMembership
        replicas: Replicas | OnlyReplicas
        options: BrokerOptions


FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (1, 25),
    "share.version": (0, 1),
    "transaction.version": (0, 2),
}
"""Level 25 of `metadata.version` is 4.0-IV3: Kafka finalizes these levels of `group.version` and
`transaction.version` from 4.0 on. In Kafka level 1 of `share.version` needs level 28; clients do
not compare the two. `ottla handover` writes level 21, 3.9-IV0, and neither of them.
A cluster over ZooKeeper has no features of KRaft's: its brokers may be Kafka's.
"""


def controller_for(broker: "Whole") -> "Controller":
    membership, replicas = broker.membership, broker.replicas
    if isinstance(membership, NoMembership) or isinstance(replicas, OnlyReplicas):
        from ottla.broker.control.alone import AloneController

        return AloneController(broker)
    from ottla.broker.control.zookeeper import ZooKeeperController
    from ottla.broker.membership.membership import QuorumMembership

    assert not isinstance(membership, QuorumMembership)
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
    from ottla.broker.control.image_view import ImageView

    image = broker.image_store.image
    features = FEATURES if METADATA_VERSION in image.features else {}
    return ImageView(broker, features, has_peers=image.has_peers)
