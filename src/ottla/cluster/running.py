"""A running member of a cluster: its place in a process, and its threads."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.control.registered_access import RegisteredAccess
from ottla.broker.replicas.replicas import Replicas
from ottla.cluster.controller_channel import ControllerChannels
from ottla.cluster.controller_link import ControllerLink
from ottla.cluster.dead_letter_channels import DeadLetterChannels
from ottla.cluster.end_offset_channels import EndOffsetChannels
from ottla.cluster.fetchers import Fetchers
from ottla.cluster.marker_channels import MarkerChannels
from ottla.cluster.metadata_channels import MetadataChannels
from ottla.cluster.peers import Connect
from ottla.cluster.share_state_channels import ShareStateChannels
from ottla.metadata.brokers import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a broker runs: its lock, its server, and its connections to other brokers.

    `listener` and `connect` are for requests between brokers, `control_listener` and
    `control_connect` for requests of the controller.
    """

    lock: AbstractContextManager[object]
    wake: Callable[[], None]
    connect: Connect
    listener: str
    control_connect: Connect
    control_listener: str
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    broker: Broker
    replicas: Replicas
    access: RegisteredAccess
    place: Place
    link: ControllerLink
    fetchers: Fetchers
    channels: ControllerChannels
    markers: MarkerChannels
    share_states: ShareStateChannels
    dead_letters: DeadLetterChannels
    ends: EndOffsetChannels
    metadata: MetadataChannels | None
    """`None` without a remote tier."""
