"""Real clients consume in groups: they share partitions, commit, and find what they committed."""

import contextlib
import gc
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from tests.compat.group_consumers import (
    CONSUMERS,
    TOPIC,
    ConfluentConsumer,
    GroupConsumer,
    KafkaPythonConsumer,
    MakeConsumer,
    OttlaConsumer,
    poll_until,
    share,
)
from tests.integration.cli.support import serving as serving_process
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

PARTITION_COUNT = 4
PER_PARTITION = 25
ALL = {
    (partition, offset) for partition in range(PARTITION_COUNT) for offset in range(PER_PARTITION)
}


class Home:
    """A served broker, and the consumers that are to be closed before it."""

    def __init__(self, broker: Broker, address: str) -> None:
        self.broker = broker
        self.address = address
        self._stack = contextlib.ExitStack()

    def consumer(self, make: MakeConsumer, group_id: str = "g", **options: str) -> GroupConsumer:
        consumer = make(self.address, group_id, **options)
        self._stack.callback(consumer.close)
        return consumer

    def generation(self) -> int:
        return self.broker.groups.known[0].groups["g"].generation

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    broker = open_broker(
        tmp_path / "data",
        group_initial_rebalance_delay_ms="0",
        num_partitions=str(PARTITION_COUNT),
        offsets_topic_num_partitions="4",
    )
    broker.admin.create_topic(NewTopic(name=TOPIC))
    with serving(broker) as server:
        home = Home(broker, "{}:{}".format(*server.address))
        produce(home.address)
        yield home
        home.close()


