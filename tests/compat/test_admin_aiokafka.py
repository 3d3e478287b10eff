"""aiokafka's admin client makes, grows, configures, describes and deletes all that it knows of."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError

from ottla.base.error_codes import ErrorCode
from ottla.broker.broker import Broker
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

FIRST = TopicPartition("t", 0)
RECORD_COUNT = 5

Use = Callable[[AIOKafkaAdminClient], Coroutine[Any, Any, None]]
Administer = Callable[[Use], None]


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return open_broker(
        tmp_path / "data",
        group_initial_rebalance_delay_ms="0",
        offsets_topic_num_partitions="4",
    )


@pytest.fixture
def address(broker: Broker) -> Iterator[str]:
    with serving(broker) as server:
        yield "{}:{}".format(*server.address)


@pytest.fixture
def administer(address: str) -> Administer:
    """Runs something with an admin client, on a broker that has one topic."""

    async def run(use: Use) -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=address)
        await client.start()
        try:
            made = await client.create_topics(
                [NewTopic("t", 2, 1, topic_configs={"retention.ms": "5"})]
            )
            assert codes(made.topic_errors) == {"t": 0}
            await asyncio.wait_for(use(client), PATIENCE_S)
        finally:
            await client.close()

    return lambda use: asyncio.run(run(use))


def codes(errors: Any) -> dict[str, int]:
    return {name: code for name, code, *_ in errors}


async def configs(client: AIOKafkaAdminClient, kind: ConfigResourceType, name: str) -> Any:
    (response,) = await client.describe_configs([ConfigResource(kind, name)])
    (_, _, _, _, entries), *_ = response.resources
    return {entry[0]: entry[1] for entry in entries}


async def alteration(client: AIOKafkaAdminClient, change: ConfigResource) -> int:
    """The code for one change; besides the request with it, the client may send an empty one."""
    responses = await client.alter_configs([change])
    ((code, *_),) = [resource for response in responses for resource in response.resources]
    return int(code)


def test_topics_are_made_grown_described_and_deleted(administer: Administer) -> None:
    async def use(client: AIOKafkaAdminClient) -> None:
        again = await client.create_topics([NewTopic("t", 1, 1)])
        assert codes(again.topic_errors) == {"t": ErrorCode.TOPIC_ALREADY_EXISTS}
        twice = await client.create_topics([NewTopic("u", 1, 2)])
        assert codes(twice.topic_errors) == {"u": ErrorCode.INVALID_REPLICATION_FACTOR}
        dry = await client.create_topics([NewTopic("dry", 1, 1)], validate_only=True)
        assert codes(dry.topic_errors) == {"dry": 0}
        placed = NewTopic("placed", -1, -1, replica_assignments={0: [1], 1: [1], 2: [1]})
        assert codes((await client.create_topics([placed])).topic_errors) == {"placed": 0}
        grown = await client.create_partitions({"t": NewPartitions(4)})
        assert codes(grown.topic_errors) == {"t": 0}
        with pytest.raises(InvalidPartitionsError, match="currently has 4 partition"):
            await client.create_partitions({"t": NewPartitions(1)})
        described = {one["topic"]: len(one["partitions"]) for one in await client.describe_topics()}
        assert described == {"t": 4, "placed": 3}
        deleted = await client.delete_topics(["placed", "nowhere"])
        assert codes(deleted.topic_error_codes) == {
            "placed": 0,
            "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await client.list_topics() == ["t"]

    administer(use)


def test_settings_of_topics_are_stated_all_at_once(administer: Administer) -> None:
    topic = ConfigResourceType.TOPIC

    async def use(client: AIOKafkaAdminClient) -> None:
        assert (await configs(client, topic, "t"))["retention.ms"] == "5"
        change = ConfigResource(topic, "t", configs={"segment.bytes": "2000"})
        assert await alteration(client, change) == 0
        found = await configs(client, topic, "t")
        assert (found["segment.bytes"], found["retention.ms"]) == ("2000", "604800000")
        wrong = ConfigResource(topic, "t", configs={"segment.bytes": "many"})
        assert await alteration(client, wrong) == ErrorCode.INVALID_CONFIG
        (missing,) = await client.describe_configs([ConfigResource(topic, "nowhere")])
        assert missing.resources[0][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    administer(use)


def test_settings_of_the_broker_are_changed(administer: Administer) -> None:
    kind = ConfigResourceType.BROKER

    async def use(client: AIOKafkaAdminClient) -> None:
        change = ConfigResource(kind, "1", configs={"log.segment.bytes": "3000"})
        assert await alteration(client, change) == 0
        assert (await configs(client, kind, "1"))["log.segment.bytes"] == "3000"
        fixed = ConfigResource(kind, "1", configs={"num.partitions": "7"})
        assert await alteration(client, fixed) == ErrorCode.INVALID_REQUEST

    administer(use)


def test_the_cluster_is_described(administer: Administer, broker: Broker) -> None:
    async def use(client: AIOKafkaAdminClient) -> None:
        described = await client.describe_cluster()
        assert described["cluster_id"] == broker.cluster_id
        assert described["controller_id"] == 1
        assert [one["node_id"] for one in described["brokers"]] == [1]

    administer(use)


async def produce(address: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=address)
    await producer.start()
    try:
        for _ in range(RECORD_COUNT):
            await producer.send_and_wait("t", b"x", partition=0)
    finally:
        await producer.stop()


def test_records_are_deleted(administer: Administer, address: str) -> None:
    async def use(client: AIOKafkaAdminClient) -> None:
        await produce(address)
        assert await client.delete_records({FIRST: RecordsToDelete(before_offset=3)}) == {FIRST: 3}
        assert await client.delete_records({FIRST: RecordsToDelete(before_offset=-1)}) == {
            FIRST: RECORD_COUNT
        }

    administer(use)


def test_groups_are_found_listed_and_described(administer: Administer, address: str) -> None:
    async def use(client: AIOKafkaAdminClient) -> None:
        await produce(address)
        consumer = AIOKafkaConsumer(
            "t",
            bootstrap_servers=address,
            group_id="g",
            client_id="reader",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            await consumer.getmany(FIRST, timeout_ms=5000)
            await consumer.commit()
            assert await client.find_coordinator("g") == 1
            assert await client.list_consumer_groups() == [("g", "consumer")]
            (described,) = await client.describe_consumer_groups(["g"])
            ((code, name, state, kind, _, members, *_),) = described.groups
            assert (code, name, state, kind) == (0, "g", "Stable", "consumer")
            assert [one[1] for one in members] == ["reader"]
            offsets = await client.list_consumer_group_offsets("g")
            assert offsets[FIRST].offset == RECORD_COUNT
            some = await client.list_consumer_group_offsets("g", partitions=[FIRST])
            assert list(some) == [FIRST]
        finally:
            await consumer.stop()
        (gone,) = await client.describe_consumer_groups(["g"])
        assert gone.groups[0][2] == "Empty"

    administer(use)
