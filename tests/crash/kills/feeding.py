"""Records that can be told from each other, in a log that is to be read by what is killed."""

import random
from pathlib import Path

import ottla
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.reading.read_only_directory import open_for_reading
from tests.crash.kills.jobs import TOPIC

PARTITIONS = 2
TOPIC_SETTINGS = {"segment.bytes": 8192, "retention.ms": -1}
"""Records are of long ago."""

RECORDS_PER_BATCH = 20


def feed(directory: Path, count: int, chance: random.Random) -> None:
    """Appends to a log that nobody serves, to more or less both partitions."""
    with ottla.open(directory) as log:
        if TOPIC not in log.topics():
            log.create_topic(TOPIC, partitions=PARTITIONS, config=TOPIC_SETTINGS)
        for first in range(0, count, RECORDS_PER_BATCH):
            partition = chance.randrange(PARTITIONS)
            place = log.offsets(TOPIC)[partition][1]
            builder = RecordBatchBuilder()
            for number in range(min(RECORDS_PER_BATCH, count - first)):
                name = b"%d-%d" % (partition, place + number)
                builder.append(b"key %d" % (number % 7), name, 1_700_000_000_000 + number)
            log.append_batch(TOPIC, partition, builder)


def feed_broker(address: str, count: int, first: int) -> None:
    """Sends to a broker, each record once, whether it is killed meanwhile or not."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": address, "enable.idempotence": True, "batch.size": 4000}
    producer = Producer(settings)
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number, key=b"key %d" % (number % 7))
    assert producer.flush(60) == 0


def values_of(directory: Path) -> list[str]:
    """What a reader of committed records finds, in an order that can be compared."""
    log = open_for_reading(str(directory))
    return sorted(
        (record.value or b"").decode()
        for number in log.topics()[TOPIC]
        for record in log.partition(TOPIC, number).records.read(0, read_committed=True)
    )
