"""Apache Kafka's Java client in transactions of version 2 (KIP-890): no other client speaks it."""

import itertools
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.compat.java import (
    PATIENCE_S,
    array_list,
    duration,
    java_class,
    kafka,
    needs_java_client,
    needs_version_4,
    wait,
)
from tests.compat.java_clients import (
    POLL_S,
    administrator,
    close,
    closing,
    consumer,
    create_topic,
    java_map,
    place,
    producer,
    read_values,
    record,
    send_all,
)
from tests.integration.cli.support import serving
from tests.support.grounds import QUORUM
from tests.support.running_cluster import RunningCluster

pytestmark = [pytest.mark.slow, needs_java_client]

OPTIONS = ["-o", "offsets.topic.num.partitions=2", "-o", "transaction.state.log.num.partitions=2"]
OPTIONS += ["-o", "group.initial.rebalance.delay.ms=0"]
names = (f"name{number}" for number in itertools.count())


@pytest.fixture(scope="module", params=["one broker", "a quorum"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of a quorum, a partition's leader is seldom the coordinator of what is written to it."""
    folder = tmp_path_factory.mktemp("java") / "data"
    if request.param == "one broker":
        with serving(folder, *OPTIONS) as (address, _):
            yield address
    else:
        folder.mkdir()
        with RunningCluster(folder, grounds=QUORUM) as running:
            yield running.bootstrap


class Home:
    """A topic and a transactional id of one name."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.name = next(names)
        create_topic(address, self.name, 2)
        self._producers: list[Any] = []

    def producer(self, **settings: Any) -> Any:
        made = producer(self.address, transactional_id=self.name, **settings)
        self._producers.append(made)
        made.initTransactions()
        return made

    def send(self, sender: Any, value: str, partition: int = 0) -> None:
        wait(sender.send(record(self.name, value, partition=partition)))

    def read(self, isolation: str = "read_committed") -> list[str]:
        return read_values(self.address, self.name, (0, 1), isolation_level=isolation)

    def described(self) -> Any:
        with administrator(self.address) as admin:
            return wait(admin.describeTransactions(array_list([self.name])).all())[self.name]

    def close(self) -> None:
        for one in self._producers:
            close(one, 0)


@pytest.fixture
def home(address: str) -> Iterator[Home]:
    home = Home(address)
    yield home
    home.close()


@needs_version_4
def test_every_end_raises_the_epoch(home: Home) -> None:
    """With transactions of version 2, that is, which the broker offers and the client takes."""
    sender = home.producer()
    epochs = []
    for number in range(4):
        sender.beginTransaction()
        home.send(sender, f"{number}")
        sender.abortTransaction() if number % 2 else sender.commitTransaction()
        epochs.append(home.described().producerEpoch())
    assert epochs == list(range(epochs[0], epochs[0] + 4))
    assert home.read() == ["0", "2"]
    assert home.read("read_uncommitted") == ["0", "1", "2", "3"]


def test_what_commits_is_read_and_what_aborts_or_is_open_is_not(home: Home) -> None:
    sender = home.producer()
    for number in range(4):
        sender.beginTransaction()
        for partition in (0, 1):
            home.send(sender, f"{number}-{partition}", partition)
        sender.abortTransaction() if number % 2 else sender.commitTransaction()
    assert sorted(home.read()) == ["0-0", "0-1", "2-0", "2-1"]
    assert len(home.read("read_uncommitted")) == 8
    sender.beginTransaction()
    home.send(sender, "open")
    assert str(home.described().state()) == "Ongoing"
    assert [str(one) for one in home.described().topicPartitions()] == [f"{home.name}-0"]
    assert len(home.read()) == 4
    sender.commitTransaction()
    assert len(home.read()) == 5


def test_transactions_without_records_end_well(home: Home) -> None:
    sender = home.producer()
    for _ in range(2):
        sender.beginTransaction()
        sender.commitTransaction()
        sender.beginTransaction()
        sender.abortTransaction()
    sender.beginTransaction()
    home.send(sender, "something")
    sender.commitTransaction()
    assert home.read() == ["something"]


def test_a_second_producer_shuts_out_the_first(home: Home) -> None:
    first = home.producer()
    first.beginTransaction()
    home.send(first, "first")
    second = home.producer()
    second.beginTransaction()
    home.send(second, "second")
    with pytest.raises(kafka("common.errors.ProducerFencedException")):
        first.commitTransaction()
    second.commitTransaction()
    assert home.read() == ["second"]


def test_a_producer_that_takes_too_long_is_aborted_and_told(home: Home) -> None:
    sender = home.producer(transaction_timeout_ms=300)
    sender.beginTransaction()
    home.send(sender, "late")
    deadline = time.monotonic() + PATIENCE_S
    while str(home.described().state()) != "CompleteAbort":
        assert time.monotonic() < deadline
    with pytest.raises(kafka("common.KafkaException")):
        sender.commitTransaction()
    assert home.read() == []
    again = home.producer()
    again.beginTransaction()
    home.send(again, "in time")
    again.commitTransaction()
    assert home.read() == ["in time"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_record_is_transformed_once_though_transactions_abort_and_members_go(
    address: str, protocol: str
) -> None:
    source, home = next(names), Home(address)
    create_topic(address, source)
    inputs = [f"{one:02}" for one in range(40)]
    send_all(address, [record(source, one) for one in inputs])
    made = 0
    reader, sender = member(address, source, protocol), home.producer()
    for turn in itertools.count(1):
        made += transform(home, reader, sender, turn)
        if made == len(inputs):
            break
        if turn % 3 == 0:
            close(reader)
            reader = member(address, source, protocol)
        if turn % 4 == 0:
            sender = home.producer()
    close(reader)
    home.close()
    assert home.read() == [f"made of {one}" for one in inputs]
    assert len(home.read("read_uncommitted")) > len(inputs)


def member(address: str, topic: str, protocol: str) -> Any:
    settings: dict[str, Any] = {"isolation_level": "read_committed", "max_poll_records": 7}
    reader = consumer(address, group_id=topic, group_protocol=protocol, **settings)
    reader.subscribe(array_list([topic]))
    return reader


def transform(home: Home, reader: Any, sender: Any, turn: int) -> int:
    """One transaction: how many records were transformed in it, none when it aborts."""
    records: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while not records:
        assert time.monotonic() < deadline
        records = list(reader.poll(duration(POLL_S)))
    sender.beginTransaction()
    for one in records:
        sender.send(record(home.name, f"made of {one.value()}", partition=0))
    where = kafka("clients.consumer.OffsetAndMetadata")(records[-1].offset() + 1)
    offsets = java_map({place(records[0].topic()): where})
    sender.sendOffsetsToTransaction(offsets, reader.groupMetadata())
    if turn % 2:
        sender.commitTransaction()
        return len(records)
    sender.flush()
    sender.abortTransaction()
    reader.seek(place(records[0].topic()), records[0].offset())
    return 0


def test_a_member_that_has_left_commits_no_offsets(home: Home) -> None:
    source = next(names)
    create_topic(home.address, source)
    send_all(home.address, [record(source, "v")])
    reader, sender = member(home.address, source, "classic"), home.producer()
    while not list(reader.poll(duration(POLL_S))):
        pass
    old = reader.groupMetadata()
    close(reader)
    sender.beginTransaction()
    home.send(sender, "too late")
    where = kafka("clients.consumer.OffsetAndMetadata")(1)
    with pytest.raises(kafka("clients.consumer.CommitFailedException")):
        sender.sendOffsetsToTransaction(java_map({place(source): where}), old)
    sender.abortTransaction()
    assert home.read() == []


def test_administrators_see_and_end_transactions(home: Home) -> None:
    sender = home.producer()
    sender.beginTransaction()
    home.send(sender, "hanging")
    with administrator(home.address) as admin:
        listed = {one.transactionalId(): one for one in wait(admin.listTransactions().all())}
        assert str(listed[home.name].state()) == "Ongoing"
        here = place(home.name)
        found = wait(admin.describeProducers(array_list([here])).all())[here].activeProducers()
        (active,) = found
        assert active.producerId() == home.described().producerId()
        start = active.currentTransactionStartOffset().getAsLong()
        assert start == 0
        spec = kafka("clients.admin.AbortTransactionSpec")(
            here, active.producerId(), java_class("java.lang.Short")(active.producerEpoch()),
            active.coordinatorEpoch().orElse(0),
        )  # fmt: skip
        wait(admin.abortTransaction(spec).all())
        assert home.read() == []
        with closing(consumer(home.address, isolation_level="read_committed")) as reader:
            assert reader.endOffsets(array_list([here]))[here] == 2
        wait(admin.fenceProducers(array_list([home.name])).all())
    with pytest.raises(kafka("common.KafkaException")):
        sender.commitTransaction()


def test_every_acknowledged_commit_is_seen_once_though_the_broker_is_killed(
    tmp_path: Path,
) -> None:
    """Killed in the middle of a transaction or while it ends; the client continues by itself."""
    chance = random.Random(2)
    committed: list[str] = []
    data, listen, home = tmp_path / "data", "127.0.0.1:0", None
    open_ones: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:
        for life in range(4):
            with serving(None, "-d", str(data), "--listen", listen, *OPTIONS) as (listen, process):
                if home is None:
                    home = Home(listen)
                    sender = home.producer()
                while open_ones:
                    open_ones.pop().result(PATIENCE_S)
                for number in range(4):
                    is_commit = chance.random() < 0.7
                    values = [f"{life}-{number}-{one}" for one in range(3)]
                    open_ones = [pool.submit(run_transaction, home, sender, values, is_commit)]
                    committed += values if is_commit else []
                    if number < 3 or chance.random() < 0.3:
                        open_ones.pop().result(PATIENCE_S)
                if life == 3:
                    while open_ones:
                        open_ones.pop().result(PATIENCE_S)
                    assert sorted(home.read()) == sorted(committed)
                    home.close()
                process.send_signal(signal.SIGKILL)
                process.wait(PATIENCE_S)


def run_transaction(home: Home, sender: Any, values: list[str], is_commit: bool) -> None:
    sender.beginTransaction()
    for number, value in enumerate(values):
        sender.send(record(home.name, value, partition=number % 2))
    sender.flush()
    sender.commitTransaction() if is_commit else sender.abortTransaction()
