"""What tools and other people's suites compare with Kafka 3.9, setting by setting, code by code."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.server.handling.operations import TOPIC_OPERATIONS
from tests.support.asking import Asker
from tests.support.brokers import batch, disk, open_broker

TOPIC, BROKER = 2, 4

KAFKA_BROKER_SETTINGS = Path(__file__).with_name("kafka-3.9-broker-settings.txt")
"""The names on the page of broker settings that Kafka 3.9 generates: all but internal ones, which
are those that it describes to clients."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = open_broker(disk("/d"))
    yield broker
    broker.close()


@pytest.fixture
def asker(broker: Broker) -> Asker:
    return Asker(broker)


# Old consumers


def fetched(asker: Asker, version: int) -> Any:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition])])
    (data,) = asker.ask(request, version).responses[0].partitions
    return data


@pytest.mark.parametrize("version", range(4))
def test_a_topic_may_refuse_consumers_that_need_an_older_format(
    asker: Asker, broker: Broker, version: int
) -> None:
    off = {"message.downconversion.enable": "false"}
    broker.admin.create_topic(NewTopic(name="t", overrides=off))
    assert fetched(asker, version).error_code == ErrorCode.UNSUPPORTED_VERSION
    broker.appends.append(broker.topics.partition("t", 0), batch(b"a"), now_ms=1)
    broker.appends.write_out()
    refused = fetched(asker, version)
    assert (refused.error_code, refused.high_watermark) == (ErrorCode.UNSUPPORTED_VERSION, -1)
    assert fetched(asker, 4).error_code == 0


def test_the_broker_refuses_them_for_all_topics_that_do_not_say_otherwise() -> None:
    broker = open_broker(disk("/d"), log_message_downconversion_enable="false")
    broker.admin.create_topic(NewTopic(name="t"))
    assert fetched(Asker(broker), 3).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_format_that_the_consumer_knows_is_not_converted_and_not_refused() -> None:
    broker = open_broker(disk("/d"), inter_broker_protocol_version="2.8")
    overrides = {"message.format.version": "0.10.0", "message.downconversion.enable": "false"}
    broker.admin.create_topic(NewTopic(name="t", overrides=overrides))
    assert fetched(Asker(broker), 2).error_code == 0
    assert fetched(Asker(broker), 1).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("version", "is_refused"), [(1, True), (3, True), (9, True), (10, False)])
def test_a_topic_compressed_with_zstd_is_refused_to_consumers_that_may_not_know_it(
    asker: Asker, broker: Broker, version: int, is_refused: bool
) -> None:
    broker.admin.create_topic(NewTopic(name="t", overrides={"compression.type": "zstd"}))
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if is_refused else 0
    assert fetched(asker, version).error_code == code


# Features


def features(asker: Asker, version: int) -> tuple[Any, Any, int]:
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    answer = asker.ask(request, version)
    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    finalized = {
        one.name: (one.min_version_level, one.max_version_level)
        for one in answer.finalized_features
    }
    return supported, finalized, answer.finalized_features_epoch


def test_the_features_of_the_cluster_are_listed_with_an_epoch(asker: Asker) -> None:
    supported, finalized, epoch = features(asker, 4)
    assert supported == {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "transaction.version": (0, 2),
    }
    assert finalized == {
        "eligible.leader.replicas.version": (1, 1),
        "group.version": (1, 1),
        "kraft.version": (1, 1),
        "metadata.version": (33, 33),
        "share.version": (2, 2),
        "transaction.version": (2, 2),
    }
    assert epoch > 0


def test_clients_that_take_level_zero_for_a_mistake_do_not_see_it(asker: Asker) -> None:
    supported, finalized, _ = features(asker, 3)
    assert supported == {"metadata.version": (7, 33)}
    assert len(finalized) == 6


# DescribeConfigs


def described(broker: Broker, kind: int, name: str) -> tuple[str | None, dict[str, Any]]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = Asker(broker).ask(request, 4).results
    return result.error_message, {one.name: one for one in result.configs}


def test_a_description_that_succeeds_has_an_empty_message(broker: Broker) -> None:
    assert described(broker, BROKER, "1")[0] == ""


