"""Apache Kafka's Java administrator sees and changes what there is, and is told what is not."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.compat.java import (
    HASTE_S,
    array_list,
    java_class,
    kafka,
    needs_java_client,
    needs_version_4,
    wait,
)
from tests.compat.java_clients import (
    JavaConsumer,
    administrator,
    close,
    create_topic,
    java_map,
    place,
    poll_until,
    producer,
    record,
    send_all,
)
from tests.integration.cli.support import serving

pytestmark = [pytest.mark.slow, needs_java_client]

OPTIONS = ["-o", "offsets.topic.num.partitions=2", "-o", "transaction.state.log.num.partitions=2"]
OPTIONS += ["-o", "group.initial.rebalance.delay.ms=0"]
names = (f"name{number}" for number in itertools.count())


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    address: str
    admin: Any
    directory: Path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    directory = tmp_path_factory.mktemp("java") / "data"
    options = [
        "-o",
        "offsets.topic.num.partitions=2",
        "-o",
        "transaction.state.log.num.partitions=2",
    ]
    options += ["-o", "group.initial.rebalance.delay.ms=0"]
    with serving(directory, *options) as (address, _), administrator(address) as admin:
        yield Home(address=address, admin=admin, directory=directory)


@pytest.fixture
def topic(home: Home) -> str:
    """One with two partitions and a setting."""
    name = next(names)
    create_topic(home.address, name, 2, retention_ms="5000000")
    return name


def boxed(number: int) -> Any:
    return java_class("java.lang.Integer").valueOf(number)


def java_set(*values: Any) -> Any:
    return java_class("java.util.HashSet")(array_list(values))


def admin_class(name: str) -> Any:
    return kafka(f"clients.admin.{name}")


def refused(name: str) -> Any:
    """Expects an error of Kafka's."""
    return pytest.raises(kafka(f"common.errors.{name}Exception"))


# Topics


def test_topics_are_made_described_grown_and_deleted(home: Home, topic: str) -> None:
    admin = home.admin
    assert topic in set(wait(admin.listTopics().names()))
    (found,) = wait(admin.describeTopics(array_list([topic])).allTopicNames()).values()
    assert [one.leader().id() for one in found.partitions()] == [1, 1]
    by_id = kafka("common.TopicCollection").ofTopicIds(array_list([found.topicId()]))
    assert wait(admin.describeTopics(by_id).allTopicIds())[found.topicId()].name() == topic
    grown = admin_class("NewPartitions").increaseTo(3)
    wait(admin.createPartitions(java_map({topic: grown})).all())
    (found,) = wait(admin.describeTopics(array_list([topic])).allTopicNames()).values()
    assert len(found.partitions()) == 3
    wait(admin.deleteTopics(by_id).all())
    with refused("UnknownTopicOrPartition"):
        wait(admin.describeTopics(array_list([topic])).allTopicNames())


def test_a_topic_that_is_made_with_defaults_says_them(home: Home) -> None:
    name, nothing = next(names), java_class("java.util.Optional").empty()
    made = home.admin.createTopics(array_list([admin_class("NewTopic")(name, nothing, nothing)]))
    assert wait(made.numPartitions(name)) == wait(made.replicationFactor(name)) == 1
    assert wait(made.config(name)).get("cleanup.policy").value() == "delete"


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "error"),
    [
        ("existing", 1, 1, "TopicExists"),
        ("not a name", 1, 1, "InvalidTopic"),
        ("more", 1, 3, "InvalidReplicationFactor"),
        ("none", 0, 1, "InvalidPartitions"),
    ],
)
def test_what_cannot_be_made_is_refused_by_kafkas_name(
    home: Home, topic: str, name: str, partitions: int, replicas: int, error: str
) -> None:
    name = topic if name == "existing" else name
    made = array_list([admin_class("NewTopic")(name, boxed(partitions).intValue(), replicas)])
    with refused(error):
        wait(home.admin.createTopics(made).all())


def test_records_are_deleted(home: Home, topic: str) -> None:
    send_all(home.address, [record(topic, "v", partition=0) for _ in range(5)])
    before = java_map({place(topic): admin_class("RecordsToDelete").beforeOffset(3)})
    (deleted,) = home.admin.deleteRecords(before).lowWatermarks().values()
    assert wait(deleted).lowWatermark() == 3
    with refused("OffsetOutOfRange"):
        after = java_map({place(topic): admin_class("RecordsToDelete").beforeOffset(9)})
        wait(home.admin.deleteRecords(after).all())


