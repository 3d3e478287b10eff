"""Every API with each resource that it names: allowed, denied by absence, by rule, and by prefix.

The table says what Kafka's `KafkaApis` and `ControllerApis` ask the authorizer; an API that is
answered and has no row fails here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.principal import Principal
from ottla.broker.broker import Broker
from ottla.broker.security.acls import (
    CLUSTER_NAME,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.broker.topics.topics import NewTopic
from ottla.codec.schema import Message, Struct
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import (
    add_offsets_to_transaction,
    alter_configs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_transaction,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    transaction_offset_commit,
    write_transaction_markers,
)
from ottla.protocol.messages import add_partitions_to_transaction as add_partitions
from ottla.protocol.messages import alter_client_quotas as alter_quotas
from ottla.protocol.messages import alter_partition_reassignments as reassign
from ottla.protocol.messages import alter_replica_log_dirs as move
from ottla.protocol.messages import alter_user_scram_credentials as alter_users
from ottla.server.apis import APIS
from ottla.server.authorization.guards import GUARDS
from ottla.server.request_context import Client
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import batch, disk, open_broker

ANA = Principal("User", "ana")
HOST = "10.0.0.9"
TOPIC, GROUP, TXN = "orders-eu", "billing-1", "payments-7"
TOPIC_ID = Uuid(b"an id of 16 byte")
NEW_TOPIC = NewTopic(name=TOPIC, partition_count=1, topic_id=TOPIC_ID)

T = ResourceType.TOPIC
G = ResourceType.GROUP
C = ResourceType.CLUSTER
X = ResourceType.TRANSACTIONAL_ID
NAMES = {T: TOPIC, G: GROUP, C: CLUSTER_NAME, X: TXN}

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TXN_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CODES = {T: TOPIC_DENIED, G: GROUP_DENIED, C: CLUSTER_DENIED, X: TXN_DENIED}

Need = tuple[Operation, ResourceType]
Op = Operation


@dataclass(frozen=True)
class Row:
    """A request, and what it needs. `shows`: a denial is seen by what is left out of the answer."""

    request: Callable[[], Message]
    version: int
    needs: tuple[Need, ...] = ()
    shows: Callable[[Any], Any] | None = None

    def is_denied(self, answer: Any, need: Need) -> bool:
        if self.shows is not None:
            return not self.shows(answer)
        return CODES[need[1]] in error_codes(answer)


def error_codes(value: Any) -> set[int]:
    """Every error code in an answer, wherever it stands."""
    if isinstance(value, list):
        return {code for one in value for code in error_codes(one)}
    if not isinstance(value, Struct):
        return set()
    found = set()
    for field in value.FIELDS:
        content = getattr(value, field.name)
        if field.name.endswith("error_code"):
            found.add(content)
        else:
            found |= error_codes(content)
    return found


def offsets(module: Any, name: str) -> Any:
    topic, partition = getattr(module, f"{name}RequestTopic"), f"{name}RequestPartition"
    return topic(name=TOPIC, partitions=[getattr(module, partition)(partition_index=0)])


def config(module: Any, kind: int, name: str) -> Any:
    resource = getattr(module, "DescribeConfigsResource", None) or module.AlterConfigsResource
    return resource(resource_type=kind, resource_name=name)


def fetch_request(min_size: int = 0) -> Message:
    wanted = fetch.FetchPartition(partition=0, partition_max_bytes=1000)
    topic = fetch.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[wanted])
    return fetch.FetchRequest(topics=[topic], min_bytes=min_size, max_wait_ms=100 * min_size)


def produce_request(transactional_id: str | None = None) -> Message:
    data = produce.PartitionProduceData(index=0, records=bytes(batch(b"v")))
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=1,
        topic_data=[produce.TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=[data])],
    )


def metadata_request(name: str | None = TOPIC, **more: Any) -> Message:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name, **more)])


ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.PRODUCE: [
        Row(produce_request, 9, ((Op.WRITE, T),)),
        Row(lambda: produce_request(TXN), 9, ((Op.WRITE, X), (Op.WRITE, T))),
        Row(produce_request, 13, ((Op.WRITE, T),)),
    ],
    ApiKey.FETCH: [
        Row(fetch_request, 11, ((Op.READ, T),)),
        Row(fetch_request, 13, ((Op.READ, T),)),
    ],
    ApiKey.LIST_OFFSETS: [
        Row(
            lambda: list_offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    list_offsets.ListOffsetsTopic(
                        name=TOPIC,
                        partitions=[
                            list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
                        ],
                    )
                ],
            ),
            5,
            ((Op.DESCRIBE, T),),
        )
    ],
    ApiKey.METADATA: [
        Row(metadata_request, 9, ((Op.DESCRIBE, T),)),
        Row(lambda: metadata_request(None, topic_id=TOPIC_ID), 12, ((Op.DESCRIBE, T),)),
        Row(
            lambda: metadata.MetadataRequest(topics=None),
            9,
            ((Op.DESCRIBE, T),),
            shows=lambda answer: [one.name for one in answer.topics],
        ),
    ],
    ApiKey.OFFSET_COMMIT: [
        Row(
            lambda: offset_commit.OffsetCommitRequest(
                group_id=GROUP, topics=[offsets(offset_commit, "OffsetCommit")]
            ),
            7,
            ((Op.READ, G), (Op.READ, T)),
        )
    ],
    ApiKey.OFFSET_FETCH: [
        Row(
            lambda: offset_fetch.OffsetFetchRequest(
                group_id=GROUP,
                topics=[offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])],
            ),
            7,
            ((Op.DESCRIBE, G), (Op.DESCRIBE, T)),
        ),
        Row(
            lambda: offset_fetch.OffsetFetchRequest(
                groups=[
                    offset_fetch.OffsetFetchRequestGroup(
                        group_id=GROUP,
                        topics=[
                            offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
                        ],
                    )
                ]
            ),
            8,
            ((Op.DESCRIBE, G), (Op.DESCRIBE, T)),
        ),
    ],
    ApiKey.FIND_COORDINATOR: [
        Row(
            lambda: find_coordinator.FindCoordinatorRequest(key=GROUP, key_type=0),
            3,
            ((Op.DESCRIBE, G),),
        ),
        Row(
            lambda: find_coordinator.FindCoordinatorRequest(coordinator_keys=[TXN], key_type=1),
            4,
            ((Op.DESCRIBE, X),),
        ),
    ],
    ApiKey.JOIN_GROUP: [
        Row(
            lambda: join_group.JoinGroupRequest(
                group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer"
            ),
            5,
            ((Op.READ, G),),
        )
    ],
    ApiKey.HEARTBEAT: [
        Row(lambda: heartbeat.HeartbeatRequest(group_id=GROUP, member_id="m"), 3, ((Op.READ, G),))
    ],
    ApiKey.LEAVE_GROUP: [
        Row(lambda: leave_group.LeaveGroupRequest(group_id=GROUP), 3, ((Op.READ, G),))
    ],
    ApiKey.SYNC_GROUP: [
        Row(lambda: sync_group.SyncGroupRequest(group_id=GROUP, member_id="m"), 3, ((Op.READ, G),))
    ],
    ApiKey.DESCRIBE_GROUPS: [
        Row(lambda: describe_groups.DescribeGroupsRequest(groups=[GROUP]), 5, ((Op.DESCRIBE, G),))
    ],
    ApiKey.LIST_GROUPS: [
        Row(
            list_groups.ListGroupsRequest,
            4,
            ((Op.DESCRIBE, G),),
            shows=lambda answer: [one.group_id for one in answer.groups],
        )
    ],
    ApiKey.CREATE_TOPICS: [
        Row(
            lambda: create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
                ],
                validate_only=True,
            ),
            5,
            ((Op.CREATE, T),),
        )
    ],
    ApiKey.DELETE_TOPICS: [
        Row(lambda: delete_topics.DeleteTopicsRequest(topic_names=[TOPIC]), 3, ((Op.DELETE, T),))
    ],
    ApiKey.DELETE_RECORDS: [
        Row(
            lambda: delete_records.DeleteRecordsRequest(
                topics=[
                    delete_records.DeleteRecordsTopic(
                        name=TOPIC,
                        partitions=[
                            delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
                        ],
                    )
                ]
            ),
            2,
            ((Op.DELETE, T),),
        )
    ],
    ApiKey.INIT_PRODUCER_ID: [
        Row(
            lambda: init_producer_id.InitProducerIdRequest(
                transactional_id=TXN, transaction_timeout_ms=1000
            ),
            2,
            ((Op.WRITE, X),),
        ),
        Row(
            lambda: init_producer_id.InitProducerIdRequest(transactional_id=None),
            2,
            ((Op.IDEMPOTENT_WRITE, C),),
        ),
    ],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [
        Row(
            lambda: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=[
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        topic=TOPIC,
                        partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0)],
                    )
                ]
            ),
            3,
            ((Op.DESCRIBE, T),),
        )
    ],
    ApiKey.ADD_PARTITIONS_TO_TXN: [
        Row(
            lambda: add_partitions.AddPartitionsToTransactionRequest(
                v3_and_below_transactional_id=TXN,
                v3_and_below_topics=[add_partitions.AddPartitionsTopic(name=TOPIC, partitions=[0])],
            ),
            3,
            ((Op.WRITE, X), (Op.WRITE, T)),
        ),
        Row(
            lambda: add_partitions.AddPartitionsToTransactionRequest(transactions=[]),
            4,
            ((Op.CLUSTER_ACTION, C),),
        ),
    ],
    ApiKey.ADD_OFFSETS_TO_TXN: [
        Row(
            lambda: add_offsets_to_transaction.AddOffsetsToTransactionRequest(
                transactional_id=TXN, group_id=GROUP
            ),
            3,
            ((Op.WRITE, X), (Op.READ, G)),
        )
    ],
    ApiKey.END_TXN: [
        Row(
            lambda: end_transaction.EndTransactionRequest(transactional_id=TXN),
            3,
            ((Op.WRITE, X),),
        )
    ],
    ApiKey.WRITE_TXN_MARKERS: [
        Row(
            lambda: write_transaction_markers.WriteTransactionMarkersRequest(
                markers=[
                    write_transaction_markers.WritableTransactionMarker(
                        topics=[
                            write_transaction_markers.WritableTransactionMarkerTopic(
                                name=TOPIC, partition_indexes=[0]
                            )
                        ]
                    )
                ]
            ),
            1,
            ((Op.CLUSTER_ACTION, C),),
        )
    ],
    ApiKey.TXN_OFFSET_COMMIT: [
        Row(
            lambda: transaction_offset_commit.TransactionOffsetCommitRequest(
                transactional_id=TXN,
                group_id=GROUP,
                topics=[offsets(transaction_offset_commit, "TransactionOffsetCommit")],
            ),
            3,
            ((Op.WRITE, X), (Op.READ, G), (Op.READ, T)),
        )
    ],
    ApiKey.DESCRIBE_ACLS: [
        Row(
            lambda: describe_acls.DescribeAclsRequest(
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            ),
            2,
            ((Op.DESCRIBE, C),),
        )
    ],
    ApiKey.CREATE_ACLS: [
        Row(
            lambda: create_acls.CreateAclsRequest(creations=[create_acls.AclCreation()]),
            2,
            ((Op.ALTER, C),),
        )
    ],
    ApiKey.DELETE_ACLS: [
        Row(
            lambda: delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter()]),
            2,
            ((Op.ALTER, C),),
        )
    ],
    ApiKey.DESCRIBE_CONFIGS: [
        Row(
            lambda kind=kind, name=name: describe_configs.DescribeConfigsRequest(  # type: ignore[misc]
                resources=[config(describe_configs, kind, name)]
            ),
            4,
            ((Op.DESCRIBE_CONFIGS, resource),),
        )
        for kind, name, resource in ((2, TOPIC, T), (4, "", C), (32, GROUP, G))
    ],
    ApiKey.ALTER_CONFIGS: [
        Row(
            lambda kind=kind, name=name: alter_configs.AlterConfigsRequest(  # type: ignore[misc]
                resources=[config(alter_configs, kind, name)], validate_only=True
            ),
            2,
            ((Op.ALTER_CONFIGS, resource),),
        )
        for kind, name, resource in ((2, TOPIC, T), (4, "", C), (32, GROUP, G))
    ],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [
        Row(
            lambda kind=kind, name=name: incremental_alter_configs.IncrementalAlterConfigsRequest(  # type: ignore[misc]
                resources=[config(incremental_alter_configs, kind, name)], validate_only=True
            ),
            1,
            ((Op.ALTER_CONFIGS, resource),),
        )
        for kind, name, resource in ((2, TOPIC, T), (4, "", C), (32, GROUP, G))
    ],
    ApiKey.ALTER_REPLICA_LOG_DIRS: [
        Row(
            lambda: move.AlterReplicaLogDirsRequest(
                dirs=[
                    move.AlterReplicaLogDir(
                        path="/x",
                        topics=[move.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])],
                    )
                ]
            ),
            2,
            ((Op.ALTER, C),),
        )
    ],
    ApiKey.DESCRIBE_LOG_DIRS: [
        Row(lambda: describe_log_dirs.DescribeLogDirsRequest(topics=None), 3, ((Op.DESCRIBE, C),))
    ],
    ApiKey.CREATE_PARTITIONS: [
        Row(
            lambda: create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(name=TOPIC, count=2, assignments=None)
                ],
                validate_only=True,
            ),
            2,
            ((Op.ALTER, T),),
        )
    ],
    ApiKey.DELETE_GROUPS: [
        Row(lambda: delete_groups.DeleteGroupsRequest(groups_names=[GROUP]), 2, ((Op.DELETE, G),))
    ],
    ApiKey.ELECT_LEADERS: [
        Row(lambda: elect_leaders.ElectLeadersRequest(topic_partitions=None), 2, ((Op.ALTER, C),))
    ],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [
        Row(reassign.AlterPartitionReassignmentsRequest, 0, ((Op.ALTER, C),))
    ],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [
        Row(
            list_partition_reassignments.ListPartitionReassignmentsRequest,
            0,
            ((Op.DESCRIBE, C),),
        )
    ],
    ApiKey.OFFSET_DELETE: [
        Row(
            lambda: offset_delete.OffsetDeleteRequest(
                group_id=GROUP, topics=[offsets(offset_delete, "OffsetDelete")]
            ),
            0,
            ((Op.DELETE, G), (Op.READ, T)),
        )
    ],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [
        Row(
            describe_client_quotas.DescribeClientQuotasRequest,
            1,
            ((Op.DESCRIBE_CONFIGS, C),),
        )
    ],
    ApiKey.ALTER_CLIENT_QUOTAS: [
        Row(
            lambda: alter_quotas.AlterClientQuotasRequest(entries=[alter_quotas.EntryData()]),
            1,
            ((Op.ALTER_CONFIGS, C),),
        )
    ],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [
        Row(
            lambda: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
            0,
            ((Op.DESCRIBE, C),),
        )
    ],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [
        Row(
            lambda: alter_users.AlterUserScramCredentialsRequest(
                deletions=[alter_users.ScramCredentialDeletion(name="bob", mechanism=1)]
            ),
            0,
            ((Op.ALTER, C),),
        )
    ],
    ApiKey.DESCRIBE_CLUSTER: [
        Row(
            lambda: describe_cluster.DescribeClusterRequest(
                include_cluster_authorized_operations=True
            ),
            0,
            ((Op.DESCRIBE, C),),
            shows=lambda answer: answer.cluster_authorized_operations,
        )
    ],
    ApiKey.DESCRIBE_PRODUCERS: [
        Row(
            lambda: describe_producers.DescribeProducersRequest(
                topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])]
            ),
            0,
            ((Op.READ, T),),
        )
    ],
    ApiKey.DESCRIBE_TRANSACTIONS: [
        Row(
            lambda: describe_transactions.DescribeTransactionsRequest(transactional_ids=[TXN]),
            0,
            ((Op.DESCRIBE, X),),
        )
    ],
    ApiKey.LIST_TRANSACTIONS: [
        Row(
            list_transactions.ListTransactionsRequest,
            0,
            ((Op.DESCRIBE, X),),
            shows=lambda answer: answer.transaction_states,
        )
    ],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [
        Row(
            lambda: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id="m", member_epoch=5, subscribed_topic_names=[TOPIC]
            ),
            0,
            ((Op.READ, G), (Op.DESCRIBE, T)),
        )
    ],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [
        Row(
            lambda: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[GROUP]),
            0,
            ((Op.DESCRIBE, G),),
        )
    ],
    ApiKey.LIST_CONFIG_RESOURCES: [
        Row(list_config_resources.ListConfigResourcesRequest, 0, ((Op.DESCRIBE_CONFIGS, C),))
    ],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
        Row(
            lambda: describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=TOPIC)], cursor=None
            ),
            0,
            ((Op.DESCRIBE, T),),
        ),
        Row(
            lambda: describe_topic_partitions.DescribeTopicPartitionsRequest(cursor=None),
            0,
            ((Op.DESCRIBE, T),),
            shows=lambda answer: answer.topics,
        ),
    ],
}

OPEN_TO_ALL = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}
BY_OWNER = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""What Kafka decides by the token, and tests/unit/server/test_tokens.py tries."""


