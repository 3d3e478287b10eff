"""A record that the deserializer refuses costs none of the records around it."""

import asyncio

import ottla
import ottla.aio

EARLIEST = {"auto.offset.reset": "earliest"}
VALUES = (b"1", b"2", b"no number", b"4", b"nor this", b"nor that", b"7")


def bills(log: ottla.Log) -> None:
    log.create_topic("bills")
    for value in VALUES:
        log.append("bills", value)


def test_consume_returns_what_precedes_a_record_that_cannot_be_read() -> None:
    read: list[int | str] = []
    with ottla.open(":memory:") as log:
        bills(log)
        with ottla.Consumer(log, settings=EARLIEST, value_deserializer="json") as consumer:
            consumer.assign([("bills", 0)])
            while len(read) < len(VALUES):
                try:
                    read += [one.value for one in consumer.consume(10, timeout=0.1)]
                except ottla.DeserializationError as error:
                    read.append(f"skipped {error.offset}")
                    consumer.seek(error.partition, error.offset + 1)
    assert read == [1, 2, "skipped 2", 4, "skipped 4", "skipped 5", 7]


def test_so_does_the_consumer_of_an_event_loop() -> None:
    read: list[int | str] = []

    async def consume(log: ottla.Log) -> None:
        made = ottla.aio.Consumer(log, settings=EARLIEST, value_deserializer="json")
        async with made as consumer:
            consumer.assign([("bills", 0)])
            while len(read) < len(VALUES):
                try:
                    read.extend(one.value for one in await consumer.consume(10, timeout=0.1))
                except ottla.DeserializationError as error:
                    read.append(f"skipped {error.offset}")
                    consumer.seek(error.partition, error.offset + 1)

    with ottla.open(":memory:") as log:
        bills(log)
        asyncio.run(consume(log))
    assert read == [1, 2, "skipped 2", 4, "skipped 4", "skipped 5", 7]