def test_offsets_are_listed_by_every_specification(home: Home) -> None:
    topic = next(names)
    create_topic(home.address, topic, 1, retention_ms="-1")
    times = (1000, 9000, 3000)
    send_all(home.address, [record(topic, "v", partition=0, timestamp_ms=one) for one in times])

    def listed(specification: Any) -> tuple[int, int]:
        asked = home.admin.listOffsets(java_map({place(topic): specification}))
        found = wait(asked.all())[place(topic)]
        return found.offset(), found.timestamp()

    spec = admin_class("OffsetSpec")
    assert listed(spec.earliest()) == listed(spec.earliestLocal()) == (0, -1)
    assert listed(spec.latest()) == (3, -1)
    assert listed(spec.maxTimestamp()) == (1, 9000)
    assert listed(spec.forTimestamp(2000)) == (1, 9000)
    assert listed(spec.forTimestamp(9001)) == (-1, -1)
    assert listed(spec.latestTiered()) == (-1, -1)
    if hasattr(spec, "earliestPendingUpload"):
        assert listed(spec.earliestPendingUpload()) == (-1, -1)


# Settings


def resource(kind: str, name: str) -> Any:
    types = kafka("common.config.ConfigResource$Type")
    return kafka("common.config.ConfigResource")(getattr(types, kind), name)


def setting(home: Home, where: Any, name: str) -> tuple[str, str]:
    """Its value, and where that comes from."""
    found = wait(home.admin.describeConfigs(array_list([where])).all())[where].get(name)
    return found.value(), str(found.source())


def alter(home: Home, where: Any, name: str, value: str | None, deed: str = "SET") -> None:
    kind = getattr(admin_class("AlterConfigOp$OpType"), deed)
    change = admin_class("AlterConfigOp")(admin_class("ConfigEntry")(name, value), kind)
    wait(home.admin.incrementalAlterConfigs(java_map({where: array_list([change])})).all())


def test_settings_of_a_topic_are_described_and_altered(home: Home, topic: str) -> None:
    here = resource("TOPIC", topic)
    assert setting(home, here, "retention.ms") == ("5000000", "DYNAMIC_TOPIC_CONFIG")
    alter(home, here, "retention.ms", "7000000")
    assert setting(home, here, "retention.ms") == ("7000000", "DYNAMIC_TOPIC_CONFIG")
    alter(home, here, "cleanup.policy", "compact", "APPEND")
    assert setting(home, here, "cleanup.policy")[0] == "delete,compact"
    alter(home, here, "cleanup.policy", "delete", "SUBTRACT")
    assert setting(home, here, "cleanup.policy")[0] == "compact"
    alter(home, here, "retention.ms", None, "DELETE")
    assert setting(home, here, "retention.ms") == ("604800000", "DEFAULT_CONFIG")
    with refused("InvalidConfiguration"):
        alter(home, here, "retention.mss", "1")


def test_settings_of_the_broker_are_described_and_altered(home: Home) -> None:
    here = resource("BROKER", "1")
    alter(home, here, "log.cleaner.threads", "1")
    assert setting(home, here, "log.cleaner.threads") == ("1", "DYNAMIC_BROKER_CONFIG")
    alter(home, here, "log.cleaner.threads", None, "DELETE")
    with refused("InvalidRequest"):
        alter(home, here, "broker.id", "7")


@needs_version_4
def test_settings_of_a_group_are_described_and_altered(home: Home, topic: str) -> None:
    here, name = resource("GROUP", topic), "consumer.session.timeout.ms"
    assert setting(home, here, name)[1] != "DYNAMIC_GROUP_CONFIG"
    alter(home, here, name, "50000")
    assert setting(home, here, name) == ("50000", "DYNAMIC_GROUP_CONFIG")
    listed = {(str(one.type()), one.name()) for one in wait(home.admin.listConfigResources().all())}
    assert ("GROUP", topic) in listed
    alter(home, here, name, None, "DELETE")
    assert setting(home, here, name)[1] != "DYNAMIC_GROUP_CONFIG"
    with refused("InvalidConfiguration"):
        alter(home, here, name, "1")
    with refused("InvalidConfiguration"):
        alter(home, here, "streams.session.timeout.ms", "50000")


