"""Who is asked by nodes of a cluster."""

from typing import cast

from ottla.broker.control.controller import ClusterController
from ottla.broker.control.quorum import QuorumController
from ottla.server.dispatching.request_context import RequestContext


def cluster_controller_of(context: RequestContext) -> ClusterController:
    """The controller of a broker that has peers: only such a broker answers these requests."""
    return cast(ClusterController, context.broker.controller)


def quorum_controller_of(context: RequestContext) -> QuorumController:
    controller = context.broker.controller
    assert isinstance(controller, QuorumController), "only nodes of a quorum answer this"
    return controller
