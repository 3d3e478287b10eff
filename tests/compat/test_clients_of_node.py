"""kafkajs and @platformatic/kafka administer, produce, consume in groups, and look up offsets."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.base.error_codes import ErrorCode
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage import scan
from tests.compat.node_clients import PROGRAMS, absence, as_text, codecs_of, hold_session
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(absence() is not None, reason=str(absence())),
]

TOPIC = "records"
GROUP = "g"
PARTITION_COUNT = 4
FIRST_MS = 1_700_000_000_000

Record = dict[str, Any]


def record(partition: int, key: bytes | None, value: bytes | None, *headers: Any) -> Record:
    """As the programs take it; records of a partition are a second apart."""
    return {
        "partition": partition,
        "key": as_text(key),
        "value": as_text(value),
        "headers": [[name, as_text(content)] for name, content in headers],
    }


def stamped(records: list[Record]) -> list[Record]:
    return [{**one, "timestamp": FIRST_MS + 1000 * number} for number, one in enumerate(records, 1)]


RECORDS = stamped(
    [
        record(0, b"key", b"value"),
        record(0, None, b"no key"),
        record(0, b"tombstone", None),
        record(1, b"headers", b"v", ("a", b"1"), ("b", b"\xff\x00")),
        record(1, b"\x00\xff", bytes(range(256)) * 64),
        *(record(2, b"k%d" % number, b"value %d " % number * 9) for number in range(100)),
    ]
)
PARTITIONS_USED = (0, 1, 2)

each_client = pytest.mark.parametrize("client", list(PROGRAMS))
each_codec = pytest.mark.parametrize(
    ("client", "codec"), [(client, codec) for client in PROGRAMS for codec in codecs_of(client)]
)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = open_broker(
        tmp_path / "data",
        group_initial_rebalance_delay_ms="0",
        num_partitions=str(PARTITION_COUNT),
        offsets_topic_num_partitions="4",
    )
    broker.admin.create_topic(NewTopic(name=TOPIC))
    return broker


@pytest.fixture
def address(broker: Broker) -> Iterator[str]:
    with serving(broker) as server:
        yield "{}:{}".format(*server.address)


def with_offsets(records: list[Record], first: int = 0) -> list[Record]:
    """As they come back: by partition, and numbered there."""
    found = []
    for partition in PARTITIONS_USED:
        mine = [one for one in records if one["partition"] == partition]
        found += [{**one, "offset": first + number} for number, one in enumerate(mine)]
    return found


def next_offsets() -> dict[int, int]:
    return {
        partition: sum(one["partition"] == partition for one in RECORDS)
        for partition in PARTITIONS_USED
    }


def consume(client: str, address: str, **given: Any) -> list[Record]:
    options = {"topic": TOPIC, "group": GROUP, "count": len(RECORDS), **given}
    found: list[Record] = hold_session(client, address, "consume", **options)
    return found


def produce(client: str, address: str, **given: Any) -> Any:
    return hold_session(client, address, "produce", topic=TOPIC, records=RECORDS, **given)


@each_client
def test_topics_are_made_configured_grown_and_deleted(client: str, address: str) -> None:
    done = hold_session(client, address, "admin")
    assert sorted(done["topics"]) == ["made", TOPIC]
    assert (done["partitions"], done["grown"]) == (2, 4)
    assert done["configs"]["retention.ms"] == "5000"
    assert done["configs"]["segment.bytes"] == "1073741824"
    assert done["altered"]["segment.bytes"] == "2000"
    assert ErrorCode.INVALID_CONFIG in done["refused"]
    assert done["cluster"] == {"brokers": [1], "controller": 1}
    assert done["left"] == [TOPIC]


def test_one_setting_is_changed_or_all_are_stated(address: str) -> None:
    """kafkajs knows AlterConfigs only, which resets what it does not name."""
    retention = {
        client: hold_session(client, address, "admin")["altered"]["retention.ms"]
        for client in PROGRAMS
    }
    assert retention == {"kafkajs": "604800000", "@platformatic/kafka": "5000"}


@each_codec
def test_a_client_reads_what_it_wrote_and_what_it_compressed_is_stored_compressed(
    client: str, codec: str, address: str, broker: Broker
) -> None:
    answers = produce(client, address, codec=codec)
    assert sorted(answers) == [[partition, 0] for partition in PARTITIONS_USED]
    assert consume(client, address) == with_offsets(RECORDS)
    log = broker.topics.partition(TOPIC, 2).log
    codecs = {
        header.compression.name.lower()
        for segment in log.segments.values
        for _, header in scan.headers(segment.log)
    }
    assert codecs == {codec}


@each_client
def test_an_idempotent_producer_is_served(client: str, address: str, broker: Broker) -> None:
    produce(client, address, idempotent=True)
    assert consume(client, address) == with_offsets(RECORDS)
    assert all(
        broker.topics.partition(TOPIC, number).log.producers.entries for number in PARTITIONS_USED
    )


@each_client
def test_librdkafka_reads_what_a_client_wrote(client: str, address: str) -> None:
    produce(client, address, codec="gzip")
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none"})
    try:
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in PARTITIONS_USED])
        messages = consumer.consume(len(RECORDS), timeout=PATIENCE_S)
    finally:
        consumer.close()
    found = [
        {
            "partition": one.partition(),
            "key": as_text(one.key()),
            "value": as_text(one.value()),
            "headers": [[name, as_text(content)] for name, content in one.headers() or ()],
            "timestamp": one.timestamp()[1],
            "offset": one.offset(),
        }
        for one in messages
    ]
    assert sorted(found, key=lambda one: (one["partition"], one["offset"])) == with_offsets(RECORDS)


@each_codec
def test_a_client_reads_what_librdkafka_wrote(client: str, codec: str, address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20})
    for number in range(200):
        producer.produce(TOPIC, b"value %d " % number * 9, b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    found = consume(client, address, count=200)
    assert [one["value"] for one in found] == [
        as_text(b"value %d " % number * 9) for number in range(200)
    ]


@each_client
def test_who_comes_later_begins_where_the_group_has_committed(client: str, address: str) -> None:
    produce(client, address)
    consume(client, address, commit=list(next_offsets().items()))
    produce(client, address)
    again = consume(client, address)
    expected = [
        {**one, "offset": one["offset"] + next_offsets()[one["partition"]]}
        for one in with_offsets(RECORDS)
    ]
    assert again == expected


@each_client
def test_members_share_the_partitions_as_they_come_and_go(client: str, address: str) -> None:
    done = hold_session(
        client, address, "share", topic=TOPIC, group=GROUP, partitions=PARTITION_COUNT
    )
    everything = list(range(PARTITION_COUNT))
    assert done["alone"] == done["after"] == [everything]
    assert sorted(chain.from_iterable(done["together"])) == everything
    assert [len(one) for one in done["together"]] == [2, 2]
    assert (done["groups"], done["protocol"]) == ([GROUP], "consumer")
    assert done["state"].upper() == "STABLE"
    assert len(done["members"]) == 2
    assert all("session" in one for one in done["members"])


@each_client
def test_offsets_are_found_by_time_committed_reset_and_deleted(client: str, address: str) -> None:
    produce(client, address)
    committed = [[0, 2], [1, 1], [2, 50]]
    consume(client, address, commit=committed)
    places = [[0, 1], [1, 2], [2, 7]]
    time_ms = RECORDS[4]["timestamp"]
    done = hold_session(
        client, address, "offsets", topic=TOPIC, group=GROUP, timestamp=time_ms, set=places
    )
    ends = [[partition, count] for partition, count in next_offsets().items()]
    assert done["earliest"][:3] == [[0, 0], [1, 0], [2, 0]]
    assert done["latest"][:3] == ends
    assert done["at"][1:3] == [[1, 1], [2, 0]]
    assert done["committed"][:3] == committed
    assert done["set"][:3] == places
    assert done["groups"] == []
    assert done["low"][:3] == places
