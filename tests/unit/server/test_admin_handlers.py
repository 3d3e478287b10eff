"""What admin clients are answered about topics, partitions and the cluster."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.codec.schema import Message
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from ottla.protocol.messages.describe_producers import DescribeProducersRequest
from ottla.protocol.messages.describe_producers import TopicRequest as ProducersOfTopic
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.altering import alter_group
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import NOW_MS, batch, disk, open_broker

RECORD_COUNT = 5


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d", "/e")


@pytest.fixture
def broker(file_system: FakeFileSystem) -> Broker:
    broker = open_broker(file_system, "/d", "/e")
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    for _ in range(RECORD_COUNT):
        broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=NOW_MS)
    broker.appends.write_out()
    return broker


@pytest.fixture
def asker(broker: Broker) -> Asker:
    return Asker(broker)


# DeleteRecords


def deletion(topic: str, *offsets: tuple[int, int]) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=one, offset=two) for one, two in offsets]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)])


def deleted(asker: Asker, topic: str, *offsets: tuple[int, int]) -> list[tuple[int, int]]:
    (answer,) = asker.ask(deletion(topic, *offsets), 2).topics
    return [(one.error_code, one.low_watermark) for one in answer.partitions]


def test_records_are_deleted_up_to_an_offset_and_stay_so_after_a_crash(
    asker: Asker, broker: Broker, file_system: FakeFileSystem
) -> None:
    assert deleted(asker, "t", (0, 3)) == [(0, 3)]
    assert deleted(asker, "t", (0, 1)) == [(0, 3)], "a log's start never goes back"
    for partition in broker.topics.get("t").partitions.values():
        partition.log.writer.flush()
    after = open_broker(file_system.crash(CrashMode.STRICT), "/d", "/e")
    assert after.topics.partition("t", 0).log.log_start_offset == 3


def test_minus_one_deletes_every_record(asker: Asker) -> None:
    assert deleted(asker, "t", (0, -1), (1, -1)) == [(0, RECORD_COUNT), (0, 0)]


def test_records_that_cannot_be_deleted_stay(asker: Asker, broker: Broker) -> None:
    broker.admin.create_topic(NewTopic(name="c", overrides={"cleanup.policy": "compact"}))
    broker.admin.create_topic(NewTopic(name="__consumer_offsets"))
    beyond = (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert deleted(asker, "t", (0, RECORD_COUNT + 1), (0, -2), (2, 0)) == [
        beyond,
        beyond,
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert deleted(asker, "c", (0, 0)) == [(ErrorCode.POLICY_VIOLATION, -1)]
    assert deleted(asker, "__consumer_offsets", (0, 0)) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]


# CreatePartitions


def test_partitions_are_added_per_topic(asker: Asker, broker: Broker) -> None:
    broker.admin.create_topic(NewTopic(name="u"))
    topics = [
        CreatePartitionsTopic(name="t", count=3, assignments=None),
        CreatePartitionsTopic(
            name="u", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1])]
        ),
        CreatePartitionsTopic(name="v", count=2, assignments=None),
        CreatePartitionsTopic(name="w", count=2, assignments=None),
        CreatePartitionsTopic(name="w", count=2, assignments=None),
    ]
    results = asker.ask(CreatePartitionsRequest(topics=topics, timeout_ms=1), 3).results
    assert [(one.name, one.error_code) for one in results] == [
        ("t", 0),
        ("u", 0),
        ("v", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("w", ErrorCode.INVALID_REQUEST),
    ]
    assert {one.name: len(one.partitions) for one in broker.topics} == {"t": 3, "u": 2}


# Log directories


def test_log_directories_tell_what_lies_in_them(asker: Asker, broker: Broker) -> None:
    results = asker.ask(DescribeLogDirsRequest(topics=None), 4).results
    sizes = {
        (one.log_dir, topic.name, partition.partition_index): partition.partition_size
        for one in results
        for topic in one.topics
        for partition in topic.partitions
    }
    size = len(batch()) * RECORD_COUNT
    assert sizes == {("/d", "t", 0): size, ("/e", "t", 1): 0}
    assert all(0 < one.usable_bytes < one.total_bytes for one in results)


def test_log_directories_tell_only_of_what_is_asked_for(asker: Asker) -> None:
    topics = [DescribableLogDirTopic(topic="t", partitions=[1, 9])]
    results = asker.ask(DescribeLogDirsRequest(topics=topics), 1).results
    assert [(one.log_dir, len(one.topics)) for one in results] == [("/d", 0), ("/e", 1)]


def test_an_offline_directory_says_so(asker: Asker, broker: Broker) -> None:
    broker.directories[1].health.fail(OSError(5, "broken"))
    results = asker.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert [one.error_code for one in results] == [0, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize(
    ("path", "index", "code"),
    [
        ("/d", 0, ErrorCode.NONE),
        ("/d/../d/", 0, ErrorCode.NONE),
        ("/e", 0, ErrorCode.NONE),
        ("/f", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("/d", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_move_is_begun_or_refused(asker: Asker, path: str, index: int, code: ErrorCode) -> None:
    topics = [AlterReplicaLogDirTopic(name="t", partitions=[index])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    (topic,) = asker.ask(request, 2).results
    assert [ErrorCode(one.error_code) for one in topic.partitions] == [code]


def moved(asker: Asker, path: str) -> ErrorCode:
    topics = [AlterReplicaLogDirTopic(name="t", partitions=[0])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    return ErrorCode(asker.ask(request, 2).results[0].partitions[0].error_code)


def test_a_partition_on_the_move_is_reported_twice(asker: Asker, broker: Broker) -> None:
    assert moved(asker, "/e") is ErrorCode.NONE
    topics = [DescribableLogDirTopic(topic="t", partitions=[0])]
    results = asker.ask(DescribeLogDirsRequest(topics=topics), 4).results
    told = [
        (result.log_dir, one.is_future_key, one.offset_lag, one.partition_size)
        for result in results
        for topic in result.topics
        for one in topic.partitions
    ]
    size = len(batch()) * RECORD_COUNT
    assert told == [("/d", False, 0, size), ("/e", True, RECORD_COUNT, 0)]


def test_a_cordoned_directory_says_so_and_gets_no_partitions() -> None:
    broker = open_broker(disk("/d", "/e"), "/d", "/e", cordoned_log_dirs="/e")
    broker.admin.create_topic(NewTopic(name="t", partition_count=3))
    asker = Asker(broker)
    results = asker.ask(DescribeLogDirsRequest(topics=None), 5).results
    assert [(one.log_dir, one.is_cordoned, len(one.topics)) for one in results] == [
        ("/d", False, 1),
        ("/e", True, 0),
    ]
    assert moved(asker, "/e") is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert moved(asker, "/d") is ErrorCode.NONE


# Epochs and producers


def end_of(asker: Asker, epoch: int, **fields: Any) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, **fields)
    topics = [OffsetForLeaderTopic(topic="t", partitions=[wanted])]
    (topic,) = asker.ask(OffsetForLeaderEpochRequest(topics=topics), 4).topics
    (answer,) = topic.partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


def test_the_end_of_an_epoch_is_reported(asker: Asker) -> None:
    assert end_of(asker, 0) == (0, 0, RECORD_COUNT)
    assert end_of(asker, 0, current_leader_epoch=0) == (0, 0, RECORD_COUNT)
    assert end_of(asker, 1) == (0, -1, -1)
    assert end_of(asker, 0, current_leader_epoch=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


def test_producers_of_a_partition_are_described(asker: Asker, broker: Broker) -> None:
    broker.appends.append(
        broker.topics.partition("t", 1), batch(b"a", b"b", producer_id=7), now_ms=NOW_MS
    )
    topics = [ProducersOfTopic(name="t", partition_indexes=[0, 1, 2])]
    (topic,) = asker.ask(DescribeProducersRequest(topics=topics), 0).topics
    none, one, unknown = topic.partitions
    assert none.active_producers == []
    (producer,) = one.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 0, 1)
    assert producer.last_timestamp == NOW_MS + 1
    assert producer.current_transaction_start_offset == -1
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# The cluster


def test_the_cluster_is_this_broker(asker: Asker, broker: Broker) -> None:
    answer = asker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 2)
    assert (answer.cluster_id, answer.controller_id) == (broker.cluster_id, 1)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(1, *ADDRESS)]
    assert answer.cluster_authorized_operations > 0
    silent = asker.ask(DescribeClusterRequest(), 0)
    assert silent.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_endpoints_other_than_brokers_are_not_here(
    asker: Asker, kind: int, code: ErrorCode
) -> None:
    assert asker.ask(DescribeClusterRequest(endpoint_type=kind), 1).error_code == code


def pages(asker: Asker, limit: int, *names: str) -> list[list[tuple[str, list[int]]]]:
    found = []
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )
        answer = asker.ask(request, 0)
        found.append(
            [(one.name, [two.partition_index for two in one.partitions]) for one in answer.topics]
        )
        cursor = answer.next_cursor
        if cursor is None:
            return found


def test_topics_are_described_page_by_page(asker: Asker, broker: Broker) -> None:
    broker.admin.create_topic(NewTopic(name="a", partition_count=3))
    assert pages(asker, 2000) == [[("a", [0, 1, 2]), ("t", [0, 1])]]
    assert pages(asker, 2) == [[("a", [0, 1])], [("a", [2]), ("t", [0])], [("t", [1])]]
    assert pages(asker, 3) == [[("a", [0, 1, 2])], [("t", [0, 1])]]
    assert pages(asker, 1, "t") == [[("t", [0])], [("t", [1])]]


def test_a_cursor_at_a_topic_that_is_gone_continues_after_it(asker: Asker) -> None:
    cursor = Cursor(topic_name="gone", partition_index=7)
    answer = asker.ask(DescribeTopicPartitionsRequest(cursor=cursor), 0)
    assert [len(one.partitions) for one in answer.topics] == [2]


def test_topics_that_are_not_there_say_so(asker: Asker) -> None:
    topics = [TopicRequest(name=name) for name in ("t", "u", "a b")]
    answer = asker.ask(DescribeTopicPartitionsRequest(topics=topics, cursor=None), 0)
    assert {one.name: one.error_code for one in answer.topics} == {
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "t": 0,
        "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def elected(asker: Asker, topics: Any, kind: int = 0, version: int = 2) -> Any:
    return asker.ask(ElectLeadersRequest(election_type=kind, topic_partitions=topics), version)


def test_no_election_is_needed_unless_a_disk_is_gone(asker: Asker, broker: Broker) -> None:
    topics = [TopicPartitions(topic="t", partitions=[0, 1, 2])]

    def codes(kind: int) -> list[int]:
        (topic,) = elected(asker, topics, kind).replica_election_results
        return [one.error_code for one in topic.partition_result]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(0) == [ErrorCode.ELECTION_NOT_NEEDED] * 2 + [unknown]
    assert elected(asker, None).replica_election_results == []
    broker.directories[0].health.fail(OSError(5, "broken"))
    assert codes(0)[0] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert codes(1)[0] == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert len(elected(asker, None).replica_election_results) == 1


def test_an_unknown_kind_of_election_is_refused(asker: Asker) -> None:
    topics = [TopicPartitions(topic="t", partitions=[0])]
    assert elected(asker, topics, kind=7).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([1], ErrorCode.NONE),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_partition_can_only_stay_on_its_broker(
    asker: Asker, replicas: list[int] | None, code: ErrorCode
) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    topics = [ReassignableTopic(name="t", partitions=[partition])]
    (topic,) = asker.ask(AlterPartitionReassignmentsRequest(topics=topics), 1).responses
    assert [ErrorCode(one.error_code) for one in topic.partitions] == [code]


def test_nothing_is_on_the_move(asker: Asker) -> None:
    answer = asker.ask(ListPartitionReassignmentsRequest(), 0)
    assert (answer.error_code, answer.topics) == (0, [])


def test_resources_with_settings_are_listed(asker: Asker) -> None:
    answer = asker.ask(ListConfigResourcesRequest(), 1).config_resources
    listed = [(one.resource_type, one.resource_name) for one in answer]
    assert listed == [(2, "t"), (4, "1"), (8, "1")]
    timeout = ConfigChange(name="consumer.session.timeout.ms", value="50000")
    alter_group(asker.broker, "g", Alteration(changes=[timeout]))
    answer = asker.ask(ListConfigResourcesRequest(), 1).config_resources
    assert (answer[-1].resource_type, answer[-1].resource_name) == (32, "g")
    groups = asker.ask(ListConfigResourcesRequest(resource_types=[32]), 1).config_resources
    assert [one.resource_name for one in groups] == ["g"]
    only = asker.ask(ListConfigResourcesRequest(resource_types=[2]), 1).config_resources
    assert [one.resource_name for one in only] == ["t"]
    assert asker.ask(ListConfigResourcesRequest(), 0).config_resources == []
    refused = asker.ask(ListConfigResourcesRequest(resource_types=[7]), 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


# Security and telemetry, of which there is none


def test_access_rules_need_an_authorizer(asker: Asker) -> None:
    disabled = ErrorCode.SECURITY_DISABLED
    assert asker.ask(DescribeAclsRequest(), 3).error_code == disabled
    created = asker.ask(CreateAclsRequest(creations=[AclCreation(), AclCreation()]), 3)
    assert [one.error_code for one in created.results] == [disabled] * 2
    removed = asker.ask(DeleteAclsRequest(filters=[DeleteAclsFilter()]), 3)
    assert [one.error_code for one in removed.filter_results] == [disabled]


def test_nobody_has_a_password_or_a_token(asker: Asker) -> None:
    assert asker.ask(DescribeUserScramCredentialsRequest(users=None), 0).results == []
    users = [UserName(name=name) for name in ("a", "b", "b")]
    results = asker.ask(DescribeUserScramCredentialsRequest(users=users), 0).results
    assert [(one.user, one.error_code) for one in results] == [
        ("a", ErrorCode.RESOURCE_NOT_FOUND),
        ("b", ErrorCode.DUPLICATE_RESOURCE),
    ]


@pytest.mark.parametrize(
    "request_of_token",
    [
        CreateDelegationTokenRequest(max_lifetime_ms=-1),
        RenewDelegationTokenRequest(hmac=b"x"),
        ExpireDelegationTokenRequest(hmac=b"x"),
        DescribeDelegationTokenRequest(owners=None),
    ],
    ids=lambda one: type(one).__name__,
)
def test_requests_for_tokens_are_refused_on_a_plain_connection(
    asker: Asker, request_of_token: Message
) -> None:
    for version in range(request_of_token.VERSIONS.last + 1):
        answer = asker.ask(request_of_token, version)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_who_wants_to_authenticate_is_told_at_once_that_connections_are_plain(
    asker: Asker,
) -> None:
    for version in (0, 1):
        answer = asker.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    for version in (0, 1, 2):
        answer = asker.ask(SaslAuthenticateRequest(auth_bytes=b"x"), version)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_message == "This listener is without SASL."


def test_telemetry_is_not_reported_and_wants_nothing(asker: Asker) -> None:
    told = {one.api_key for one in asker.ask(ApiVersionsRequest(), 2).api_keys}
    assert not told & {71, 72}
    answer = asker.ask(GetTelemetrySubscriptionsRequest(), 0)
    assert answer.requested_metrics == []
    instance_id = answer.client_instance_id
    assert instance_id != ZERO_UUID

    def pushed(**fields: Any) -> ErrorCode:
        values = {
            "client_instance_id": instance_id,
            "subscription_id": answer.subscription_id,
            **fields,
        }
        return ErrorCode(asker.ask(PushTelemetryRequest(**values), 0).error_code)

    assert pushed() is ErrorCode.NONE
    assert pushed(client_instance_id=ZERO_UUID) is ErrorCode.INVALID_REQUEST
    assert pushed(subscription_id=0) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert pushed(compression_type=9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert pushed(metrics=bytes(1 << 21)) is ErrorCode.TELEMETRY_TOO_LARGE
