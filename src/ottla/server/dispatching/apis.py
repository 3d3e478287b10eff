"""Which requests are answered, and in which versions: what ApiVersions lists, and nothing more.

A new API is one row here and one file in `handlers/`, named like the file of its messages.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from ottla.base.values import dataclass
from ottla.protocol.api_keys import FORWARDED, ApiKey

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class Api:
    """One request, and the oldest and newest version of it that are answered.

    `is_listed`: ApiVersions names it, so that clients use it. `looks_into_logs`: whether earlier
    appends must be written before it is handled. `room` has its handler, in a file named like that
    of its messages, or `module`: `handlers`, or `orders` for what nodes of a cluster ask each
    other.
    """

    key: ApiKey
    oldest: int
    newest: int
    is_listed: bool = True
    looks_into_logs: bool = True
    room: str = "handlers"
    module: str = ""


class Door(Enum):
    """Whose requests come by a listener, and so which are answered there."""

    ALONE = "clients of a broker by itself"
    ZOOKEEPER = "clients and brokers of a cluster over ZooKeeper"
    QUORUM = "clients and brokers of a KRaft cluster"
    CONTROLLER = "nodes that ask a controller of a KRaft cluster"


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, 0, 13, looks_into_logs=False),
        Api(ApiKey.FETCH, 0, 18),
        Api(ApiKey.LIST_OFFSETS, 0, 11),
        Api(ApiKey.METADATA, 0, 13),
        Api(ApiKey.OFFSET_COMMIT, 0, 10, looks_into_logs=False),
        Api(ApiKey.OFFSET_FETCH, 0, 10, looks_into_logs=False),
        Api(ApiKey.FIND_COORDINATOR, 0, 6),
        Api(ApiKey.JOIN_GROUP, 0, 9, looks_into_logs=False),
        Api(ApiKey.HEARTBEAT, 0, 4, looks_into_logs=False),
        Api(ApiKey.LEAVE_GROUP, 0, 5, looks_into_logs=False),
        Api(ApiKey.SYNC_GROUP, 0, 5, looks_into_logs=False),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6, looks_into_logs=False),
        Api(ApiKey.LIST_GROUPS, 0, 5, looks_into_logs=False),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1),
        Api(ApiKey.API_VERSIONS, 0, 4),
        Api(ApiKey.CREATE_TOPICS, 0, 7),
        Api(ApiKey.DELETE_TOPICS, 0, 6),
        Api(ApiKey.DELETE_RECORDS, 0, 2),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 6),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
        Api(ApiKey.END_TXN, 0, 5, looks_into_logs=False),
        Api(ApiKey.WRITE_TXN_MARKERS, 0, 2),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
        Api(ApiKey.DESCRIBE_ACLS, 0, 3),
        Api(ApiKey.CREATE_ACLS, 0, 3),
        Api(ApiKey.DELETE_ACLS, 0, 3),
        Api(ApiKey.DESCRIBE_CONFIGS, 0, 4),
        Api(ApiKey.ALTER_CONFIGS, 0, 2),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 5),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3),
        Api(ApiKey.DELETE_GROUPS, 0, 2, looks_into_logs=False),
        Api(ApiKey.ELECT_LEADERS, 0, 2),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
        Api(ApiKey.OFFSET_DELETE, 0, 0, looks_into_logs=False),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 2),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 2),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, looks_into_logs=False),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, looks_into_logs=False),
        Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, is_listed=False),
        Api(ApiKey.PUSH_TELEMETRY, 0, 0, is_listed=False),
        Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
        Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, looks_into_logs=False),
        Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, looks_into_logs=False),
        Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1),
        Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, looks_into_logs=False),
        Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, looks_into_logs=False),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
        Api(ApiKey.SHARE_FETCH, 1, 2),
        Api(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, looks_into_logs=False),
    )
}

CLUSTER_APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.LEADER_AND_ISR, 0, 7, room="orders"),
        Api(ApiKey.STOP_REPLICA, 0, 4, room="orders"),
        Api(ApiKey.UPDATE_METADATA, 0, 8, room="orders"),
        Api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, room="orders"),
        Api(ApiKey.ALTER_PARTITION, 0, 3, room="orders"),
        Api(ApiKey.UPDATE_FEATURES, 0, 1, room="orders"),
        Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, room="orders"),
        Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, looks_into_logs=False, room="orders"),
        Api(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, looks_into_logs=False, room="orders"),
        Api(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, looks_into_logs=False, room="orders"),
        Api(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, looks_into_logs=False, room="orders"),
        Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, looks_into_logs=False, room="orders"),
    )
}
"""APIs that only a member of a cluster over ZooKeeper answers and lists; mostly for other brokers.
"""

QUORUM_APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.VOTE, 0, 2, room="orders"),
        Api(ApiKey.BEGIN_QUORUM_EPOCH, 0, 1, room="orders"),
        Api(ApiKey.END_QUORUM_EPOCH, 0, 1, room="orders"),
        Api(ApiKey.DESCRIBE_QUORUM, 0, 2, room="orders"),
        Api(ApiKey.ALTER_PARTITION, 2, 3, room="orders"),
        Api(ApiKey.UPDATE_FEATURES, 0, 2, room="orders"),
        Api(ApiKey.ENVELOPE, 0, 0, room="orders"),
        Api(ApiKey.FETCH_SNAPSHOT, 0, 1, room="orders"),
        Api(ApiKey.BROKER_REGISTRATION, 0, 4, room="orders"),
        Api(ApiKey.BROKER_HEARTBEAT, 0, 2, room="orders"),
        Api(ApiKey.UNREGISTER_BROKER, 0, 0, room="orders"),
        Api(ApiKey.UNREGISTER_CONTROLLER, 0, 0, room="orders"),
        Api(ApiKey.CONTROLLER_REGISTRATION, 0, 0, room="orders"),
        Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, room="orders"),
        Api(ApiKey.ADD_RAFT_VOTER, 0, 1, room="orders"),
        Api(ApiKey.REMOVE_RAFT_VOTER, 0, 0, room="orders"),
        Api(ApiKey.UPDATE_RAFT_VOTER, 0, 0, room="orders"),
    )
}
"""APIs that only nodes of a KRaft cluster answer and list."""

FETCH_METADATA: Final = Api(ApiKey.FETCH, 12, 18, room="orders", module="fetch_metadata")
"""Of the metadata log, which nobody fetches from a listener for brokers and clients."""

ON_CONTROLLERS: Final = FORWARDED | {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
"""The requests that a controller answers beside those of `QUORUM_APIS`, as in Kafka 3.9."""

OF_ZOOKEEPER: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""What no broker of a KRaft cluster is asked."""