OTTLAS_OWN = {
    "controller.quorum.auto.join.enable",  # of a later Kafka, as the next
    "controller.quorum.fetch.max.bytes",
    "controller.quorum.fetch.snapshot.max.bytes",
    "cordoned.log.dirs",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.topic.name.prefix",
    "follower.fetch.last.tiered.offset.enable",
    "group.share.assignment.interval.ms",  # of Kafka 4, as the next
    "group.share.initialize.retry.interval.ms",
    "group.share.max.assignment.interval.ms",
    "group.share.max.delivery.count.limit",
    "group.share.max.partition.max.record.locks",
    "group.share.max.share.sessions",
    "group.share.min.assignment.interval.ms",
    "group.share.min.delivery.count.limit",
    "group.share.min.partition.max.record.locks",
    "share.coordinator.cold.partition.snapshot.interval.ms",
    "share.coordinator.snapshot.update.records.per.snapshot",
    "share.coordinator.state.topic.compression.codec",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.prune.interval.ms",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.segment.bytes",
    "share.coordinator.write.timeout.ms",
    "log.remote.copy.lag.bytes",  # KIP-1241, as the next
    "log.remote.copy.lag.ms",
    "max.auto.create.topics.per.minute",
    "max.auto.create.topics.per.request",
    "max.incremental.fetch.session.cache.partitions",
    # Kafka has them, but describes them only later, or not at all.
    "remote.list.offsets.request.timeout.ms",
    "remote.log.index.file.cache.ttl.ms",
    "remote.log.manager.task.retry.backoff.max.ms",
    "remote.log.manager.task.retry.backoff.ms",
    "remote.log.manager.task.retry.jitter",
    "unclean.leader.election.interval.ms",
}


def test_a_broker_describes_kafkas_settings_and_ottlas_own(broker: Broker) -> None:
    _, configs = described(broker, BROKER, "1")
    own = OTTLAS_OWN | {name for name in configs if name.startswith("ottla.")}
    assert configs.keys() - own == set(KAFKA_BROKER_SETTINGS.read_text().split())


def test_the_authorizer_of_old_files_is_taken() -> None:
    old = "kafka.security.auth.SimpleAclAuthorizer"
    with closing(open_broker(disk("/d"), authorizer_class_name=old)) as broker:
        assert broker.security.authorizer is not None


def test_a_client_that_may_not_describe_users_hears_so_for_each() -> None:
    users = [UserName(name="a"), UserName(name="b")]
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    authorizer = "kafka.security.authorizer.AclAuthorizer"
    with closing(open_broker(disk("/d"), authorizer_class_name=authorizer)) as broker:
        for asked in (None, [], users):
            request = DescribeUserScramCredentialsRequest(users=asked)
            answer = Asker(broker).ask(request, 0)
            found = [(one.user, one.error_code) for one in answer.results]
            assert (answer.error_code, found) == (denied, [("", denied)] * len(asked or []))


def test_what_kafka_describes_only_where_it_is_set_is_described_then() -> None:
    given = {"super.users": "User:a", "log.initial.task.delay.ms": "1"}
    with closing(
        open_broker(disk("/d"), **{name.replace(".", "_"): text for name, text in given.items()})
    ) as broker:
        _, configs = described(broker, BROKER, "1")
        # Kafka's broker does not know its authorizer's settings, and so takes them for secrets.
        found = {name: (configs[name].value, configs[name].is_sensitive) for name in given}
        assert found == {"super.users": (None, True), "log.initial.task.delay.ms": ("1", False)}
        assert "allow.everyone.if.no.acl.found" not in configs


