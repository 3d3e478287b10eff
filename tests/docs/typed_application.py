"""An application of every public class, whose types `mypy --strict` checks with the package.

Nothing of it is `Any` but keys and values, which the application's own serializers decide.
"""

import asyncio
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import assert_type

import ottla
from ottla.base.partitions import OffsetRange
from ottla.client.producing.sent_record import SentRecord
from ottla.embedded.scanning import TopicRecord
from ottla.testing import LocalBroker, ProducedRecord

PLACE = ottla.TopicPartition("orders", 0)


def with_settings(log: ottla.Log) -> None:
    """An editor completes the names, and a value of another type is an error."""
    settings: ottla.ProducerSettings = {"linger.ms": 5, "compression.type": "zstd"}
    with ottla.Producer(log, settings=settings) as producer:
        producer.send("orders", b"tea")
    config: ottla.TopicSettings = {"cleanup.policy": "compact", "retention.ms": 3_600_000}
    log.create_topic("prices", config=config)
    wrong: ottla.ConsumerSettings = {"fetch.min.bytes": None}  # type: ignore[typeddict-item]
    del wrong["fetch.min.bytes"]


def with_frames(log: ottla.Log) -> None:
    import duckdb
    import polars

    assert_type(log.scan("orders").to_polars(), polars.DataFrame)
    assert_type(log.scan("orders").to_duckdb(), duckdb.DuckDBPyRelation)


def with_a_log(log: ottla.Log) -> None:
    assert_type(log.append("orders", b"tea"), ottla.RecordMetadata)
    assert_type(log.append_many("orders", [b"tea"]), dict[int, OffsetRange])
    assert_type(log.offsets("orders"), dict[int, tuple[int, int]])
    assert_type(log.topic_settings("orders"), dict[str, str])
    for record in log.read("orders"):
        assert_type(record, ottla.Record)
    for found in log.scan("orders"):
        assert_type(found, TopicRecord)
        assert_type(found.value, bytes | None)
    for found in log.tail("orders", timeout_s=0):
        assert_type(found.offset, int)
    assert_type(log.offsets_for_time("orders", 0), dict[int, int | None])
    assert_type(log.delete_records("orders", {0: 0}), dict[int, int])


def with_a_log_beside_its_writer(path: Path) -> None:
    with ottla.open(path) as log, assert_type(ottla.open(path, read_only=True), ottla.FollowedLog):
        assert_type(log.topics(), dict[str, int])


def with_pairs(log: ottla.Log) -> None:
    """A partition may be a pair, wherever an application names one."""
    pair = ("orders", 0)
    with ottla.Consumer(log, "pairs") as consumer:
        consumer.assign([pair])
        consumer.assign({pair: 0})
        consumer.seek(pair, 0)
        consumer.seek_to_beginning(pair)
        consumer.pause(pair)
        consumer.resume(pair)
        assert_type(consumer.position(pair), int | None)
        assert_type(consumer.end_offsets([pair])[PLACE], int)
        assert_type(consumer.offsets_for_times({pair: 0})[PLACE], int | None)
        consumer.commit(offsets={pair: 1})
        assert_type(consumer.committed([pair])[PLACE], int | None)


def with_transactions(log: ottla.Log) -> None:
    with ottla.Producer(log, settings={"transactional.id": "billing"}) as producer:
        with producer.transaction() as same:
            assert_type(same, ottla.Producer)
            with ottla.Consumer(log, "billing") as consumer:
                consumer.assign([PLACE])
                same.send_offsets_to_transaction({PLACE: 1}, consumer)
                same.send_offsets_to_transaction({("orders", 0): 1}, consumer)
                group = assert_type(consumer.group_metadata(), ottla.GroupMetadata)
            same.send_offsets_to_transaction({PLACE: 1}, group)
        assert_type(producer.metrics(), dict[str, int])


def with_a_broker_of_tests(path: Path) -> None:
    with LocalBroker(path) as broker:
        assert_type(broker.produce("orders", "tea"), ottla.RecordMetadata)
        assert_type(broker.assert_produced("orders", value="tea"), list[ProducedRecord])
        assert_type(broker.address, str)
        broker.fail("fetch", "NOT_LEADER_OR_FOLLOWER", times=1)
        broker.advance(days=7)
        broker.disk.fill()
        broker.heal()


def with_clients(log: ottla.Log) -> None:
    with ottla.Producer(log, value_serializer="json") as producer:
        assert_type(producer.send("orders", {"tea": 2}).result(), SentRecord)
        assert_type(producer.flush(), int)
    with ottla.Consumer(log, "billing", settings={"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign({PLACE: 0})
        assert_type(consumer.poll(10), ottla.ConsumerRecord | None)
        assert_type(consumer.consume(1, 10), list[ottla.ConsumerRecord])
        assert_type(consumer.commit_async(), Future[None])
        assert_type(consumer.committed([PLACE]), dict[ottla.TopicPartition, int | None])
    with ottla.ShareConsumer(log, "workers") as shared:
        shared.subscribe("orders")
        assert_type(shared.poll_many(timeout=0.0), list[ottla.ShareRecord])
        assert_type(shared.commit(), None)
    with ottla.SimpleConsumer(log) as simple:
        assert_type(simple.fetch("orders"), list[ottla.ConsumerRecord])
        assert_type(simple.offsets_before("orders"), list[int])
    with ottla.Admin(log) as admin:
        assert_type(admin.list_topics(), list[str])


def names_that_do_not_exist() -> list[object]:
    """Each is an error to a type checker, since an unused `type: ignore` would be one."""
    return [
        ottla.Consummer,  # type: ignore[attr-defined]
        ottla.aio.Consummer,  # type: ignore[attr-defined]
        ottla.testing.LocalBrocker,  # type: ignore[attr-defined]
        ottla.table.raed,  # type: ignore[attr-defined]
    ]


def with_files_alone(path: Path) -> None:
    with ottla.Admin([str(path)], read_only=True) as admin:
        assert_type(admin.list_topics(), list[str])


async def with_an_event_loop(log: ottla.Log) -> None:
    async with ottla.aio.Producer(log) as producer:
        assert_type(await producer.send_and_wait("orders", b"tea"), SentRecord)
    async with ottla.aio.Consumer(log, settings={"auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe("orders")
        async for record in consumer:
            assert_type(record, ottla.ConsumerRecord)
            break
    async with ottla.aio.Admin(log) as admin:
        assert_type(await admin.list_topics(), list[str])


def main() -> None:
    with assert_type(ottla.open(":memory:"), ottla.Log) as log:
        log.create_topic("orders")
        with_a_log(log)
        with_frames(log)
        with_settings(log)
        with_clients(log)
        with_pairs(log)
        with_transactions(log)
        asyncio.run(with_an_event_loop(log))
    with TemporaryDirectory() as directory:
        with_a_log_beside_its_writer(Path(directory) / "log")
        with_a_broker_of_tests(Path(directory) / "broker")
