"""The path of each node, below the chroot. Kafka's counterpart: the `path` methods of `ZkData`."""

from typing import Final
from urllib.parse import quote, unquote

from ottla.base.partitions import TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.metadata.acls import PatternType

CONSUMERS: Final = "/consumers"
CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
CONFIG_CHANGES: Final = "/config/changes"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
ACLS: Final = "/kafka-acl"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
DELEGATION_TOKENS: Final = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES: Final = "/delegation_token/token_changes"

CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
ACL_CHANGE_PREFIX: Final = f"{ACL_CHANGES}/acl_changes_"
EXTENDED_ACL_CHANGE_PREFIX: Final = f"{EXTENDED_ACL_CHANGES}/acl_changes_"
DELEGATION_TOKEN_CHANGE_PREFIX: Final = f"{DELEGATION_TOKEN_CHANGES}/token_change_"
"""Nodes with these prefixes are sequential: ZooKeeper appends a number of ten digits."""

CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")
DEFAULT_ENTITY: Final = "<default>"
"""The name of the default entity, for all that have no settings of their own."""

PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"/config/{name}" for name in CONFIG_TYPES),
)
"""Created by every broker at its start if missing (Kafka: `ZkData.PersistentZkPaths`)."""

SECRETS: Final = ("/config/users", "/config/brokers", DELEGATION_TOKENS)
"""Only brokers may read nodes below these (Kafka: `ZkData.SensitiveRootPaths`)."""

RESOURCE_TYPES: Final = (
    "Topic",
    "Group",
    "Cluster",
    "TransactionalId",
    "DelegationToken",
    "User",
)
ACL_FOLDERS: Final = {
    PatternType.LITERAL: ACLS,
    PatternType.PREFIXED: f"{EXTENDED_ACLS}/prefixed",
}
"""The folder of rules by pattern type; that of literal names is older than prefixed names."""

PERSISTENT_WITH_ACLS: Final = (
    *(f"{folder}/{kind}" for folder in ACL_FOLDERS.values() for kind in RESOURCE_TYPES),
    ACL_CHANGES,
    EXTENDED_ACL_CHANGES,
)
"""Created if there is an authorizer (Kafka: `KafkaZkClient.createAclPaths`)."""

PERSISTENT_WITH_TOKENS: Final = (DELEGATION_TOKENS, DELEGATION_TOKEN_CHANGES)
"""Created if tokens are enabled (Kafka: `KafkaZkClient.createDelegationTokenPaths`)."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{topic_path(topic)}/partitions"


def partition_path(partition: TopicPartition) -> str:
    return f"{partitions_path(partition.topic)}/{partition.partition}"


def state_path(partition: TopicPartition) -> str:
    return f"{partition_path(partition)}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity_path: str) -> str:
    """The node of an entity such as `topics/orders` or `users/alice/clients/app`."""
    return f"/config/{entity_path}"


def token_path(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{token_id}"


def is_node_name(name: str) -> bool:
    """Whether ZooKeeper accepts the name as part of a path."""
    return name not in ("", ".", "..") and _NO_NODE.search(name) is None


_NO_NODE: Final = lazy_pattern(r"[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def sanitized(name: str | None) -> str:
    """The node name of a user or client; Kafka's counterpart: `Sanitizer`.

    Java's URL encoding, with %20 for a space and %2A for an asterisk.
    """
    return DEFAULT_ENTITY if name is None else quote(name, safe="-._").replace("~", "%7E")


def desanitized(name: str) -> str | None:
    """The inverse of `sanitized`; `None` for the default entity."""
    return None if name == DEFAULT_ENTITY else unquote(name)
