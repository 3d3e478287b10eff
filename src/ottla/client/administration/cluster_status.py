"""The status of a cluster: brokers, leaders, in-sync replicas, lags, and the resulting problems."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ottla.base.addresses import address_text
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnreachableError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import some_text
from ottla.base.values import dataclass
from ottla.client.administration.admin import Admin
from ottla.client.administration.descriptions import PartitionDescription, TopicDescription
from ottla.client.administration.log_directories import ClusterDescription
from ottla.client.administration.quorum_complaints import complaints_of_quorum
from ottla.client.administration.quorum_status import QuorumStatus
from ottla.client.administration.replicas import Reassignment
from ottla.client.refusals import RefusedError
from ottla.diagnosis.complaints import Complaint, Remedy

NO_LEADER: Final = -1
MIN_ISR: Final = "min.insync.replicas"
NAMED: Final = 3
"""How many partitions of a problem are listed."""

SILENT_CONTROLLER: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""The errors without a controller that answers."""

IMBALANCE: Final = 0.10
"""Kafka's default of leader.imbalance.per.broker.percentage: if a broker does not lead more than
this share of its preferred partitions, an election is worthwhile.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """`ends` has the log end offset of each replica, if its broker answers."""

    place: TopicPartition
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    min_in_sync: int
    ends: Mapping[int, int]
    reassignment: Reassignment | None = None
    offline: tuple[int, ...] = ()
    """The replicas whose broker or directory is offline."""
    eligible: tuple[int, ...] = ()
    """Those of a partition without enough in-sync replicas that may lead too (ELR)."""
    unread: tuple[int, ...] = ()
    """Those that brokers that answer cannot read, although no disk has failed."""

    @property
    def is_offline(self) -> bool:
        return self.leader == NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        """Whether fewer replicas are in sync than wanted.

        Replicas being added count once the partition has them, as in Kafka (KIP-455).
        """
        adding = () if self.reassignment is None else self.reassignment.adding
        return len(self.in_sync) < len(self.replicas) - len(adding)

    @property
    def is_below_min_in_sync(self) -> bool:
        return len(self.in_sync) < self.min_in_sync

    @property
    def wanted_replicas(self) -> tuple[int, ...]:
        """The replicas that the partition will have when its move is done."""
        leaving = () if self.reassignment is None else self.reassignment.removing
        return tuple(one for one in self.replicas if one not in leaving)

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    def lag(self, broker: int) -> int | None:
        """The lag of a replica in offsets; `None` if an end offset is unknown."""
        leader_end, own_end = self.ends.get(self.leader), self.ends.get(broker)
        if leader_end is None or own_end is None:
            return None
        return max(0, leader_end - own_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """A broker that is up, or one that is not up but has replicas: it has no address then."""

    broker: int
    address: tuple[str, int] | None
    replica_count: int
    leader_count: int
    preferred_count: int
    """How many partitions it should lead."""
    largest_lag: int | None
    rack: str = ""
    is_fenced: bool = False
    """Whether it is registered in a KRaft cluster and not up: its session has ended, or it has not
    caught up yet.
    """
    is_silent: bool = False
    """Whether it is said to be up, and does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """Without a controller it is the last state that brokers know, and moves are unknown.

    `quorum` is that of a KRaft cluster, whose `controller` is the node that leads the quorum.
    """

    cluster_id: str
    controller: int
    brokers: tuple[BrokerStatus, ...]
    partitions: tuple[PartitionStatus, ...]
    has_controller: bool = True
    quorum: QuorumStatus | None = None

    @property
    def live(self) -> list[int]:
        """The brokers that are up."""
        return [one.broker for one in self.brokers if one.address is not None]

    @property
    def is_sound(self) -> bool:
        return (
            self.has_controller
            and not (self.quorum is not None and self.quorum.silent)
            and all(one.address is not None and not one.is_silent for one in self.brokers)
            and not any(one.is_offline or one.is_under_replicated for one in self.partitions)
        )


