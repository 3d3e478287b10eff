"""What the messages between nodes of a quorum have in common, as values of its machine and back.

The inverse is `cluster/quorum/quorum_messages.py`. Kafka's counterpart: `RaftUtil`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CLUSTER_METADATA, CLUSTER_METADATA_ID
from ottla.broker.membership.membership import QuorumMembership
from ottla.codec.schema import Message
from ottla.quorum.messages import EpochAnswer, Known, Request, VoteAnswer
from ottla.quorum.voters import Endpoint
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext

NOBODY = -1


def answered_by_quorum(
    request: Request | None,
    context: RequestContext,
    respond: Callable[[Any], Message],
    invalid: Callable[[], Message],
) -> Message | PendingAnswer:
    """The machine's answer to a request; `None` is one that is not about the metadata log."""
    if request is None:
        return invalid()
    return PendingAnswer(machine_of(context).receive(request), respond)


def machine_of(context: RequestContext) -> "QuorumMembership[Any]":
    """Where the quorum's machine is asked."""
    membership = context.broker.membership
    assert isinstance(membership, QuorumMembership), "only nodes of a quorum answer this"
    return membership


def only_partition(topics: Sequence[Any]) -> Any | None:
    """The partition of a request that names the metadata log and nothing else."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    (topic,), (partition,) = topics, topics[0].partitions
    name = _first(topic, "topic_name", "name", "topic")
    is_metadata = name == CLUSTER_METADATA or (
        not name and getattr(topic, "topic_id", None) == CLUSTER_METADATA_ID
    )
    index = _first(partition, "partition_index", "partition")
    return partition if is_metadata and index == 0 else None


def _first(message: Any, *names: str) -> Any:
    """Kafka calls the same field differently in different messages."""
    return next(getattr(message, name) for name in names if hasattr(message, name))


def endpoints_of(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(one.name, one.host, one.port) for one in listeners)


def leader_id_of(known: Known) -> int:
    return NOBODY if known.leader_id is None else known.leader_id


def node_endpoints(kind: Callable[..., Any], known: Known) -> list[Any]:
    """Where the leader is, if that is known."""
    endpoint = known.endpoint
    if known.leader_id is None or endpoint is None:
        return []
    return [kind(node_id=known.leader_id, host=endpoint.host, port=endpoint.port)]


class ResponseKinds(NamedTuple):
    """The classes of a response that tells a node's epoch and leader."""

    response: Callable[..., Message]
    topic: Callable[..., Any]
    partition: Callable[..., Any]
    endpoint: Callable[..., Any]


def epoch_response(
    answer: EpochAnswer | VoteAnswer, kinds: ResponseKinds, **more: object
) -> Message:
    """`more` are the fields of the partition beside error, leader and epoch."""
    if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return kinds.response(error_code=answer.error)
    partition = kinds.partition(
        error_code=answer.error,
        leader_id=leader_id_of(answer.known),
        leader_epoch=answer.known.epoch,
        **more,
    )
    return kinds.response(
        topics=[kinds.topic(topic_name=CLUSTER_METADATA, partitions=[partition])],
        node_endpoints=node_endpoints(kinds.endpoint, answer.known),
    )


def message_of(error: ErrorCode, message: str | None) -> str:
    """Kafka says something also where there is no error."""
    if message is not None:
        return message
    return error.description or error.name