def acl(
    need: Need,
    permission: Permission = Permission.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
) -> Acl:
    operation, resource_type = need
    name = NAMES[resource_type]
    if pattern_type is PatternType.PREFIXED:
        name = name[:-2]
    pattern = ResourcePattern(resource_type, pattern_type, name)
    return Acl(pattern, Entry(str(ANA), "*", operation, permission))


class Judge:
    """One broker for all rows; what it knows of rules is replaced for each question."""

    def __init__(self) -> None:
        self.broker: Broker = open_broker(
            disk("/d"),
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            super_users="User:admin",
        )
        self.broker.create_topic(NEW_TOPIC)
        self.asker = Asker(self.broker, client=Client(ADDRESS, HOST, ANA))
        admin = Asker(self.broker, client=Client(ADDRESS, HOST, Principal("User", "admin")))
        commit = ROWS[ApiKey.OFFSET_COMMIT][0]
        admin.ask(commit.request(), commit.version)
        begin = ROWS[ApiKey.INIT_PRODUCER_ID][0]
        admin.ask(begin.request(), begin.version)

    def is_denied(self, row: Row, need: Need, rules: list[Acl]) -> bool:
        assert self.broker.authorizer is not None
        self.broker.authorizer.change(rules)
        request = row.request()
        later, output = self.asker.send(request, row.version)
        if later is not None:
            return False
        return row.is_denied(self.asker.decode(request, row.version, output), need)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