def test_every_setting_that_kafka_lists_is_listed_with_its_default(broker: Broker) -> None:
    _, configs = described(broker, BROKER, "1")
    expected = {
        "num.network.threads": ("3", 3, False),
        "num.replica.fetchers": ("1", 3, False),
        "broker.rack": (None, 2, True),
        "leader.imbalance.per.broker.percentage": ("10", 3, True),
        "principal.builder.class": (
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            8,
            False,
        ),
        "process.roles": ("", 7, True),
        "sasl.kerberos.ticket.renew.jitter": ("0.05", 6, False),
        "socket.listen.backlog.size": ("50", 3, True),
        "ssl.keystore.password": (None, 9, False),
        "zookeeper.session.timeout.ms": ("18000", 3, True),
        "group.share.max.groups": ("10", 4, True),
        "log.message.format.version": ("3.0-IV1", 2, True),
    }
    found = {
        name: (configs[name].value, configs[name].config_type, configs[name].read_only)
        for name in expected
    }
    assert found == expected
    assert all(one.documentation for one in configs.values())


def test_times_of_all_logs_are_null_until_they_are_given(broker: Broker) -> None:
    names = ("log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms")
    _, configs = described(broker, BROKER, "1")
    for name in (*names, "log.retention.minutes"):
        one = configs[name]
        assert (one.value, one.synonyms, one.config_source) == (None, [], 5)
    assert configs["log.retention.hours"].value == "168"
    given = open_broker(disk("/d"), **{one.replace(".", "_"): "7" for one in names})
    _, configs = described(given, BROKER, "1")
    assert {configs[name].value for name in names} == {"7"}
    given.close()


def test_a_setting_without_a_default_has_no_synonym(broker: Broker) -> None:
    broker.admin.create_topic(NewTopic(name="t"))
    _, configs = described(broker, TOPIC, "t")
    for name in (
        "retention.ms",
        "segment.ms",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
    ):
        assert (configs[name].synonyms, configs[name].config_source) == ([], 5)
    assert configs["retention.ms"].value == "604800000"
    assert [one.name for one in configs["segment.bytes"].synonyms] == ["log.segment.bytes"]
    _, configs = described(broker, BROKER, "1")
    assert (configs["broker.rack"].synonyms, configs["advertised.listeners"].synonyms) == ([], [])


def test_what_a_coarser_unit_says_is_reported_for_that_unit_only() -> None:
    broker = open_broker(disk("/d"), log_retention_hours="2")
    _, configs = described(broker, BROKER, "1")
    assert (configs["log.retention.ms"].value, configs["log.retention.ms"].synonyms) == (None, [])
    hours = [(one.name, one.value, one.source) for one in configs["log.retention.hours"].synonyms]
    assert hours == [("log.retention.hours", "2", 4), ("log.retention.hours", "168", 5)]
    broker.admin.create_topic(NewTopic(name="t"))
    assert described(broker, TOPIC, "t")[1]["retention.ms"].value == "7200000"


# DescribeTopicPartitions


def page(asker: Asker, cursor: Cursor | None, *names: str, limit: int = 2000) -> Any:
    topics = [TopicRequest(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(
        topics=topics, cursor=cursor, response_partition_limit=limit
    )
    return asker.ask(request, 0)


@pytest.mark.parametrize(
    "cursor",
    [Cursor(topic_name="u", partition_index=0), Cursor(topic_name="t", partition_index=-1)],
    ids=["not-asked-for", "negative"],
)
def test_a_cursor_at_which_no_page_can_begin_is_refused_for_each_topic(
    asker: Asker, broker: Broker, cursor: Cursor
) -> None:
    broker.admin.create_topic(NewTopic(name="t"))
    answer = page(asker, cursor, "t")
    assert [(one.name, one.error_code) for one in answer.topics] == [
        ("t", ErrorCode.INVALID_REQUEST)
    ]
    assert answer.next_cursor is None


def test_what_may_be_done_is_reported_for_topics_that_are_not_there_too(asker: Asker) -> None:
    (topic,) = page(asker, None, "u").topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.topic_authorized_operations == TOPIC_OPERATIONS


def test_a_page_has_no_more_partitions_than_the_broker_allows() -> None:
    broker = open_broker(disk("/d"), max_request_partition_size_limit="2")
    broker.admin.create_topic(NewTopic(name="t", partition_count=3))
    answer = page(Asker(broker), None)
    assert len(answer.topics[0].partitions) == 2
    assert answer.next_cursor.partition_index == 2
