"""The one place that asks whether a broker is alone: it has then no membership of a cluster."""

from typing import TYPE_CHECKING, Protocol

from ottla.broker.membership.by_itself import NoMembership
from ottla.broker.replicas.only_replicas import OnlyReplicas
from ottla.broker.startup.opening import BrokerOptions
from ottla.metadata.image import METADATA_VERSION
from ottla.metadata.levels import SUPPORTED

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


def controller_for(broker: "Whole") -> "Controller":
    membership, replicas = broker.membership, broker.replicas
    if isinstance(membership, NoMembership) or isinstance(replicas, OnlyReplicas):
        from ottla.broker.control.alone import AloneController

        return AloneController(broker)
    from ottla.broker.membership.membership import QuorumMembership

    if isinstance(membership, QuorumMembership):
        from ottla.broker.control.quorum import QuorumController

        return QuorumController(
            membership, replicas, broker.topics, broker.image_store, broker.settings
        )
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
    from ottla.broker.control.image_view import ImageView

    quorum = broker.options.quorum
    if quorum is not None:
        from ottla.broker.control.quorum_view import QuorumView

        return QuorumView(broker, SUPPORTED, quorum)
    image = broker.image_store.image
    features = SUPPORTED if METADATA_VERSION in image.features else {}
    return ImageView(broker, features, has_peers=image.has_peers)