CASES = [
    pytest.param(row, need, id=f"{key.name}-{at}-{need[0].name}-{need[1].name}")
    for key, rows in ROWS.items()
    for at, row in enumerate(rows)
    for need in row.needs
]


@pytest.mark.parametrize(("row", "need"), CASES)
def test_each_api_is_answered_as_the_rules_say(judge: Judge, row: Row, need: Need) -> None:
    others = [acl(one) for one in row.needs if one != need]
    prefixed = acl(need, pattern_type=PatternType.PREFIXED)
    denied = acl(need, Permission.DENY)
    assert judge.is_denied(row, need, others), "denied by absence"
    assert judge.is_denied(row, need, [*others, acl(need), denied]), "denied by rule"
    if need[1] is not C:
        forbidden = acl(need, Permission.DENY, PatternType.PREFIXED)
        assert judge.is_denied(row, need, [*others, acl(need), forbidden]), "denied by prefix"
        assert not judge.is_denied(row, need, [*others, prefixed]), "allowed by prefix"
    # Last, since the first that is allowed may change something.
    assert not judge.is_denied(row, need, [*others, acl(need)]), "allowed"
    if row.request().API_KEY == ApiKey.DELETE_TOPICS:
        judge.broker.create_topic(NEW_TOPIC)


def test_every_api_that_is_answered_has_a_row_and_a_guard() -> None:
    assert set(APIS) == set(ROWS) | OPEN_TO_ALL | BY_OWNER
    assert set(GUARDS) == set(APIS)
    assert {key for key, guard in GUARDS.items() if guard is None} == OPEN_TO_ALL | BY_OWNER
