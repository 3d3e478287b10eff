"""A running member of a cluster over ZooKeeper: its place in a process, and its threads."""

from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.control.registered_access import RegisteredAccess
from ottla.broker.replicas.replicas import Replicas
from ottla.cluster.controller_channel import ControllerChannels
from ottla.cluster.controller_link import ControllerLink
from ottla.cluster.exchanges import Exchanges
from ottla.cluster.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    broker: Broker
    replicas: Replicas
    access: RegisteredAccess
    place: Place
    link: ControllerLink
    channels: ControllerChannels
    exchanges: Exchanges