@needs_version_4
def test_resources_with_settings_are_listed(home: Home, topic: str) -> None:
    listed = {(str(one.type()), one.name()) for one in wait(home.admin.listConfigResources().all())}
    assert {("TOPIC", topic), ("BROKER", "1")} <= listed


# Groups


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_listed_described_altered_and_deleted(
    home: Home, topic: str, protocol: str
) -> None:
    admin, group = home.admin, topic
    send_all(home.address, [record(topic, "v", partition=0) for _ in range(3)])
    member = JavaConsumer(home.address, group, topic, group_protocol=protocol)
    poll_until(lambda: len(member.seen) == 3, member)
    member.commit()
    listed = {one.groupId(): one for one in wait(admin.listConsumerGroups().all())}
    assert str(listed[group].state().get()) == "Stable"
    assert str(listed[group].type().get()).lower() == protocol
    (found,) = wait(admin.describeConsumerGroups(array_list([group])).all()).values()
    (described,) = found.members()
    assert {one.partition() for one in described.assignment().topicPartitions()} == {0, 1}
    assert offsets_of(home, group)[0] == 3
    with refused("UnknownMemberId"):
        set_offset(home, group, topic, 1)
    with refused("GroupNotEmpty"):
        wait(admin.deleteConsumerGroups(array_list([group])).all())
    with refused("GroupSubscribedToTopic"):
        wait(admin.deleteConsumerGroupOffsets(group, java_set(place(topic))).all())
    member.close()
    set_offset(home, group, topic, 1)
    assert offsets_of(home, group)[0] == 1
    wait(admin.deleteConsumerGroupOffsets(group, java_set(place(topic))).all())
    assert 0 not in offsets_of(home, group)
    wait(admin.deleteConsumerGroups(array_list([group])).all())
    with refused("GroupIdNotFound"):
        wait(admin.deleteConsumerGroups(array_list([group])).all())


def offsets_of(home: Home, group: str) -> dict[int, int]:
    found = wait(home.admin.listConsumerGroupOffsets(group).all())[group]
    return {where.partition(): at.offset() for where, at in found.items()}


def set_offset(home: Home, group: str, topic: str, offset: int) -> None:
    where = java_map({place(topic): kafka("clients.consumer.OffsetAndMetadata")(offset)})
    wait(home.admin.alterConsumerGroupOffsets(group, where).all())


def test_members_are_removed_from_a_classic_group(home: Home, topic: str) -> None:
    options = admin_class("RemoveMembersFromConsumerGroupOptions")
    member = JavaConsumer(home.address, topic, topic, group_instance_id="a")
    poll_until(lambda: len(member.assignment()) == 2, member)
    static = options(java_set(admin_class("MemberToRemove")("a")))
    wait(home.admin.removeMembersFromConsumerGroup(topic, static).all())
    (found,) = wait(home.admin.describeConsumerGroups(array_list([topic])).all()).values()
    assert len(found.members()) == 0
    member.close()


# The cluster


def test_the_cluster_and_its_directories_are_described(home: Home, topic: str) -> None:
    cluster = home.admin.describeCluster()
    (node,) = wait(cluster.nodes())
    assert (f"{node.host()}:{node.port()}", wait(cluster.controller()).id()) == (home.address, 1)
    assert len(wait(cluster.clusterId())) == 22
    described = wait(home.admin.describeLogDirs(array_list([boxed(1)])).allDescriptions())
    (directory,) = described[boxed(1)].values()
    assert directory.replicaInfos().containsKey(place(topic))
    assert directory.totalBytes().getAsLong() > 0
    replica = kafka("common.TopicPartitionReplica")(topic, 0, 1)
    wait(home.admin.alterReplicaLogDirs(java_map({replica: str(home.directory)})).all())
    with refused("LogDirNotFound"):
        wait(home.admin.alterReplicaLogDirs(java_map({replica: "/nowhere"})).all())


