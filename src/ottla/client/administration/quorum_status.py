"""The status of a KRaft cluster's quorum: who leads, who votes, who only follows, and how far.

Kafka's counterpart: `kafka-metadata-quorum.sh describe` (KIP-595, KIP-836, KIP-919).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.base.addresses import Address, address_text
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import RefusalError, UnreachableError, UserError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import Transport
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumRequest,
    QuorumPartition,
    ReplicaState,
)

METADATA_TOPIC: Final = "__cluster_metadata"
CONTROLLERS: Final = 2
"""DescribeCluster's `endpoint_type`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer; times are of the leader's clock, `None` where it knows none.

    `directory_id` is `None` with `kraft.version` 0, and `address` where the leader does not tell.
    """

    node: int
    directory_id: Uuid | None
    is_voter: bool
    end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    address: Address | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """`lag` of a replica is in offsets behind the end of the leader's log."""

    leader: int
    epoch: int
    high_watermark: int
    replicas: tuple[QuorumReplica, ...]

    @property
    def voters(self) -> tuple[QuorumReplica, ...]:
        return tuple(one for one in self.replicas if one.is_voter)

    @property
    def silent(self) -> tuple[int, ...]:
        """Voters that have not fetched since the leader was elected."""
        return tuple(
            one.node for one in self.voters if one.node != self.leader and one.end_offset < 0
        )


def quorum_status(addresses: Sequence[Address], transport: Transport) -> QuorumStatus:
    """Asks controllers, or brokers, until the leader answers; those that a controller names too.

    Raises `UnreachableError` if none of them answers, and `RefusalError` if no leader does.
    """
    asked: set[Address] = set()
    left = list(addresses)
    failure: UserError | None = None
    while left:
        address = left.pop(0)
        asked.add(address)
        try:
            with transport.connect(address) as connection:
                found = _described(connection)
                if found is not None:
                    return found
                left += [
                    one for one in controller_addresses(connection) if one not in (*asked, *left)
                ]
        except UnreachableError as error:
            failure = failure or error
    if failure is not None and len(asked) == len(addresses):
        raise failure
    raise no_leader(asked)


def no_leader(asked: Iterable[Address]) -> RefusalError:
    names = ", ".join(address_text(*one) for one in sorted(asked))
    return RefusalError(
        f"no controller leads the quorum ({names}): a majority of the voters must be up and reach "
        "each other"
    )


def _described(connection: Any) -> QuorumStatus | None:
    topic = DescribedTopic(topic_name=METADATA_TOPIC, partitions=[DescribedPartition()])
    answer = connection.ask(DescribeQuorumRequest(topics=[topic]))
    errors = [answer.error_code]
    if not answer.error_code:
        ((partition,),) = ([*one.partitions] for one in answer.topics)
        errors.append(partition.error_code)
        if not partition.error_code:
            return _status(partition, answer.nodes)
    error = ErrorCode(errors[-1])
    if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
        raise RefusalError(f"{connection.address}: {error.name}: {error.description}")
    return None


def _status(partition: QuorumPartition, nodes: Sequence[Any]) -> QuorumStatus:
    places = {
        one.node_id: (one.listeners[0].host, one.listeners[0].port)
        for one in nodes
        if one.listeners
    }
    end = max(one.log_end_offset for one in partition.current_voters)
    return QuorumStatus(
        leader=partition.leader_id,
        epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        replicas=(
            *(_replica(one, end, places, is_voter=True) for one in partition.current_voters),
            *(_replica(one, end, places, is_voter=False) for one in partition.observers),
        ),
    )


def _replica(
    one: ReplicaState, end: int, places: dict[int, Address], *, is_voter: bool
) -> QuorumReplica:
    is_known = one.replica_directory_id != ZERO_UUID
    return QuorumReplica(
        node=one.replica_id,
        directory_id=one.replica_directory_id if is_known else None,
        is_voter=is_voter,
        end_offset=one.log_end_offset,
        lag=max(end - max(one.log_end_offset, 0), 0),
        last_fetch_ms=_time(one.last_fetch_timestamp),
        last_caught_up_ms=_time(one.last_caught_up_timestamp),
        address=places.get(one.replica_id),
    )


def _time(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms


def controller_addresses(connection: Any) -> list[Address]:
    """The other controllers that one names; brokers know none."""
    if not connection.answers(ApiKey.DESCRIBE_CLUSTER):
        return []
    answer = connection.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS))
    return [(one.host, one.port) for one in answer.brokers]
