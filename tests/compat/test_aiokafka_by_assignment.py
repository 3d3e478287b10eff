"""aiokafka produces with every codec, alone and idempotently, reads by assignment, and seeks."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage import scan
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

TOPIC = "records"
FIRST = TopicPartition(TOPIC, 0)
COMPRESSIONS = (None, "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000

Record = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes], ...]]
"""Key, value, time in milliseconds, headers."""

RECORDS: list[Record] = [
    (b"key", b"value", FIRST_MS, ()),
    (None, b"no key", FIRST_MS + 1, ()),
    (b"tombstone", None, FIRST_MS + 2, ()),
    (b"headers", b"", FIRST_MS + 3, (("a", b"1"), ("a", b"2"), ("empty", b""))),
    (b"\x00\xff", bytes(range(256)) * 64, FIRST_MS + 4, ()),
    *((b"k%d" % number, b"value %d " % number * 20, FIRST_MS + 5, ()) for number in range(100)),
]

Use = Callable[[Any], Coroutine[Any, Any, Any]]


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = open_broker(tmp_path / "data")
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=2))
    return broker


@pytest.fixture
def address(broker: Broker) -> Iterator[str]:
    with serving(broker) as server:
        yield "{}:{}".format(*server.address)


def with_client(client_class: Any, address: str, use: Use, **settings: Any) -> Any:
    """What `use` makes of a client that is started for it."""

    async def run() -> Any:
        client = client_class(bootstrap_servers=address, **settings)
        await client.start()
        try:
            return await asyncio.wait_for(use(client), PATIENCE_S)
        finally:
            await client.stop()

    return asyncio.run(run())


def produce(address: str, records: list[Record] = RECORDS, **settings: Any) -> list[int | None]:
    """The offsets that the broker gave them; with acks=0 nobody tells."""

    async def send(producer: AIOKafkaProducer) -> list[int | None]:
        sent = [
            await producer.send(
                TOPIC, value, key, partition=0, timestamp_ms=time_ms, headers=list(headers)
            )
            for key, value, time_ms, headers in records
        ]
        told = await asyncio.gather(*sent)
        return [None if one is None else one.offset for one in told]

    offsets: list[int | None] = with_client(
        AIOKafkaProducer, address, send, linger_ms=10, **settings
    )
    return offsets


def consuming(address: str, use: Use, **settings: Any) -> Any:
    """What `use` makes of a consumer to which the first partition is assigned."""

    async def assigned(consumer: AIOKafkaConsumer) -> Any:
        consumer.assign([FIRST])
        return await use(consumer)

    return with_client(AIOKafkaConsumer, address, assigned, **settings)


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await consumer.getone() for _ in range(count)]


def read_all(address: str, count: int, **settings: Any) -> list[Record]:
    async def read(consumer: AIOKafkaConsumer) -> list[Any]:
        await consumer.seek_to_beginning()
        return await take(consumer, count)

    found = consuming(address, read, **settings)
    assert [one.offset for one in found] == list(range(count))
    return [(one.key, one.value, one.timestamp, tuple(one.headers)) for one in found]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_aiokafka_reads_what_it_wrote(
    address: str, broker: Broker, compression: str | None
) -> None:
    assert produce(address, compression_type=compression) == list(range(len(RECORDS)))
    assert read_all(address, len(RECORDS)) == RECORDS
    (segment,) = broker.topics.partition(TOPIC, 0).log.segments.values
    codecs = {one.compression.name.lower() for _, one in scan.headers(segment.log)}
    assert codecs == {compression or "none"}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_aiokafka_is_served_with_every_acks(address: str, acks: Any) -> None:
    produce(address, acks=acks)
    assert read_all(address, len(RECORDS)) == RECORDS


def test_an_idempotent_producer_is_served(address: str, broker: Broker) -> None:
    produce(address, enable_idempotence=True)
    assert read_all(address, len(RECORDS), isolation_level="read_committed") == RECORDS
    assert broker.topics.partition(TOPIC, 0).log.producers.entries


def test_batches_made_by_hand_are_taken(address: str) -> None:
    async def send(producer: AIOKafkaProducer) -> int:
        batch = producer.create_batch()
        for key, value, time_ms, _ in RECORDS[:2]:
            batch.append(key=key, value=value, timestamp=time_ms)
        sent = await producer.send_batch(batch, TOPIC, partition=0)
        offset: int = (await sent).offset
        return offset

    assert with_client(AIOKafkaProducer, address, send) == 0
    assert read_all(address, 2) == RECORDS[:2]


def test_a_consumer_seeks_pauses_and_knows_where_it_is(address: str) -> None:
    produce(address)

    async def read(consumer: AIOKafkaConsumer) -> None:
        consumer.seek(FIRST, 50)
        assert [one.offset for one in await take(consumer, 2)] == [50, 51]
        assert await consumer.position(FIRST) == 52
        assert consumer.highwater(FIRST) == len(RECORDS)
        await consumer.seek_to_end()
        assert await consumer.position(FIRST) == len(RECORDS)
        await consumer.seek_to_beginning()
        consumer.pause(FIRST)
        assert await consumer.getmany(timeout_ms=10) == {}
        consumer.resume(FIRST)
        assert [one.offset for one in await take(consumer, 1)] == [0]

    consuming(address, read)


def test_offsets_are_found_at_the_ends_and_by_time(address: str) -> None:
    produce(address)

    async def find(consumer: AIOKafkaConsumer) -> None:
        assert await consumer.beginning_offsets([FIRST]) == {FIRST: 0}
        assert await consumer.end_offsets([FIRST]) == {FIRST: len(RECORDS)}
        found = await consumer.offsets_for_times({FIRST: FIRST_MS + 2})
        assert (found[FIRST].offset, found[FIRST].timestamp) == (2, FIRST_MS + 2)
        assert await consumer.offsets_for_times({FIRST: FIRST_MS + 9}) == {FIRST: None}
        assert await consumer.topics() == {TOPIC}
        assert consumer.partitions_for_topic(TOPIC) == {0, 1}

    consuming(address, find)


def test_a_waiting_consumer_gets_what_is_produced_while_it_waits(address: str) -> None:
    async def read(consumer: AIOKafkaConsumer) -> Any:
        consumer.seek(FIRST, 0)
        waiting = asyncio.ensure_future(consumer.getone())
        await asyncio.to_thread(produce, address, RECORDS[:1])
        return (await waiting).value

    assert consuming(address, read, fetch_max_wait_ms=20_000) == b"value"


def test_offsets_are_committed_without_a_subscription(address: str) -> None:
    produce(address)

    async def commit(consumer: AIOKafkaConsumer) -> None:
        await consumer.commit({FIRST: (7, "so far")})

    async def go_on(consumer: AIOKafkaConsumer) -> Any:
        assert await consumer.committed(FIRST) == 7
        return (await consumer.getone()).offset

    consuming(address, commit, group_id="g", enable_auto_commit=False)
    assert consuming(address, go_on, group_id="g", enable_auto_commit=False) == 7
