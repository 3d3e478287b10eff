"""Which replicas of a topic are not in sync, and why, according to brokers.

A leader does not report since when a follower lags: the timestamp of the first record that the
follower lacks stands for it.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.admin import Admin
from ottla.client.administration.cluster_status import (
    ClusterStatus,
    PartitionStatus,
    cluster_status,
)
from ottla.client.administration.replica_throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    rates_of,
)

ALL: Final = "*"


class Why(Enum):
    NOT_UP = "not_up"
    NO_LEADER = "no_leader"
    SILENT_LEADER = "silent_leader"
    """Of the leader itself: nobody reads or writes the partition until another one leads."""
    DIRECTORY_OFFLINE = "directory_offline"
    THROTTLED = "throttled"
    BEHIND = "behind"
    CAUGHT_UP = "caught_up"
    """It has all that the leader has, but is not in the ISR yet."""
    UNKNOWN = "unknown"
    """Its broker is up, but does not report the replica's log end offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The setting of a broker that slows a replica down."""

    broker: int
    setting: str
    rate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckReplica:
    """`lag` in offsets and `since_ms` are `None` if unknown."""

    place: TopicPartition
    broker: int
    leader: int
    in_sync: tuple[int, ...]
    why: Why
    lag: int | None = None
    since_ms: int | None = None
    throttle: Throttle | None = None
    is_adding: bool = False
    """A reassignment brings it here."""


def stuck_replicas(admin: Admin, topic: str) -> list[StuckReplica]:
    """Sorted by partition, then in the order of the replicas; a leader that does not answer is one
    of them, although it is in sync. Raises `UserError`.
    """
    status = cluster_status(admin, [topic], needs_controller=False)
    silent = {one.broker for one in status.brokers if one.is_silent}
    behind = [
        (one, broker)
        for one in status.partitions
        for broker in one.replicas
        if broker not in one.in_sync or (broker == one.leader and broker in silent)
    ]
    if not behind:
        return []
    lists = admin.topic_settings(topic)
    is_throttled = lists.get(FOLLOWER_REPLICAS) or lists.get(LEADER_REPLICAS)
    up = [one.broker for one in status.brokers if one.address is not None]
    rates = rates_of(admin, up) if is_throttled else {}
    return [
        _with_time(judge(one, broker, status, _throttle(one, broker, lists, rates)), one, admin)
        for one, broker in behind
    ]


def judge(
    one: PartitionStatus, broker: int, status: ClusterStatus, throttle: Throttle | None = None
) -> StuckReplica:
    """The reason why a replica is not in sync."""
    lag = one.lag(broker)
    up = {each.broker for each in status.brokers if each.address is not None}
    silent = {each.broker for each in status.brokers if each.is_silent}
    if broker not in up:
        why = Why.NOT_UP
    elif broker == one.leader and broker in silent:
        why = Why.SILENT_LEADER
    elif one.is_offline:
        why = Why.NO_LEADER
    elif broker in one.offline:
        why = Why.DIRECTORY_OFFLINE
    elif lag is None:
        why = Why.UNKNOWN
    elif not lag:
        why = Why.CAUGHT_UP
    else:
        why = Why.BEHIND if throttle is None else Why.THROTTLED
    return StuckReplica(
        place=one.place,
        broker=broker,
        leader=one.leader,
        # Without a leader those that may lead are named: with ELR none is in the ISR then.
        in_sync=one.in_sync or one.eligible,
        why=why,
        lag=lag,
        throttle=throttle if why is Why.THROTTLED else None,
        is_adding=one.reassignment is not None and broker in one.reassignment.adding,
    )


def _with_time(replica: StuckReplica, one: PartitionStatus, admin: Admin) -> StuckReplica:
    if not replica.lag:
        return replica
    since_ms = admin.timestamp_at(one.place, one.ends[replica.broker])
    return replace(replica, since_ms=since_ms)


def _throttle(
    one: PartitionStatus,
    broker: int,
    lists: Mapping[str, str],
    rates: Mapping[int, Mapping[str, int]],
) -> Throttle | None:
    """The smaller limit of the follower and its leader (KIP-73)."""
    found = [
        Throttle(broker=limited, setting=rate, rate=rates[limited][rate])
        for limited, replicas, rate in (
            (broker, FOLLOWER_REPLICAS, FOLLOWER_RATE),
            (one.leader, LEADER_REPLICAS, LEADER_RATE),
        )
        if _names(lists.get(replicas, ""), one.place.partition, limited)
        and rate in rates.get(limited, {})
    ]
    return min(found, key=lambda each: each.rate, default=None)


def _names(replicas: str, partition: int, broker: int) -> bool:
    named = replicas.split(",")
    return ALL in named or f"{partition}:{broker}" in named
