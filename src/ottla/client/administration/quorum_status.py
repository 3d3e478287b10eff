"""The status of a KRaft cluster's quorum: who leads, who votes, who only follows, and how far.

Kafka's counterpart: `kafka-metadata-quorum.sh describe` (KIP-595, KIP-836, KIP-919).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.base.addresses import Address, address_text
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, RefusalError, UnreachableError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import Transport
from ottla.client.connecting.connection import ADDRESS_HINT
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
NOBODY: Final = -1
QUIET_MS: Final = 10_000
"""A node of the quorum fetches every half second; after this time something is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer; times are of the leader's clock, `None` where it knows none.

    `directory_id` is `None` with `kraft.version` 0, and `address`, which is that of `listener`,
    where the leader does not tell.
    """

    node: int
    directory_id: Uuid | None
    is_voter: bool
    end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    address: Address | None
    listener: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """`lag` of a replica is in offsets behind the end of the leader's log. A quorum that nobody
    leads has leader -1 and no replicas.

    `election_reason` is why the leader has stood for election, by its own words; empty if it is
    one of Kafka's, which do not tell.
    """

    leader: int = NOBODY
    epoch: int = 0
    high_watermark: int = NOBODY
    replicas: tuple[QuorumReplica, ...] = ()
    election_reason: str = ""

    @property
    def is_led(self) -> bool:
        return self.leader != NOBODY

    @property
    def voters(self) -> tuple[QuorumReplica, ...]:
        return tuple(one for one in self.replicas if one.is_voter)

    @property
    def observers(self) -> tuple[QuorumReplica, ...]:
        return tuple(one for one in self.replicas if not one.is_voter)

    @property
    def now_ms(self) -> int | None:
        """The leader's clock when it answered, as far as can be told."""
        times = [
            time for one in self.replicas for time in (one.last_fetch_ms, one.last_caught_up_ms)
        ]
        return max((time for time in times if time is not None), default=None)

    def quiet_ms(self, one: QuorumReplica) -> int | None:
        """How long ago a replica fetched last; `None` for the leader, and if that is unknown."""
        if one.node == self.leader or one.last_fetch_ms is None or self.now_ms is None:
            return None
        return self.now_ms - one.last_fetch_ms

    def is_silent(self, one: QuorumReplica) -> bool:
        """Whether it does not fetch: not since the leader was elected, or not for `QUIET_MS`."""
        if one.node == self.leader:
            return False
        return one.end_offset < 0 or (self.quiet_ms(one) or 0) > QUIET_MS

    @property
    def silent(self) -> tuple[int, ...]:
        """Voters that do not fetch."""
        return tuple(one.node for one in self.voters if self.is_silent(one))


def quorum_status(addresses: Sequence[Address], transport: Transport) -> QuorumStatus:
    """Asks controllers, or brokers, until the leader answers; those that a controller names too.

    Raises `UnreachableError` if none of them answers, and `RefusalError` if no leader does.
    """
    silent: dict[Address, UnreachableError] = {}
    asked: set[Address] = set()
    left = list(addresses)
    while left:
        address = left.pop(0)
        asked.add(address)
        try:
            with transport.connect(address) as connection:
                found = described(connection)
                if found is not None:
                    return found
                left += [
                    one for one in controller_addresses(connection) if one not in (*asked, *left)
                ]
        except ApiError as error:
            what = f"{address_text(*address)}: {error.code.name}: {error.code.description}"
            raise RefusalError(what) from error
        except UnreachableError as error:
            silent[address] = error
    if len(silent) == len(asked):
        raise unreachable(silent.values())
    raise no_leader(asked - silent.keys(), silent)


def unreachable(failures: Iterable[UnreachableError]) -> UnreachableError:
    """Of those that were asked as controllers nobody answers."""
    said = dict.fromkeys(map(str, failures))
    bare = [one.removesuffix(ADDRESS_HINT) for one in said]
    hint = "" if bare == [*said] else "; name a controller's HOST:PORT"
    return UnreachableError(f"{', '.join(bare)}{hint}")


def no_leader(asked: Iterable[Address], silent: Iterable[Address] = ()) -> RefusalError:
    """`asked` have answered, and `silent` have not."""
    names = ", ".join(address_text(*one) for one in sorted(asked))
    unheard = ", ".join(address_text(*one) for one in sorted(silent))
    return RefusalError(
        f"no controller leads the quorum ({names}{unheard and f'; no answer from {unheard}'}): a "
        "majority of the voters must be up and reach each other"
    )


def described(connection: Any) -> QuorumStatus | None:
    """`None` from who does not know the leader, or is another than it. Raises `ApiError`."""
    topic = DescribedTopic(topic_name=METADATA_TOPIC, partitions=[DescribedPartition()])
    answer = connection.ask(DescribeQuorumRequest(topics=[topic]))
    errors = [answer.error_code]
    if not answer.error_code:
        ((partition,),) = ([*one.partitions] for one in answer.topics)
        errors.append(partition.error_code)
        if not partition.error_code:
            return _status(partition, answer.nodes)
    error = ErrorCode(errors[-1])
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER):
        return None
    raise ApiError(error)


def _status(partition: QuorumPartition, nodes: Sequence[Any]) -> QuorumStatus:
    places = {one.node_id: one.listeners[0] for one in nodes if one.listeners}
    end = max(one.log_end_offset for one in partition.current_voters)
    return QuorumStatus(
        leader=partition.leader_id,
        epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        election_reason=partition.election_reason,
        replicas=(
            *(_replica(one, end, places, is_voter=True) for one in partition.current_voters),
            *(_replica(one, end, places, is_voter=False) for one in partition.observers),
        ),
    )


def _replica(
    one: ReplicaState, end: int, places: dict[int, Any], *, is_voter: bool
) -> QuorumReplica:
    is_known = one.replica_directory_id != ZERO_UUID
    place = places.get(one.replica_id)
    return QuorumReplica(
        node=one.replica_id,
        directory_id=one.replica_directory_id if is_known else None,
        is_voter=is_voter,
        end_offset=one.log_end_offset,
        lag=max(end - max(one.log_end_offset, 0), 0),
        last_fetch_ms=_time(one.last_fetch_timestamp),
        last_caught_up_ms=_time(one.last_caught_up_timestamp),
        address=None if place is None else (place.host, place.port),
        listener="" if place is None else place.name,
    )


def _time(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms


def controller_addresses(connection: Any) -> list[Address]:
    """The other controllers that one names; brokers know none."""
    if not connection.answers(ApiKey.DESCRIBE_CLUSTER):
        return []
    answer = connection.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS))
    return [(one.host, one.port) for one in answer.brokers]
