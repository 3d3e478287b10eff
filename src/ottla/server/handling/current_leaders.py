"""Names the current leaders to a client that asked the wrong broker (KIP-951). The client connects
to them without a Metadata request. Kafka's counterpart: `KafkaApis.getCurrentLeader`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.server.dispatching.request_context import RequestContext

MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Refused(Protocol):
    """One of a response's partitions."""

    current_leader: Any


class Moved(NamedTuple):
    """A partition that the client finds elsewhere; the topic's name is empty if the request has
    its id.
    """

    topic: str
    topic_id: Uuid
    partition: int
    refused: Refused


def name_leaders(
    moved: Sequence[Moved],
    leader_struct: Callable[..., Any],
    node_struct: Callable[..., Any],
    context: RequestContext,
) -> list[Any]:
    """Adds leaders to errors; returns the nodes that the client's listener can reach.

    `leader_struct` and `node_struct` are those of the response.
    """
    broker = context.broker
    leaders = set()
    for topic, topic_id, partition, refused in moved:
        name = topic or broker.catalog.name_by_id(topic_id) or ""
        leader, epoch = broker.view.leader_of(TopicPartition(name, partition))
        refused.current_leader = leader_struct(leader_id=leader, leader_epoch=epoch)
        leaders.add(leader)
    return [
        node_struct(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
        for one in broker.view.nodes(context.client.reach)
        if one.id in leaders
    ]
