"""The records of `__cluster_metadata`, one class each (KIP-631).

Format page: docs/format/cluster-metadata.md. Kafka's counterparts: the JSON files of the package
`org.apache.kafka.common.metadata`, `MetadataRecordSerde`.

All versions are flexible. The first version of a record is that of Kafka 3.0, or of the Kafka that
introduced the record; the last is that of Kafka 4.4.
"""

from typing import Final

from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.codec.api_messages import decode_api_message
from ottla.codec.fields import (
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from ottla.codec.schema import Message, Struct

NO_LEADER = -1
NO_LEADER_CHANGE = -2


class EndPoint(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class Feature(Struct):
    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class RegisterBrokerRecord(Message, api_key=0, versions="0-4", flexible="0+"):
    """A broker started. Version 3 adds its log directories (KIP-858), 4 those of them that are
    cordoned (Kafka 4.3).
    """

    broker_id: int = int32("0+")
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: Uuid = uuid("0+")
    broker_epoch: int = int64("0+")
    end_points: list[EndPoint] = array(EndPoint, "0+")
    features: list[Feature] = array(Feature, "0+")
    rack: str | None = string("0+", nullable="0+")
    fenced: bool = boolean("0+", default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[Uuid] = array(uuid, "3+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = array(uuid, "4+", default=None, nullable="4+", tag=1)


class UnregisterBrokerRecord(Message, api_key=1, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")


class TopicRecord(Message, api_key=2, versions="0", flexible="0+"):
    name: str = string("0+")
    topic_id: Uuid = uuid("0+")


class PartitionRecord(Message, api_key=3, versions="0-2", flexible="0+"):
    """A new partition. Version 1 adds directories (KIP-858), version 2 eligible leaders (KIP-966).

    In a snapshot it is the complete state of the partition.
    """

    partition_id: int = int32("0+", default=-1)
    topic_id: Uuid = uuid("0+")
    replicas: list[int] = array(int32, "0+")
    isr: list[int] = array(int32, "0+")
    removing_replicas: list[int] = array(int32, "0+")
    adding_replicas: list[int] = array(int32, "0+")
    leader: int = int32("0+", default=NO_LEADER)
    leader_recovery_state: int = int8("0+", tag=0)
    leader_epoch: int = int32("0+", default=-1)
    partition_epoch: int = int32("0+", default=-1)
    directories: list[Uuid] = array(uuid, "1+")
    eligible_leader_replicas: list[int] | None = array(
        int32, "2+", default=None, nullable="2+", tag=1
    )
    last_known_elr: list[int] | None = array(int32, "2+", default=None, nullable="2+", tag=2)


class ConfigRecord(Message, api_key=4, versions="0", flexible="0+"):
    """A setting was set, or removed if the value is null."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class PartitionChangeRecord(Message, api_key=5, versions="0-2", flexible="0+"):
    """The changed fields of a partition; others are null, or a number below their range."""

    partition_id: int = int32("0+", default=-1)
    topic_id: Uuid = uuid("0+")
    isr: list[int] | None = array(int32, "0+", default=None, nullable="0+", tag=0)
    leader: int = int32("0+", default=NO_LEADER_CHANGE, tag=1)
    replicas: list[int] | None = array(int32, "0+", default=None, nullable="0+", tag=2)
    removing_replicas: list[int] | None = array(int32, "0+", default=None, nullable="0+", tag=3)
    adding_replicas: list[int] | None = array(int32, "0+", default=None, nullable="0+", tag=4)
    leader_recovery_state: int = int8("0+", default=-1, tag=5)
    eligible_leader_replicas: list[int] | None = array(
        int32, "2+", default=None, nullable="2+", tag=6
    )
    last_known_elr: list[int] | None = array(int32, "2+", default=None, nullable="2+", tag=7)
    directories: list[Uuid] | None = array(uuid, "1+", default=None, nullable="1+", tag=8)


class FenceBrokerRecord(Message, api_key=7, versions="0", flexible="0+"):
    id: int = int32("0+")
    epoch: int = int64("0+")


class UnfenceBrokerRecord(Message, api_key=8, versions="0", flexible="0+"):
    id: int = int32("0+")
    epoch: int = int64("0+")


class RemoveTopicRecord(Message, api_key=9, versions="0", flexible="0+"):
    """A topic was deleted with its settings, which are not removed by records of their own."""

    topic_id: Uuid = uuid("0+")


class DelegationTokenRecord(Message, api_key=10, versions="0", flexible="0+"):
    owner: str = string("0+")
    requester: str = string("0+")
    renewers: list[str] = array(string, "0+")
    issue_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    expiration_timestamp: int = int64("0+")
    token_id: str = string("0+")


class UserScramCredentialRecord(Message, api_key=11, versions="0", flexible="0+"):
    """Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: str = string("0+")
    mechanism: int = int8("0+")
    salt: bytes = binary("0+")
    stored_key: bytes = binary("0+")
    server_key: bytes = binary("0+")
    iterations: int = int32("0+")


class FeatureLevelRecord(Message, api_key=12, versions="0", flexible="0+"):
    """A feature was finalized at a level, or removed with level 0 (KIP-584)."""

    name: str = string("0+")
    feature_level: int = int16("0+")


class QuotaEntity(Struct):
    """A part of a quota's entity; the name is null for the default of its type."""

    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ClientQuotaRecord(Message, api_key=14, versions="0", flexible="0+"):
    entity: list[QuotaEntity] = array(QuotaEntity, "0+")
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class ProducerIdsRecord(Message, api_key=15, versions="0", flexible="0+"):
    """A broker got a block of producer ids; the next block begins with `next_producer_id`."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")
    next_producer_id: int = int64("0+")


class BrokerRegistrationChangeRecord(Message, api_key=17, versions="0-3", flexible="0+"):
    """A change of a broker's registration; `fenced` is -1 unfenced, 0 no change, 1 fenced, and
    `cordoned_log_dirs` are null if they stay.
    """

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")
    fenced: int = int8("0+", tag=0)
    in_controlled_shutdown: int = int8("1+", tag=1)
    log_dirs: list[Uuid] = array(uuid, "2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = array(uuid, "3+", default=None, nullable="3+", tag=3)


class AccessControlEntryRecord(Message, api_key=18, versions="0", flexible="0+"):
    id: Uuid = uuid("0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("0+")
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class RemoveAccessControlEntryRecord(Message, api_key=19, versions="0", flexible="0+"):
    id: Uuid = uuid("0+")


class NoOpRecord(Message, api_key=20, versions="0", flexible="0+"):
    """Written periodically so that the high watermark moves (KIP-835)."""


class ZkMigrationStateRecord(Message, api_key=21, versions="0", flexible="0+"):
    """0 none, 1 migration, 2 pre-migration, 3 post-migration, 4 never had ZooKeeper (KIP-866)."""

    zk_migration_state: int = int8("0+")


class RemoveUserScramCredentialRecord(Message, api_key=22, versions="0", flexible="0+"):
    name: str = string("0+")
    mechanism: int = int8("0+")


class BeginTransactionRecord(Message, api_key=23, versions="0", flexible="0+"):
    """The records after it are applied when the transaction ends (KIP-868)."""

    name: str | None = string("0+", default=None, nullable="0+", tag=0)


class EndTransactionRecord(Message, api_key=24, versions="0", flexible="0+"):
    pass


class AbortTransactionRecord(Message, api_key=25, versions="0", flexible="0+"):
    reason: str | None = string("0+", default=None, nullable="0+", tag=0)


class RemoveDelegationTokenRecord(Message, api_key=26, versions="0", flexible="0+"):
    token_id: str = string("0+")


class RegisterControllerRecord(Message, api_key=27, versions="0", flexible="0+"):
    controller_id: int = int32("0+")
    incarnation_id: Uuid = uuid("0+")
    zk_migration_ready: bool = boolean("0+")
    end_points: list[EndPoint] = array(EndPoint, "0+")
    features: list[Feature] = array(Feature, "0+")


class ClearElrRecord(Message, api_key=28, versions="0", flexible="0+"):
    """Removes the eligible leaders of a topic, or of all topics if the name is empty (KIP-966)."""

    topic_name: str = string("0+")


class UnregisterControllerRecord(Message, api_key=29, versions="0", flexible="0+"):
    """A controller was removed for good (Kafka 4.4)."""

    controller_id: int = int32("0+")


RECORDS: Final[tuple[type[Message], ...]] = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    RemoveTopicRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
    FeatureLevelRecord,
    ClientQuotaRecord,
    ProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    NoOpRecord,
    ZkMigrationStateRecord,
    RemoveUserScramCredentialRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
    RemoveDelegationTokenRecord,
    RegisterControllerRecord,
    ClearElrRecord,
    UnregisterControllerRecord,
)
BY_KEY: Final = {record.API_KEY: record for record in RECORDS}


def decode_record(value: Buffer) -> tuple[Message, int]:
    """The record in a value, and its version; raises as `decode_api_message` does."""
    return decode_api_message(value, BY_KEY)