NOT_METERED: Final = frozenset({*CLUSTER_APIS, ApiKey.WRITE_TXN_MARKERS}) - {ApiKey.UPDATE_FEATURES}
"""Requests between brokers, which are exempt from quotas (Kafka: `sendResponseExemptThrottle`).
Nothing is metered that a controller is asked: a broker has metered what it forwards.
"""

EVERY_API: Final[Mapping[int, Api]] = {**APIS, **CLUSTER_APIS, **QUORUM_APIS}

APIS_OF: Final[Mapping[Door, Mapping[int, Api]]] = {
    Door.ALONE: APIS,
    Door.ZOOKEEPER: {**APIS, **CLUSTER_APIS},
    Door.QUORUM: {
        key: api
        for key, api in EVERY_API.items()
        if key in APIS or key in FORWARDED or key in CLUSTER_APIS.keys() - OF_ZOOKEEPER
    },
    Door.CONTROLLER: {
        FETCH_METADATA.key: FETCH_METADATA,
        **{
            key: api
            for key, api in EVERY_API.items()
            if key in ON_CONTROLLERS or key in QUORUM_APIS
        },
    },
}


def controller_names(config: "BrokerConfig") -> frozenset[str]:
    """The listeners of a node's controller."""
    names = config.controller_listener_names if config.is_quorate else ()
    return frozenset(name.upper() for name in names)


def door_of(broker: "Broker", listener: str) -> Door:
    if not broker.view.has_peers:
        return Door.ALONE
    # Lazy: a broker by itself needs nothing of what members of clusters do.
    from ottla.broker.membership.membership import QuorumMembership

    if not isinstance(broker.membership, QuorumMembership):
        return Door.ZOOKEEPER
    names = controller_names(broker.settings.config)
    return Door.CONTROLLER if listener in names else Door.QUORUM


def listed_apis(broker: "Broker", listener: str) -> Iterator[tuple[int, int, int]]:
    """What ApiVersions names on a listener: the key, the oldest and the newest version. What is
    passed on is named as far as the controller answers it.
    """
    door = door_of(broker, listener)
    newest: Mapping[int, int] = {}
    if door is Door.QUORUM:
        from ottla.broker.membership.membership import QuorumMembership

        assert isinstance(broker.membership, QuorumMembership)
        newest = broker.membership.controller_versions()
    for key, api in APIS_OF[door].items():
        if api.is_listed:
            yield key, api.oldest, min(api.newest, newest.get(key, api.newest))
