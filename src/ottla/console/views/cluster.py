"""The cluster: brokers, the state of replicas, moves between brokers, and directories."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from ottla.base.addresses import address_text
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.client.administration.admin import Admin
from ottla.client.administration.cluster_status import (
    BrokerStatus,
    ClusterStatus,
    PartitionStatus,
    cluster_status,
)
from ottla.client.administration.log_directories import LogDirectoryDescription
from ottla.client.administration.quorum_complaints import complaints_of_quorum
from ottla.client.administration.quorum_status import QuorumStatus
from ottla.console.contents import counted
from ottla.console.pages import Ask, Fields, Page
from ottla.console.views.view import View
from ottla.metadata.image import METADATA_VERSION
from ottla.metadata.levels import level_name

MOST_PARTITIONS = 200
"""How many partitions with a problem, and how many moves, a page lists."""
VERSION, ROLES = "inter.broker.protocol.version", "process.roles"


def cluster(ask: Ask) -> Page:
    """All of it is asked at each view; the log ends only of replicas that lag or move."""
    has_broker = ask.place.has_broker
    with ask.place.reading() as admin:
        status = _status(admin, has_broker=has_broker)
        settings = _broker_settings(admin, status)
        features = _features(admin) if status.quorum is not None else []
        partition_count = sum(map(len, admin.partitions().values()))
        # A brief status does not ask every broker; these say which of them answer.
        directories = admin.log_directories(on_unreachable=lambda _: None)
    wrong = [one for one in status.partitions if _words(one)]
    moving = [one for one in status.partitions if one.reassignment is not None]
    preferred = sum(one.leader == one.preferred_leader for one in status.partitions)
    data: Fields = {
        "has_broker": has_broker,
        "has_controller": status.has_controller,
        "cluster_id": status.cluster_id,
        "brokers": [
            _broker_fields(one, status, settings.get(one.broker, {}), directories)
            for one in status.brokers
        ],
        "partition_count": partition_count,
        "under_replicated_count": sum(one.is_under_replicated for one in status.partitions),
        "below_count": sum(one.is_below_min_in_sync for one in status.partitions),
        "offline_count": sum(one.is_offline for one in status.partitions),
        "not_preferred_count": len(status.partitions) - preferred,
        "wrong": [_partition_fields(one) for one in wrong[:MOST_PARTITIONS]],
        "wrong_count": len(wrong),
        "moves": [_move_fields(one, directories) for one in moving[:MOST_PARTITIONS]],
        "move_count": len(moving),
        "directories": [directory_fields(one) for one in directories],
        "quorum": None if status.quorum is None else _quorum_fields(status.quorum),
        "features": features,
    }
    data["problems"] = [
        f"Broker {one['id']} does not answer at {one['address']}; it leads "
        f"{counted(one['leader_count'], 'partition')} until the controller misses it."
        for one in data["brokers"]
        if one["is_silent"]
    ]
    return Page(
        template="cluster.html",
        title="Cluster",
        section="cluster",
        data=data,
        refresh_s=2 if moving else 10,
    )


def _status(admin: Admin, *, has_broker: bool) -> ClusterStatus:
    """The cluster's status; files have neither leaders nor replicas that could lag."""
    if has_broker:
        return cluster_status(admin, needs_controller=False, is_brief=True)
    return ClusterStatus(
        cluster_id=admin.describe_cluster().cluster_id, controller=-1, brokers=(), partitions=()
    )


def _quorum_fields(quorum: QuorumStatus) -> Fields:
    return {
        "is_led": quorum.is_led,
        "leader": quorum.leader,
        "epoch": quorum.epoch,
        "committed": quorum.high_watermark,
        "election_reason": quorum.election_reason,
        "voter_count": len(quorum.voters),
        "nodes": [
            {
                "id": one.node,
                "role": "voter" if one.is_voter else "observer",
                "is_voter": one.is_voter,
                "is_leader": one.node == quorum.leader,
                "is_silent": quorum.is_silent(one),
                "address": None if one.address is None else address_text(*one.address),
                "end_offset": one.end_offset if one.end_offset >= 0 else None,
                "lag": one.lag,
            }
            for one in quorum.replicas
        ],
        "problems": [
            {"where": one.where, "what": one.what} for one in complaints_of_quorum(quorum)
        ],
    }


