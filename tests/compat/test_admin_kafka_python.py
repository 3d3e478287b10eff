"""kafka-python's admin client changes and describes what librdkafka's does not know of."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    OffsetSpec,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import (
    InvalidReplicationAssignmentError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import TopicPartitionReplica

from ottla.broker.broker import Broker
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

RECORD_COUNT = 5
FIRST = TopicPartition("t", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return open_broker(tmp_path / "data")


@pytest.fixture
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    with serving(broker) as server:
        address = "{}:{}".format(*server.address)
        client = KafkaAdminClient(bootstrap_servers=address)
        client.create_topics({"t": {"num_partitions": 2, "configs": {"retention.ms": "5"}}})
        producer = KafkaProducer(bootstrap_servers=address)
        for _ in range(RECORD_COUNT):
            producer.send("t", b"x", partition=0)
        producer.flush()
        producer.close()
        yield client
        client.close()


def settings(admin: KafkaAdminClient, kind: ConfigResourceType, name: str) -> dict[str, str]:
    described = admin.describe_configs([ConfigResource(kind, name)])
    (found,) = next(iter(described.values())).values()
    return {key: config["value"] for key, config in found.items()}


def topic(**configs: Any) -> ConfigResource:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return ConfigResource(ConfigResourceType.TOPIC, "t", configs=named)


def test_topics_are_made_grown_described_and_deleted(admin: KafkaAdminClient) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({"t": {"num_partitions": 1}})
    admin.create_partitions({"t": 4})
    for described in (
        admin.describe_topics(["t"]),
        admin.describe_topic_partitions(["t"])["topics"],
    ):
        (one,) = described
        assert [part["partition_index"] for part in one["partitions"]] == [0, 1, 2, 3]
    admin.delete_topics(["t"])
    assert admin.list_topics() == []
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["t"])


def test_settings_are_changed_and_reset(admin: KafkaAdminClient) -> None:
    kind = ConfigResourceType.TOPIC
    assert settings(admin, kind, "t") == {"retention.ms": "5"}
    admin.alter_configs([topic(segment_bytes="2000")])
    assert settings(admin, kind, "t") == {"retention.ms": "5", "segment.bytes": "2000"}
    admin.alter_configs([topic(segment_bytes="3000")], incremental=False)
    assert settings(admin, kind, "t") == {"retention.ms": "5", "segment.bytes": "3000"}
    admin.reset_configs([ConfigResource(kind, "t", configs=["segment.bytes"])])
    assert settings(admin, kind, "t") == {"retention.ms": "5"}
    refused = admin.alter_configs([topic(retention_ms="soon")], raise_on_unknown=False)
    assert "InvalidConfig" in str(refused)


def test_settings_of_the_broker_are_changed(admin: KafkaAdminClient) -> None:
    broker = ConfigResource(ConfigResourceType.BROKER, "1", configs={"log.segment.bytes": "3000"})
    admin.alter_configs([broker])
    assert settings(admin, ConfigResourceType.BROKER, "1")["log.segment.bytes"] == "3000"
    assert settings(admin, ConfigResourceType.TOPIC, "t")["segment.bytes"] == "3000"
    assert admin.list_config_resources() == {
        "topic": ["t"],
        "broker": ["1"],
        "broker_logger": ["1"],
    }


def test_settings_of_a_group_are_changed_and_reset(admin: KafkaAdminClient) -> None:
    kind, name = ConfigResourceType.GROUP, "consumer.session.timeout.ms"
    admin.alter_configs([ConfigResource(kind, "g", configs={name: "50000"})])
    assert settings(admin, kind, "g") == {name: "50000"}
    assert admin.list_config_resources()["group"] == ["g"]
    admin.reset_configs([ConfigResource(kind, "g", configs=[name])])
    assert settings(admin, kind, "g") == {}
    assert "group" not in admin.list_config_resources()


def test_log_directories_are_described(admin: KafkaAdminClient, broker: Broker) -> None:
    (one,) = admin.describe_log_dirs()
    (directory,) = one["log_dirs"]
    assert directory["log_dir"] == broker.directories[0].path
    ((name, partitions),) = [(two["name"], two["partitions"]) for two in directory["topics"]]
    assert name == "t"
    assert partitions[0]["partition_size"] > 0
    assert 0 < directory["usable_bytes"] < directory["total_bytes"]


def test_a_directory_that_is_not_there_takes_no_partition(admin: KafkaAdminClient) -> None:
    replica = TopicPartitionReplica(topic="t", partition=0, broker_id=1)
    results = admin.alter_replica_log_dirs({replica: "/nowhere"})
    assert "LogDirNotFound" in str(results)


def test_records_are_deleted(admin: KafkaAdminClient) -> None:
    results = admin.delete_records({FIRST: 3})
    assert results[FIRST]["low_watermark"] == 3
    found = admin.list_partition_offsets({FIRST: OffsetSpec.EARLIEST})
    assert found[FIRST].offset == 3


def test_partitions_stay_on_their_broker(admin: KafkaAdminClient) -> None:
    assert admin.alter_partition_reassignments({FIRST: [1]}) == {FIRST: None}
    refused = admin.alter_partition_reassignments({FIRST: [2]})
    assert refused == {FIRST: InvalidReplicationAssignmentError}
    assert admin.list_partition_reassignments() == {}


def test_producers_of_a_partition_are_described(admin: KafkaAdminClient) -> None:
    (producer,) = admin.describe_producers([FIRST])[FIRST].active_producers
    assert producer.last_sequence == RECORD_COUNT - 1
    assert producer.current_transaction_start_offset == -1


def test_the_cluster_is_described(admin: KafkaAdminClient, broker: Broker) -> None:
    described = admin.describe_cluster()
    assert described["cluster_id"] == broker.cluster_id
    assert described["controller_id"] == 1
    assert [one["broker_id"] for one in described["brokers"]] == [1]


def test_there_is_no_security_to_administer(admin: KafkaAdminClient) -> None:
    acl = ACL(
        "User:alice",
        "*",
        ACLOperation.READ,
        ACLPermissionType.ALLOW,
        ResourcePattern(ResourceType.TOPIC, "t"),
    )
    assert "SecurityDisabledError" in str(admin.create_acls([acl])["failed"])
    assert admin.describe_user_scram_credentials() == {}