def cluster_status(
    admin: Admin,
    topics: Sequence[str] | None = None,
    *,
    needs_controller: bool = True,
    is_brief: bool = False,
) -> ClusterStatus:
    """The current status as reported by the brokers, of some topics or of all.

    A brief one has log end offsets and `min_in_sync` only of topics in which a partition is being
    moved, or lacks a leader or a replica: brokers need long to tell them of thousands of topics.

    Raises `UserError`.
    """
    cluster = admin.describe_cluster()
    described = admin.describe_topics(topics, internal=True)
    quorum = _quorum(admin)
    moves: dict[TopicPartition, Reassignment] = {}
    # Without a leader nobody would answer.
    has_controller = quorum is None or quorum.is_led
    if has_controller or needs_controller:
        moves, has_controller = _moves(admin, needs_controller=needs_controller)
    detailed = [one.name for one in described if not is_brief or _is_unusual(one, moves)]
    settings = admin.topics_settings(detailed)
    found = {
        TopicPartition(topic.name, one.partition): one
        for topic in described
        for one in topic.partitions
    }
    names = set(detailed)
    of_detailed = {place: one for place, one in found.items() if place.topic in names}
    ends, silent = _ends(admin, cluster.brokers, of_detailed)
    eligible = _eligible(admin, described)
    partitions = tuple(
        PartitionStatus(
            place=place,
            leader=one.leader if one.leader in cluster.brokers else NO_LEADER,
            leader_epoch=one.leader_epoch,
            replicas=one.replicas,
            in_sync=one.in_sync,
            min_in_sync=int(settings.get(place.topic, {}).get(MIN_ISR) or 1),
            ends={
                broker: its[place]
                for broker in one.replicas
                if place in (its := ends.get(broker, {}))
            },
            unread=tuple(
                broker
                for broker in one.replicas
                if place.topic in names
                and broker in ends
                # One that is offline though its directory is not is damaged.
                and (place in ends[broker]) == (broker in one.offline)
            ),
            reassignment=moves.get(place),
            offline=one.offline,
            eligible=eligible.get(place, ()),
        )
        for place, one in sorted(found.items())
    )
    return ClusterStatus(
        cluster_id=cluster.cluster_id,
        controller=cluster.controller_id if quorum is None else quorum.leader,
        brokers=_brokers(cluster, partitions, silent),
        partitions=partitions,
        has_controller=has_controller,
        quorum=quorum,
    )


def _quorum(admin: Admin) -> QuorumStatus | None:
    """A user may lack the right to see it."""
    try:
        return admin.describe_quorum()
    except RefusedError as error:
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return None


def _eligible(
    admin: Admin, topics: Iterable[TopicDescription]
) -> Mapping[TopicPartition, tuple[int, ...]]:
    lacking = [
        topic.name
        for topic in topics
        if any(len(one.in_sync) < len(one.replicas) for one in topic.partitions)
    ]
    return admin.eligible_leader_replicas(lacking) if lacking else {}


def _is_unusual(topic: TopicDescription, moves: Container[TopicPartition]) -> bool:
    return any(
        one.leader == NO_LEADER
        or len(one.in_sync) < len(one.replicas)
        or TopicPartition(topic.name, one.partition) in moves
        for one in topic.partitions
    )


def _moves(
    admin: Admin, *, needs_controller: bool
) -> tuple[dict[TopicPartition, Reassignment], bool]:
    """The moves under way, and whether a controller reports them."""
    try:
        return admin.list_partition_reassignments(), True
    except RefusedError as error:
        if needs_controller or error.code not in SILENT_CONTROLLER:
            raise
        return {}, False


def _ends(
    admin: Admin,
    brokers: Mapping[int, tuple[str, int]],
    partitions: Mapping[TopicPartition, PartitionDescription],
) -> tuple[dict[int, dict[TopicPartition, int]], set[int]]:
    """End offsets by broker, without what it cannot read, and the brokers that do not answer."""
    places: dict[int, list[TopicPartition]] = {}
    for place, one in partitions.items():
        for broker in one.replicas:
            places.setdefault(broker, []).append(place)
    found: dict[int, dict[TopicPartition, int]] = {}
    silent: set[int] = set()
    for broker, its in places.items():
        if broker in brokers:
            try:
                found[broker] = admin.replica_end_offsets(broker, its)
            except UnreachableError:
                silent.add(broker)
            except UserError:
                pass  # Its user may not see them.
    return found, silent


def _brokers(
    cluster: ClusterDescription, partitions: Sequence[PartitionStatus], silent: Container[int]
) -> tuple[BrokerStatus, ...]:
    addresses = cluster.brokers
    leaders = Counter(one.leader for one in partitions)
    preferred = Counter(one.preferred_leader for one in partitions)
    replicas = Counter(broker for one in partitions for broker in one.replicas)
    lags: dict[int, int] = {}
    for one in partitions:
        for broker in one.replicas:
            lag = one.lag(broker)
            if lag is not None and broker != one.leader:
                lags[broker] = max(lag, lags.get(broker, 0))
    return tuple(
        BrokerStatus(
            broker=broker,
            address=addresses.get(broker),
            replica_count=replicas[broker],
            leader_count=leaders[broker],
            preferred_count=preferred[broker],
            largest_lag=lags.get(broker),
            rack=cluster.racks.get(broker, ""),
            is_fenced=broker in cluster.fenced,
            is_silent=broker in silent,
        )
        for broker in sorted(addresses.keys() | replicas.keys() | cluster.fenced)
    )