def _features(admin: Admin) -> list[Fields]:
    return [
        {
            "name": name,
            "level": one.level,
            "release": level_name(one.level) if name == METADATA_VERSION else "",
            "highest": one.highest,
        }
        for name, one in admin.describe_features().items()
    ]


def _broker_settings(admin: Admin, status: ClusterStatus) -> dict[int, Mapping[str, str]]:
    """What the settings of brokers that are up tell of them; a user may not be allowed to see."""
    up = [str(one.broker) for one in status.brokers if one.address is not None]
    if not up:
        return {}
    with suppress(UserError):
        return {
            int(name): {key: entries[key].value or "" for key in (VERSION, ROLES) if key in entries}
            for name, entries in admin.describe_configs(ResourceKind.BROKER, up).items()
        }
    return {}


def _broker_fields(
    one: BrokerStatus,
    status: ClusterStatus,
    settings: Mapping[str, str],
    directories: Sequence[LogDirectoryDescription],
) -> Fields:
    own = [each for each in directories if each.broker == one.broker]
    return {
        "id": one.broker,
        "address": None if one.address is None else address_text(*one.address),
        "is_fenced": one.is_fenced,
        "is_silent": one.address is not None and not own,
        "rack": one.rack,
        "version": settings.get(VERSION, ""),
        "roles": settings.get(ROLES, ""),
        "is_controller": one.broker == status.controller,
        "leader_count": one.leader_count,
        "preferred_count": one.preferred_count,
        "replica_count": one.replica_count,
        "largest_lag": one.largest_lag,
        "size": sum(sum(each.sizes.values()) for each in own) if own else None,
    }


def _partition_fields(one: PartitionStatus) -> Fields:
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "leader": None if one.is_offline else one.leader,
        "preferred_leader": one.preferred_leader,
        "replicas": list(one.replicas),
        "in_sync": list(one.in_sync),
        "min_in_sync": one.min_in_sync,
        "lags": {str(broker): one.lag(broker) for broker in one.replicas if broker != one.leader},
        "problem": _words(one),
    }


def _words(one: PartitionStatus) -> str:
    if one.is_offline:
        return "no leader"
    if one.is_below_min_in_sync:
        return "below min.insync.replicas"
    return "under-replicated" if one.is_under_replicated else ""


def _move_fields(one: PartitionStatus, directories: Sequence[LogDirectoryDescription]) -> Fields:
    """A move, with what has come to each new broker of what the leader has."""
    assert one.reassignment is not None
    whole = _size_on(one.leader, one.place, directories)
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "replicas": list(one.replicas),
        "removing": list(one.reassignment.removing),
        "size": whole,
        "adding": [
            {
                "broker": broker,
                "size": _size_on(broker, one.place, directories),
                "lag": one.lag(broker),
                "is_in_sync": broker in one.in_sync,
            }
            for broker in one.reassignment.adding
        ],
    }


def _size_on(
    broker: int, place: TopicPartition, directories: Sequence[LogDirectoryDescription]
) -> int | None:
    own = [one.sizes[place] for one in directories if one.broker == broker and place in one.sizes]
    return max(own, default=None)


def directory_fields(one: LogDirectoryDescription) -> Fields:
    """A log directory; what its broker does not tell is `None`."""
    return {
        "broker": one.broker,
        "path": one.path,
        "error": one.error.name if one.error else "",
        "size": sum(one.sizes.values()),
        "partition_count": len(one.sizes),
        "usable_size": one.usable_size if one.usable_size >= 0 else None,
        "total_size": one.total_size if one.total_size >= 0 else None,
    }


VIEWS = {"/cluster": View(cluster)}
