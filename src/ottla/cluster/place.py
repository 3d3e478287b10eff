"""Where a member of a cluster runs in its process."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from ottla.base.values import dataclass
from ottla.cluster.peers import Connect
from ottla.metadata.brokers import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a broker runs: its lock, its server, and its connections to other brokers.

    `listener` and `connect` are for requests between brokers, `control_listener` and
    `control_connect` for requests of the controller, or in a KRaft cluster to controllers, whose
    listeners on this node are `controller_endpoints`. The latter has others where something else is
    needed: `quick_connect` for what must not wait long for an unreachable controller, such as
    heartbeats; `quorum_connect` for the quorum's own requests; and `forward_connect` for those of
    clients, whose responses stay valid.
    """

    lock: AbstractContextManager[object]
    wake: Callable[[], None]
    connect: Connect
    listener: str
    control_connect: Connect
    control_listener: str
    endpoints: tuple[Endpoint, ...]
    controller_endpoints: tuple[Endpoint, ...] = ()
    quick_connect: Connect | None = None
    quorum_connect: Connect | None = None
    forward_connect: Connect | None = None
