"""Which requests are answered, and in which versions: what ApiVersions lists, and nothing more.

A new API is one row here and one file in `handlers/`, named like the file of its messages.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.base.values import dataclass
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@dataclass(frozen=True, slots=True)
class Api:
    """One request, and the oldest and newest version of it that are answered.

    `is_listed`: ApiVersions names it, so that clients use it. `looks_into_logs`: whether earlier
    appends must be written before it is handled.
    """

    key: ApiKey
    oldest: int
    newest: int
    is_listed: bool = True
    looks_into_logs: bool = True


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
        Api(ApiKey.LEADER_AND_ISR, 0, 7),
        Api(ApiKey.STOP_REPLICA, 0, 4),
        Api(ApiKey.UPDATE_METADATA, 0, 8),
        Api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3),
        Api(ApiKey.ALTER_PARTITION, 0, 3),
        Api(ApiKey.UPDATE_FEATURES, 0, 1),
        Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0),
        Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, looks_into_logs=False),
        Api(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, looks_into_logs=False),
        Api(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, looks_into_logs=False),
        Api(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, looks_into_logs=False),
        Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, looks_into_logs=False),
    )
}
"""APIs that only a member of a cluster answers and lists; mostly for other brokers."""

NOT_METERED: Final = frozenset({*CLUSTER_APIS, ApiKey.WRITE_TXN_MARKERS}) - {ApiKey.UPDATE_FEATURES}
"""Requests between brokers, which are exempt from quotas (Kafka: `sendResponseExemptThrottle`)."""


def apis_of(broker: "Broker") -> Mapping[int, Api]:
    """What a broker answers: with peers, also what brokers and the controller ask each other."""
    return {**APIS, **CLUSTER_APIS} if broker.view.has_peers else APIS
