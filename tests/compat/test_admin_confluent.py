"""librdkafka's admin client changes and describes everything that it can."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import TopicCollection as Names
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow


ACL = AclBinding(
    ResourceType.TOPIC,
    "t",
    ResourcePatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[AdminClient]:
    with serving(open_broker(tmp_path / "data")) as server:
        client = AdminClient({"bootstrap.servers": "{}:{}".format(*server.address)})
        create(client, NewTopic("t", num_partitions=2, config={"retention.ms": "5"}))
        yield client


def result(futures: dict[Any, Future[Any]]) -> Any:
    """What the only future of a request brings."""
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def refusal(futures: dict[Any, Future[Any]]) -> tuple[int, str]:
    with pytest.raises(KafkaException) as caught:
        result(futures)
    error = caught.value.args[0]
    return error.code(), error.str()


def create(admin: AdminClient, *topics: NewTopic, **settings: Any) -> None:
    for future in admin.create_topics(list(topics), **settings).values():
        future.result(PATIENCE_S)


def configs(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = result(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def alter(
    admin: AdminClient, kind: ResourceType, name: str, *changes: tuple[str, AlterConfigOpType, Any]
) -> dict[Any, Future[Any]]:
    entries = [
        ConfigEntry(key, value, incremental_operation=operation)
        for key, operation, value in changes
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    futures: dict[Any, Future[Any]] = admin.incremental_alter_configs([resource])
    return futures


def test_topics_are_made_grown_and_deleted(admin: AdminClient) -> None:
    create(admin, NewTopic("dry", num_partitions=1), validate_only=True)
    create(admin, NewTopic("placed", num_partitions=3, replica_assignment=[[1], [1], [1]]))
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {"t": 2, "placed": 3}
    result(admin.create_partitions([NewPartitions("t", 4)]))
    described = result(admin.describe_topics(Names(["t"])))
    assert [one.id for one in described.partitions] == [0, 1, 2, 3]
    assert not described.is_internal
    result(admin.delete_topics(["placed"]))
    assert list(admin.list_topics(timeout=PATIENCE_S).topics) == ["t"]


def test_topics_that_cannot_be_are_refused_with_kafkas_codes(admin: AdminClient) -> None:
    assert refusal(admin.create_topics([NewTopic("t")]))[0] == KafkaError.TOPIC_ALREADY_EXISTS
    refused = refusal(admin.create_topics([NewTopic("u", config={"retention.ms": "x"})]))
    assert refused == (
        KafkaError.INVALID_CONFIG,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    )
    twice = [NewTopic("u", num_partitions=1, replication_factor=2)]
    assert refusal(admin.create_topics(twice))[0] == KafkaError.INVALID_REPLICATION_FACTOR
    shrunk = refusal(admin.create_partitions([NewPartitions("t", 1)]))
    assert shrunk[0] == KafkaError.INVALID_PARTITIONS
    assert refusal(admin.delete_topics(["u"]))[0] == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_settings_are_changed_one_by_one_and_all_at_once(admin: AdminClient) -> None:
    changes = (
        ("segment.bytes", AlterConfigOpType.SET, "2000"),
        ("cleanup.policy", AlterConfigOpType.APPEND, "compact"),
        ("retention.ms", AlterConfigOpType.DELETE, None),
    )
    result(alter(admin, ResourceType.TOPIC, "t", *changes))
    found = configs(admin, ResourceType.TOPIC, "t")
    assert found["segment.bytes"].value == "2000"
    assert found["cleanup.policy"].value == "delete,compact"
    assert found["retention.ms"].value == "604800000"
    assert found["retention.ms"].is_default
    result(
        alter(
            admin,
            ResourceType.TOPIC,
            "t",
            ("cleanup.policy", AlterConfigOpType.SUBTRACT, "compact"),
        )
    )
    whole = ConfigResource(ResourceType.TOPIC, "t", set_config={"retention.ms": "9"})
    with pytest.deprecated_call():
        result(admin.alter_configs([whole]))
    found = configs(admin, ResourceType.TOPIC, "t")
    assert (found["retention.ms"].value, found["segment.bytes"].value) == ("9", "1073741824")


def test_a_brokers_settings_are_changed_and_described(admin: AdminClient) -> None:
    change = ("log.retention.ms", AlterConfigOpType.SET, "77")
    result(alter(admin, ResourceType.BROKER, "1", change))
    found = configs(admin, ResourceType.BROKER, "1")
    assert (found["log.retention.ms"].value, found["log.retention.ms"].source) == ("77", 2)
    assert found["num.partitions"].is_read_only
    create(admin, NewTopic("u"))
    assert configs(admin, ResourceType.TOPIC, "u")["retention.ms"].value == "77"
    assert configs(admin, ResourceType.TOPIC, "t")["retention.ms"].value == "5"
    fixed = ("num.partitions", AlterConfigOpType.SET, "7")
    code, message = refusal(alter(admin, ResourceType.BROKER, "1", fixed))
    assert code == KafkaError.INVALID_REQUEST
    assert message == "Cannot update these configs dynamically: [num.partitions]"


def test_a_groups_settings_are_changed_and_described(admin: AdminClient) -> None:
    name = "consumer.session.timeout.ms"
    found = configs(admin, ResourceType.GROUP, "g")[name]
    assert (found.value, found.is_default) == ("45000", True)
    result(alter(admin, ResourceType.GROUP, "g", (name, AlterConfigOpType.SET, "50000")))
    found = configs(admin, ResourceType.GROUP, "g")[name]
    assert (found.value, found.source, found.is_default) == ("50000", 8, False)
    assert list(found.synonyms) == [name, f"group.{name}"]
    code, message = refusal(
        alter(admin, ResourceType.GROUP, "g", (name, AlterConfigOpType.SET, "1"))
    )
    assert code == KafkaError.INVALID_CONFIG
    assert name in message
    result(alter(admin, ResourceType.GROUP, "g", (name, AlterConfigOpType.DELETE, None)))
    assert configs(admin, ResourceType.GROUP, "g")[name].is_default


def test_changes_outlive_a_restart(tmp_path: Path) -> None:
    with serving(open_broker(tmp_path)) as server:
        admin = AdminClient({"bootstrap.servers": "{}:{}".format(*server.address)})
        create(admin, NewTopic("t", num_partitions=1), NewTopic("gone", num_partitions=1))
        result(admin.create_partitions([NewPartitions("t", 2)]))
        setting = AlterConfigOpType.SET
        result(alter(admin, ResourceType.TOPIC, "t", ("retention.ms", setting, "8")))
        result(alter(admin, ResourceType.BROKER, "1", ("log.segment.bytes", setting, "99")))
        result(admin.delete_topics(["gone"]))
        cluster_id = result({0: admin.describe_cluster()}).cluster_id
    with serving(open_broker(tmp_path)) as server:
        admin = AdminClient({"bootstrap.servers": "{}:{}".format(*server.address)})
        topics = admin.list_topics(timeout=PATIENCE_S).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"t": 2}
        found = configs(admin, ResourceType.TOPIC, "t")
        assert (found["retention.ms"].value, found["segment.bytes"].value) == ("8", "99")
        assert result({0: admin.describe_cluster()}).cluster_id == cluster_id


def test_records_are_deleted_and_offsets_listed(admin: AdminClient) -> None:
    address = admin.list_topics(timeout=PATIENCE_S).brokers[1]
    producer = Producer({"bootstrap.servers": f"{address.host}:{address.port}"})
    for number in range(10):
        producer.produce("t", b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    deleted = result(admin.delete_records([TopicPartition("t", 0, 4)]))
    assert deleted.low_watermark == 4
    found = result(admin.list_offsets({TopicPartition("t", 0): OffsetSpec.earliest()}))
    assert found.offset == 4
    code, _ = refusal(admin.delete_records([TopicPartition("t", 0, 11)]))
    assert code == KafkaError.OFFSET_OUT_OF_RANGE


def test_the_cluster_is_described(admin: AdminClient) -> None:
    described = result({0: admin.describe_cluster(include_authorized_operations=True)})
    assert described.controller.id == 1
    assert [node.id for node in described.nodes] == [1]
    assert AclOperation.ALTER in described.authorized_operations


def test_no_election_is_needed(admin: AdminClient) -> None:
    wanted = [TopicPartition("t", 0)]
    (error,) = result({0: admin.elect_leaders(ElectionType.PREFERRED, wanted)}).values()
    assert error.code() == KafkaError.ELECTION_NOT_NEEDED
    assert result({0: admin.elect_leaders(ElectionType.PREFERRED)}) == {}


def test_there_is_no_security_to_administer(admin: AdminClient) -> None:
    anything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    # librdkafka does not look at the error of a description; there is none to see in any case.
    assert result({0: admin.describe_acls(anything)}) == []
    for futures in (admin.delete_acls([anything]), admin.create_acls([ACL])):
        assert refusal(futures) == (KafkaError.SECURITY_DISABLED, "No Authorizer is configured.")
    assert refusal(admin.describe_user_scram_credentials(["u"]))[0] == KafkaError.RESOURCE_NOT_FOUND
