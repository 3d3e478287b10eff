"""Names the current leaders to a client that asked the wrong broker (KIP-951). The client connects
to them without a Metadata request. Kafka's counterpart: `KafkaApis.getCurrentLeader`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.server.cluster.applying import replicas_of
from ottla.server.request_context import RequestContext

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
    leader: Callable[..., Any],
    node: Callable[..., Any],
    context: RequestContext,
) -> list[Any]:
    """Adds leaders to errors; returns the nodes that the client's listener can reach.

    `leader` and `node` are the structs of the response.
    """
    manager = replicas_of(context).manager
    metadata, listener = manager.metadata, context.client.listener
    leaders = set()
    for topic, topic_id, partition, refused in moved:
        place = TopicPartition(topic or metadata.topic_names.get(topic_id, ""), partition)
        broker, epoch = manager.leader_of(place)
        refused.current_leader = leader(leader_id=broker, leader_epoch=epoch)
        leaders.add(broker)
    return [
        node(node_id=one, host=at.host, port=at.port, rack=metadata.brokers[one].rack)
        for one in sorted(leaders)
        if (at := metadata.endpoint(one, listener)) is not None
    ]