def test_quotas_are_altered_and_described(home: Home) -> None:
    entity = kafka("common.quota.ClientQuotaEntity")(java_map({"client-id": "c"}))
    rate = java_class("java.lang.Double").valueOf(1e6)
    deed = kafka("common.quota.ClientQuotaAlteration$Op")("producer_byte_rate", rate)
    change = kafka("common.quota.ClientQuotaAlteration")(entity, array_list([deed]))
    wait(home.admin.alterClientQuotas(array_list([change])).all())
    everything = kafka("common.quota.ClientQuotaFilter").all()
    found = wait(home.admin.describeClientQuotas(everything).entities())
    assert found[entity]["producer_byte_rate"] == 1e6


def test_features_tell_the_version_of_transactions(home: Home) -> None:
    found = wait(home.admin.describeFeatures().featureMetadata()).finalizedFeatures()
    assert found["transaction.version"].maxVersionLevel() == 2


def test_one_broker_neither_elects_nor_moves(home: Home, topic: str) -> None:
    here, admin = place(topic), home.admin
    preferred = kafka("common.ElectionType").PREFERRED
    with refused("ElectionNotNeeded"):
        wait(admin.electLeaders(preferred, java_set(here)).all())
    some = java_class("java.util.Optional").of
    reassignment = admin_class("NewPartitionReassignment")
    stays = java_map({here: some(reassignment(array_list([boxed(1)])))})
    wait(admin.alterPartitionReassignments(stays).all())
    with refused("InvalidReplicaAssignment"):
        goes = java_map({here: some(reassignment(array_list([boxed(2)])))})
        wait(admin.alterPartitionReassignments(goes).all())
    assert len(wait(admin.listPartitionReassignments().reassignments())) == 0


def test_nobody_holds_transactions_that_do_not_exist(home: Home, topic: str) -> None:
    with refused("TransactionalIdNotFound"):
        wait(home.admin.describeTransactions(array_list([topic])).all())
    found = wait(home.admin.describeProducers(array_list([place(topic)])).all())
    assert len(found[place(topic)].activeProducers()) == 0


# What there is not: Kafka's own error, at once

Ask = Callable[[Any], Any]
REFUSALS: dict[str, tuple[str, Ask]] = {
    "ACLs": (
        "SecurityDisabled",
        lambda admin: admin.describeAcls(kafka("common.acl.AclBindingFilter").ANY).values(),
    ),
    "making a token": (
        "UnsupportedByAuthentication",
        lambda admin: admin.createDelegationToken().delegationToken(),
    ),
    "renewing a token": (
        "UnsupportedByAuthentication",
        lambda admin: admin.renewDelegationToken(b"x").expiryTimestamp(),
    ),
    "expiring a token": (
        "UnsupportedByAuthentication",
        lambda admin: admin.expireDelegationToken(b"x").expiryTimestamp(),
    ),
    "tokens": (
        "UnsupportedByAuthentication",
        lambda admin: admin.describeDelegationToken().delegationTokens(),
    ),
    "a user's password": (
        "ResourceNotFound",
        lambda admin: admin.alterUserScramCredentials(array_list([scram_deletion()])).all(),
    ),
    "streams groups": (
        "UnsupportedVersion",
        lambda admin: admin.describeStreamsGroups(array_list(["g"])).all(),
    ),
    "the quorum": (
        "UnsupportedVersion",
        lambda admin: admin.describeMetadataQuorum().quorumInfo(),
    ),
    "unregistering": ("UnsupportedVersion", lambda admin: admin.unregisterBroker(7).all()),
}
NEW_REFUSALS = ("streams groups",)


def scram_deletion() -> Any:
    mechanism = admin_class("ScramMechanism").SCRAM_SHA_256
    return admin_class("UserScramCredentialDeletion")("u", mechanism)


@pytest.mark.parametrize(
    "what",
    [pytest.param(one, marks=needs_version_4 if one in NEW_REFUSALS else ()) for one in REFUSALS],
)
def test_what_there_is_not_is_refused_at_once_by_kafkas_name(home: Home, what: str) -> None:
    error, ask = REFUSALS[what]
    began = time.monotonic()
    with refused(error):
        wait(ask(home.admin), HASTE_S)
    assert time.monotonic() - began < HASTE_S / 2


def test_who_wants_to_authenticate_is_told_at_once(home: Home) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    sender = producer(
        home.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=f'{module} required username="u" password="p";',
    )
    with refused("IllegalSaslState"):
        wait(sender.send(record("t", "v")), HASTE_S)
    close(sender, 0)