# Problems


def complaints_of_cluster(status: ClusterStatus) -> Iterator[Complaint]:
    """Returns nothing for a broker without a cluster, whose partitions have one replica each."""
    if status.quorum is not None:
        yield from complaints_of_quorum(status.quorum)
    elif not status.has_controller:
        yield Complaint(
            kind="no_controller",
            where="the cluster",
            what="has no controller: its brokers know its last state, and elect no leaders",
            remedy=Remedy.REACH_ZOOKEEPER,
        )
    for one in status.brokers:
        if one.address is None and one.is_fenced and not one.replica_count:
            yield Complaint(
                kind="fenced_broker",
                where=f"broker {one.broker}",
                what="is registered and not up, and has no replicas",
                remedy=Remedy.UNREGISTER_BROKER,
                subject=str(one.broker),
                is_note=True,
            )
        elif one.address is None:
            yield Complaint(
                kind="missing_broker",
                where=f"broker {one.broker}",
                what=f"is not up, and has replicas of {one.replica_count} partitions",
                remedy=Remedy.START_BROKER,
                subject=str(one.broker),
            )
        elif one.is_silent:
            yield Complaint(
                kind="silent_broker",
                where=f"broker {one.broker}",
                what=f"does not answer at {address_text(*one.address)}, and leads "
                f"{one.leader_count} partitions until the controller misses it",
                remedy=Remedy.REACH_BROKER,
            )
    yield from _together(one for each in status.partitions for one in _check_partition(each))
    for one in status.brokers:
        lacking = sum(
            partition.preferred_leader == one.broker != partition.leader
            for partition in status.partitions
        )
        if one.address is not None and lacking > IMBALANCE * one.preferred_count:
            yield Complaint(
                kind="uneven_leaders",
                where=f"broker {one.broker}",
                what=f"leads {one.leader_count} partitions; {lacking} of the {one.preferred_count} "
                "that it should lead are led by others",
                remedy=Remedy.ELECT_LEADERS,
                is_note=True,
            )


def _together(complaints: Iterable[Complaint]) -> Iterator[Complaint]:
    """Groups equal problems: a broker that is down affects many partitions in the same way."""
    alike: dict[tuple[str, str], list[Complaint]] = {}
    for one in complaints:
        alike.setdefault((one.kind, one.what), []).append(one)
    for first, *others in alike.values():
        if others:
            yield replace(first, where=some_text([one.where for one in (first, *others)], NAMED))
        else:
            yield first


def _check_partition(one: PartitionStatus) -> Iterator[Complaint]:
    where = f"{one.place.topic}-{one.place.partition}"
    for broker in one.unread:
        yield Complaint(
            kind="unread_replica",
            where=where,
            what=f"cannot be read on broker {broker}, which is up and has a replica of it",
            remedy=Remedy.LOOK_AT_BROKER,
            subject=str(broker),
        )
    brokers = ", ".join(map(str, one.replicas))
    if one.is_offline:
        yield Complaint(
            kind="offline_partition",
            where=where,
            what=f"has no leader, so it cannot be read or written; its replicas are on {brokers}, "
            f"last in sync were {', '.join(map(str, one.in_sync or one.eligible)) or 'none'}",
            remedy=Remedy.START_REPLICAS,
        )
        return
    missing = ", ".join(str(broker) for broker in one.replicas if broker not in one.in_sync)
    if one.is_below_min_in_sync:
        yield Complaint(
            kind="below_min_isr",
            where=where,
            what=f"has {len(one.in_sync)} replicas in sync, and {MIN_ISR}={one.min_in_sync}: "
            f"producers with acks=all are refused; out of sync: {missing or 'none'}",
            remedy=Remedy.START_REPLICAS,
        )
    elif one.is_under_replicated:
        yield Complaint(
            kind="under_replicated",
            where=where,
            what=f"has {len(one.in_sync)} of {len(one.replicas)} replicas in sync; out of sync: "
            f"{missing}",
            remedy=Remedy.START_REPLICAS,
        )
