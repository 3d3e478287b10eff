"""Workers that read, and write results with their offsets in one transaction: whoever has lost its
partitions commits nothing (KIP-447).
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.embedded.log import Log
from tests.integration.consumer.styles import EARLIEST, SETTINGS
from tests.support.patience import PATIENCE_S, wait_until

ORDERS = ottla.TopicPartition("orders", 0)
COUNT = 5
BY_HAND: dict[str, Any] = {**EARLIEST, "enable.auto.commit": False}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    quick = {
        "group.min.session.timeout.ms": 1,
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.min.heartbeat.interval.ms": 50,
        "group.consumer.heartbeat.interval.ms": 50,
    }
    with ottla.open(tmp_path, {**SETTINGS, **quick}) as log:
        log.create_topic("orders")
        log.create_topic("bills")
        log.append_many("orders", [b"%d" % number for number in range(COUNT)])
        yield log


@pytest.fixture(params=["in process", "socket"])
def target(request: pytest.FixtureRequest, log: Log) -> Log | str:
    return log if request.param == "in process" else log.listen("127.0.0.1:0").address


def bills(log: Log) -> list[bytes | None]:
    """What a reader of committed records gets."""
    with ottla.Consumer(log, settings={**EARLIEST, "isolation.level": "read_committed"}) as reader:
        reader.assign([("bills", 0)])
        reader.poll(0.2)
        reader.seek_to_beginning()
        (end,) = reader.end_offsets([("bills", 0)]).values()
        found = []
        while (position := reader.position(("bills", 0))) is not None and position < end:
            found += reader.consume(COUNT, 0.05)
    return [one.value for one in found]


def producer(target: Log | str, name: str) -> ottla.Producer:
    return ottla.Producer(target, settings={"transactional.id": name})


def bill(worker: ottla.Producer, records: list[ottla.ConsumerRecord], group: Any) -> None:
    with worker.transaction():
        for one in records:
            worker.send("bills", one.value)
        worker.send_offsets_to_transaction({ORDERS: records[-1].offset + 1}, group)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_worker_that_lost_its_partitions_commits_nothing(
    log: Log, target: Log | str, protocol: str
) -> None:
    settings = {**BY_HAND, "group.protocol": protocol}
    if protocol == "consumer":
        del settings["heartbeat.interval.ms"]
    slow = {**settings, "max.poll.interval.ms": 100}
    with (
        ottla.Consumer(target, "billing", settings=slow) as late,
        ottla.Consumer(target, "billing", settings=settings) as next_one,
        producer(target, "late") as of_late,
        producer(target, "next") as of_next,
    ):
        late.subscribe("orders")
        records = late.consume(COUNT, PATIENCE_S)
        before = late.group_metadata()
        assert before.member_id
        next_one.subscribe("orders")
        again = next_one.consume(COUNT, PATIENCE_S)
        assert [one.offset for one in again] == [one.offset for one in records]
        bill(of_next, again, next_one)
        for group in (before, late):
            with pytest.raises(ottla.CommitFailedError):
                bill(of_late, records, group)
        late.subscribe("bills")
        while late.assignment() != {ottla.TopicPartition("bills", 0)}:
            late.poll(0.02)
            next_one.poll(0.02)
        with pytest.raises(ottla.CommitFailedError, match="orders-0 is not assigned"):
            bill(of_late, records, late)
    assert bills(log) == [b"%d" % number for number in range(COUNT)]
    assert ottla.Admin(log).group_offsets("billing")[ORDERS].offset == COUNT


def test_a_static_member_is_fenced_by_its_successor(log: Log) -> None:
    settings = {**BY_HAND, "group.instance.id": "till"}
    with (
        ottla.Consumer(log, "billing", settings=settings) as first,
        ottla.Consumer(log, "billing", settings=settings) as second,
        producer(log, "first") as of_first,
    ):
        first.subscribe("orders")
        records = first.consume(COUNT, PATIENCE_S)
        before = first.group_metadata()
        assert before.instance_id == "till"
        second.subscribe("orders")
        bill(of_first, second.consume(COUNT, PATIENCE_S), second.group_metadata())
        with pytest.raises(ottla.CommitFailedError, match="FENCED_INSTANCE_ID"):
            bill(of_first, records, before)
    assert len(bills(log)) == COUNT


def test_a_name_is_refused_for_a_group_with_members(log: Log) -> None:
    with (
        ottla.Consumer(log, "billing", settings=BY_HAND) as consumer,
        producer(log, "till") as till,
    ):
        consumer.subscribe("orders")
        records = consumer.consume(COUNT, PATIENCE_S)
        for group in ("billing", ottla.GroupMetadata(group="billing")):
            with pytest.raises(ottla.CommitFailedError, match="pass the consumer"):
                bill(till, records, group)
        consumer.unsubscribe()
        wait_until(lambda: not ottla.Admin(log).describe_groups(["billing"])[0].members)
        bill(till, records, "billing")
    assert len(bills(log)) == COUNT


def test_results_without_their_offsets_are_not_committed(log: Log) -> None:
    with producer(log, "till") as till:
        till.begin_transaction()
        till.send("bills", b"0")
        stale = ottla.GroupMetadata(group="billing", member_id="gone", generation=3)
        with pytest.raises(ottla.CommitFailedError, match="ILLEGAL_GENERATION"):
            till.send_offsets_to_transaction({ORDERS: 1}, stale)
        with pytest.raises(ottla.TransactionError, match="billing"):
            till.commit_transaction()
        with till.transaction():
            till.send_offsets_to_transaction({}, "billing")  # Nothing to commit is no error.
    assert bills(log) == []
    with ottla.Consumer(log, "billing") as consumer:
        assert consumer.committed([ORDERS]) == {ORDERS: None}


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_successor_waits_for_offsets_of_an_open_transaction(log: Log, level: str) -> None:
    settings = {**BY_HAND, "isolation.level": level}
    with (
        producer(log, "till") as till,
        ottla.Consumer(log, "billing", settings=settings) as consumer,
    ):
        till.begin_transaction()
        till.send_offsets_to_transaction({ORDERS: 3}, "billing")
        consumer.assign([ORDERS])
        assert consumer.poll(0.15) is None
        till.commit_transaction()
        record = consumer.poll(PATIENCE_S)
        assert record is not None
        assert record.offset == 3
        assert consumer.committed([ORDERS]) == {ORDERS: 3}


def test_a_worker_in_an_event_loop_passes_its_consumer(log: Log) -> None:
    async def work() -> None:
        settings = {"transactional.id": "till"}
        async with (
            ottla.aio.Consumer(log, "billing", settings=BY_HAND) as consumer,
            ottla.aio.Producer(log, settings=settings) as till,
        ):
            consumer.subscribe("orders")
            with pytest.raises(ottla.CommitFailedError, match="not a member now"):
                consumer.group_metadata()
            records = await consumer.consume(COUNT, PATIENCE_S)
            with pytest.raises(ottla.CommitFailedError, match="pass the consumer"):
                async with till.transaction():
                    await till.send_offsets_to_transaction({ORDERS: 1}, "billing")
            async with till.transaction():
                for one in records:
                    await till.send("bills", one.value)
                await till.send_offsets_to_transaction({ORDERS: COUNT}, consumer)

    asyncio.run(work())
    assert len(bills(log)) == COUNT
