"""Whether the node that is to be made a voter is where its voters will look for it."""

from collections.abc import Iterator, Mapping
from typing import Any

from ottla.base.addresses import Address, address_text
from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.client.administration.quorum_status import (
    CONTROLLERS,
    QuorumStatus,
    leader_or_words,
    quick_transport,
)
from ottla.client.connecting.cluster import ClientSettings
from ottla.client.connecting.connection import Connection
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest


def check_place(
    node: int, place: Address, status: QuorumStatus, cluster_id: str, settings: ClientSettings
) -> None:
    """Raises `UserError` if another node than `node` answers there, a broker's listener, or a node
    of another cluster.

    It may be that a node cannot be reached from here, or asked, though it can be by the other
    controllers: the leader asks it too before it becomes a voter.
    """
    for problem in _problems(node, place, status, cluster_id, settings):
        raise UserError(
            f"{address_text(*place)}: {problem}: name the address of node {node}'s own listener "
            "for controllers (listeners, and controller.listener.names, in its settings)"
        )


def _problems(
    node: int, place: Address, status: QuorumStatus, cluster_id: str, settings: ClientSettings
) -> Iterator[str]:
    for one in status.voters:
        if one.address == place and one.node != node:
            yield f"the voter {one.node} listens there, not node {node}"
    try:
        with quick_transport(settings).connect(place) as connection:
            yield from _problems_of(node, place, cluster_id, connection)
    except (ApiError, UnreachableError):
        return


def _problems_of(
    node: int, place: Address, cluster_id: str, connection: Connection
) -> Iterator[str]:
    if not connection.answers(ApiKey.FETCH_SNAPSHOT):
        yield "a broker's listener answers there, not one for controllers"
    told: Any = None
    if connection.answers(ApiKey.DESCRIBE_CLUSTER):
        told = connection.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS))
        if told.cluster_id not in ("", cluster_id):
            yield f"a node of the cluster {told.cluster_id} answers there, not of {cluster_id}"
    found = _node_at(place, connection, {} if told is None else _registered(told))
    if found is not None and found != node:
        yield f"node {found} answers there, not node {node}"


def _registered(told: Any) -> dict[Address, int]:
    return {(one.host, one.port): one.broker_id for one in told.brokers}


def _node_at(
    place: Address, connection: Connection, registered: Mapping[Address, int]
) -> int | None:
    """By its own words, or where it is one of Kafka's, by what it has registered with."""
    answer = leader_or_words(connection)
    own = answer.leader if isinstance(answer, QuorumStatus) else answer.node
    return registered.get(place) if own is None else own