def produce(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for partition in range(PARTITION_COUNT):
        for number in range(PER_PARTITION):
            producer.produce(TOPIC, b"%d" % number, partition=partition)
    assert producer.flush(30) == 0


each_client = pytest.mark.parametrize("make", CONSUMERS.values(), ids=CONSUMERS.keys())


def has_all(consumer: GroupConsumer) -> bool:
    return set(consumer.seen) == ALL


@each_client
def test_a_group_of_one_reads_everything_once(home: Home, make: MakeConsumer) -> None:
    consumer = home.consumer(make)
    poll_until(lambda: len(consumer.seen) >= len(ALL), consumer)
    assert sorted(consumer.seen) == sorted(ALL)


@each_client
def test_who_comes_later_begins_where_the_group_has_committed(
    home: Home, make: MakeConsumer
) -> None:
    first = make(home.address, "g")
    poll_until(lambda: has_all(first), first)
    first.commit()
    first.close()
    produce(home.address)
    second = home.consumer(make)
    poll_until(lambda: len(second.seen) >= len(ALL), second)
    assert sorted(second.seen) == sorted((one, two + PER_PARTITION) for one, two in ALL)


@each_client
def test_members_share_the_partitions_as_they_come_and_go(home: Home, make: MakeConsumer) -> None:
    first = home.consumer(make)
    poll_until(lambda: share(PARTITION_COUNT, first), first)
    second = make(home.address, "g")
    poll_until(lambda: share(PARTITION_COUNT, first, second), first, second)
    assert len(first.assignment()) == len(second.assignment()) == PARTITION_COUNT / 2
    second.close()
    poll_until(lambda: share(PARTITION_COUNT, first), first)


def test_clients_of_different_makers_share_a_group(home: Home) -> None:
    members = [home.consumer(make) for make in CONSUMERS.values()]
    poll_until(lambda: share(PARTITION_COUNT, *members), *members)
    poll_until(lambda: {one for member in members for one in member.seen} == ALL, *members)


@pytest.mark.parametrize("strategy", ["roundrobin", "sticky"])
def test_one_makers_members_share_by_each_of_kafkas_strategies(home: Home, strategy: str) -> None:
    makes = [ConfluentConsumer, OttlaConsumer, OttlaConsumer]
    if strategy == "sticky":  # librdkafka has no such strategy.
        makes = [OttlaConsumer, OttlaConsumer]
    members = [home.consumer(make, strategy=strategy) for make in makes]
    poll_until(lambda: share(PARTITION_COUNT, *members), *members)
    poll_until(lambda: {one for member in members for one in member.seen} == ALL, *members)


@each_client
def test_a_static_member_that_restarts_disturbs_nobody(home: Home, make: MakeConsumer) -> None:
    stays = home.consumer(make, instance_id="a")
    goes = make(home.address, "g", instance_id="b")
    poll_until(lambda: share(PARTITION_COUNT, stays, goes), stays, goes)
    generation, assignment = home.generation(), goes.assignment()
    goes.close()
    back = home.consumer(make, instance_id="b")
    poll_until(lambda: bool(back.assignment()), stays, back)
    assert back.assignment() == assignment
    assert home.generation() == generation
    assert share(PARTITION_COUNT, stays, back)


@pytest.mark.parametrize(
    ("make", "make_second"),
    [
        (ConfluentConsumer, ConfluentConsumer),
        (KafkaPythonConsumer, KafkaPythonConsumer),
        (OttlaConsumer, OttlaConsumer),
        (OttlaConsumer, ConfluentConsumer),
        (ConfluentConsumer, OttlaConsumer),
        (KafkaPythonConsumer, OttlaConsumer),
    ],
)
def test_cooperative_members_hand_over_only_what_must_move(
    home: Home, make: MakeConsumer, make_second: MakeConsumer
) -> None:
    first = home.consumer(make, strategy="cooperative-sticky")
    poll_until(lambda: share(PARTITION_COUNT, first), first)
    second = home.consumer(make_second, strategy="cooperative-sticky")
    owned = [first.assignment()]

    def is_shared() -> bool:
        owned.append(first.assignment())
        return share(PARTITION_COUNT, first, second)

    poll_until(is_shared, first, second)
    kept = first.assignment()
    assert len(kept) == PARTITION_COUNT / 2
    assert all(kept <= earlier for earlier in owned)
    if isinstance(first, ConfluentConsumer | OttlaConsumer):
        assert first.revoked == [set(range(PARTITION_COUNT)) - kept]


@each_client
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_group_continues_after_the_broker_was_killed(
    tmp_path: Path, make: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    # kafka-python leaves sockets open that it could not connect, and its log holds on to them.
    caplog.set_level(logging.CRITICAL, logger="kafka")
    consume_over_a_kill(tmp_path / "data", make)
    gc.collect()


def consume_over_a_kill(data: Path, make: MakeConsumer) -> None:
    settings = ("-o", f"num.partitions={PARTITION_COUNT}", "-o", "offsets.topic.num.partitions=4")
    with serving_process(data, *settings) as (address, process):
        produce(address)
        consumer = make(address, "g")
        poll_until(lambda: has_all(consumer), consumer)
        consumer.commit()
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    with serving_process(None, "-d", str(data), "--listen", address, *settings):
        produce(address)
        poll_until(lambda: len(consumer.seen) >= 2 * len(ALL), consumer)
        later = {(one, two + PER_PARTITION) for one, two in ALL}
        assert sorted(consumer.seen) == sorted(ALL | later)
        consumer.close()
        again = make(address, "g")
        poll_until(lambda: len(again.seen) >= len(ALL), again)
        assert sorted(again.seen) == sorted(later), "committed was what was read before the kill"
        again.close()


# Administrators


def test_librdkafkas_administrator_sees_and_changes_groups(home: Home) -> None:
    consumer = home.consumer(ConfluentConsumer)
    poll_until(lambda: has_all(consumer), consumer)
    consumer.commit()
    admin = AdminClient({"bootstrap.servers": home.address})
    listed = admin.list_consumer_groups().result()
    assert [(one.group_id, one.state.name) for one in listed.valid] == [("g", "STABLE")]
    described = admin.describe_consumer_groups(["g"])["g"].result()
    assert described.state.name == "STABLE"
    assert described.partition_assignor == "range"
    (member,) = described.members
    assert len(member.assignment.topic_partitions) == PARTITION_COUNT
    home.close()
    wanted = ConsumerGroupTopicPartitions("g", [TopicPartition(TOPIC, 0, 7)])
    admin.alter_consumer_group_offsets([wanted])["g"].result()
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"].result()
    offsets = {one.partition: one.offset for one in found.topic_partitions}
    assert offsets == {0: 7, 1: PER_PARTITION, 2: PER_PARTITION, 3: PER_PARTITION}
    admin.delete_consumer_groups(["g"])["g"].result()
    assert admin.list_consumer_groups().result().valid == []


def test_kafka_pythons_administrator_sees_and_changes_groups(home: Home) -> None:
    consumer = home.consumer(KafkaPythonConsumer)
    poll_until(lambda: has_all(consumer), consumer)
    consumer.commit()
    admin = KafkaAdminClient(bootstrap_servers=home.address)
    try:
        assert "g" in str(admin.list_groups())
        assert "Stable" in str(admin.describe_groups(["g"]))
        offsets = admin.list_group_offsets("g")
        assert str(offsets).count(f"offset={PER_PARTITION}") == PARTITION_COUNT
        home.close()
        admin.delete_groups(["g"])
        assert "'g'" not in str(admin.list_groups())
    finally:
        admin.close()
