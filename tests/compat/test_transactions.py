"""Real transactional producers: what commits is seen by all, what aborts by nobody who minds."""

import asyncio
import signal
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import aiokafka
import aiokafka.errors
import kafka.errors
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.structs import OffsetAndMetadata

from ottla.base.clock import SystemClock
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from tests.integration.cli.support import serving as serving_process
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

SOURCE, TARGET, GROUP = "source", "target", "g"
FENCED = (KafkaException, kafka.errors.KafkaError, aiokafka.errors.KafkaError)


class TransactionalProducer(Protocol):
    """One client's producer under the names that all have in common."""

    def begin(self) -> None: ...

    def send(self, value: bytes, partition: int = 0) -> None:
        """Returns when the broker has it."""

    def send_offsets(self, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class ConfluentProducer:
    def __init__(self, address: str, timeout_ms: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": "tx",
                "transaction.timeout.ms": timeout_ms,
                "log_level": 0,
            }
        )
        self._consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP, "log_level": 0})
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes, partition: int = 0) -> None:
        self._producer.produce(TARGET, value, partition=partition)
        assert self._producer.flush(PATIENCE_S) == 0

    def send_offsets(self, offset: int) -> None:
        metadata = self._consumer.consumer_group_metadata()
        where = TopicPartition(SOURCE, 0, offset)
        self._producer.send_offsets_to_transaction([where], metadata, PATIENCE_S)

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonProducer:
    def __init__(self, address: str, timeout_ms: int, **settings: Any) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=address,
            transactional_id="tx",
            transaction_timeout_ms=timeout_ms,
            **settings,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes, partition: int = 0) -> None:
        self._producer.send(TARGET, value, partition=partition).get(PATIENCE_S)

    def send_offsets(self, offset: int) -> None:
        where = {KafkaTopicPartition(SOURCE, 0): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(where, GROUP)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class AioKafkaProducer:
    def __init__(self, address: str, timeout_ms: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer = self._run(self._make(address, timeout_ms))

    async def _make(self, address: str, timeout_ms: int) -> Any:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, transactional_id="tx", transaction_timeout_ms=timeout_ms
        )
        await producer.start()
        return producer

    def _run(self, deed: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(deed, PATIENCE_S))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(TARGET, value, partition=partition))

    def send_offsets(self, offset: int) -> None:
        where = {aiokafka.TopicPartition(SOURCE, 0): offset}
        self._run(self._producer.send_offsets_to_transaction(where, GROUP))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._run(self._producer.stop())
        self._loop.close()


PRODUCERS: dict[str, Callable[[str, int], TransactionalProducer]] = {
    "confluent": ConfluentProducer,
    "kafka-python": KafkaPythonProducer,
    "kafka-python as 0.11": partial(KafkaPythonProducer, api_version=(0, 11)),
    "kafka-python as 2.5": partial(KafkaPythonProducer, api_version=(2, 5)),
    "aiokafka": AioKafkaProducer,
}


class Home:
    """A served broker, and one kind of producer."""

    def __init__(
        self, broker: Broker, address: str, make: Callable[[str, int], TransactionalProducer]
    ) -> None:
        self.broker = broker
        self.address = address
        self._make = make
        self._producers: list[TransactionalProducer] = []

    def producer(self, timeout_ms: int = 60_000) -> TransactionalProducer:
        producer = self._make(self.address, timeout_ms)
        self._producers.append(producer)
        return producer

    def close(self) -> None:
        for producer in self._producers:
            producer.close()

    def read(self, isolation: str = "read_committed") -> list[bytes]:
        """The values in both partitions of the target."""
        return read(self.address, TARGET, [0, 1], isolation)

    def state(self) -> str:
        now = Timestamps(now_ms=SystemClock().now_ms(), monotonic_ms=SystemClock().monotonic_ms())
        found = self.broker.transactions.machines(now)[0].describe("tx")
        assert found is not None
        return found.state


def read(
    address: str, topic: str, indexes: list[int], isolation: str = "read_committed"
) -> list[bytes]:
    """All values, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,  # How long the broker waits at an end.
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in indexes])
        values: list[bytes] = []
        end_count = 0
        while end_count < len(indexes):
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            error = message.error()
            if error is None:
                values.append(message.value())
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                end_count += 1
        return sorted(values)
    finally:
        consumer.close()


def committed(address: str) -> int | None:
    """The group's offset, as a consumer fetches it that waits for what is stable."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP, "log_level": 0})
    try:
        (found,) = consumer.committed([TopicPartition(SOURCE, 0)], PATIENCE_S)
        return None if found.offset < 0 else int(found.offset)
    finally:
        consumer.close()


@pytest.fixture(params=PRODUCERS)
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    broker = open_broker(
        tmp_path / "data",
        offsets_topic_num_partitions="2",
        transaction_state_log_num_partitions="2",
    )
    for name in (SOURCE, TARGET):
        broker.admin.create_topic(NewTopic(name=name, partition_count=2))
    with serving(broker) as server:
        home = Home(broker, "{}:{}".format(*server.address), PRODUCERS[request.param])
        yield home
        home.close()


def test_what_commits_is_read_and_what_aborts_is_not(home: Home) -> None:
    producer = home.producer()
    for number in range(4):
        producer.begin()
        for partition in (0, 1):
            producer.send(b"%d-%d" % (number, partition), partition)
        producer.abort() if number % 2 else producer.commit()
    assert home.read() == [b"0-0", b"0-1", b"2-0", b"2-1"]
    assert len(home.read("read_uncommitted")) == 8


def test_what_is_open_is_read_by_those_only_who_do_not_mind(home: Home) -> None:
    producer = home.producer()
    producer.begin()
    producer.send(b"open")
    assert home.read() == []
    assert home.read("read_uncommitted") == [b"open"]
    producer.commit()
    assert home.read() == [b"open"]


def test_offsets_are_committed_with_what_was_made_of_them(home: Home) -> None:
    producer = home.producer()
    producer.begin()
    producer.send(b"made of 0 to 6")
    producer.send_offsets(7)
    assert home.broker.groups.known[0].offsets.has_pending(GROUP)
    producer.commit()
    assert committed(home.address) == 7
    producer.begin()
    producer.send(b"made of 7 to 8")
    producer.send_offsets(9)
    producer.abort()
    assert committed(home.address) == 7
    assert home.read() == [b"made of 0 to 6"]


def test_a_second_producer_shuts_out_the_first(home: Home) -> None:
    first = home.producer()
    first.begin()
    first.send(b"first")
    second = home.producer()
    second.begin()
    second.send(b"second")
    with pytest.raises(FENCED):
        first.commit()
    second.commit()
    assert home.read() == [b"second"]


def test_a_transaction_that_takes_too_long_is_aborted(home: Home) -> None:
    producer = home.producer(timeout_ms=1000)
    producer.begin()
    producer.send(b"late")
    wait_until(lambda: home.state() == "CompleteAbort")
    with pytest.raises(FENCED):
        producer.commit()
    assert home.read() == []


def test_a_transaction_continues_after_the_broker_was_killed(tmp_path: Path) -> None:
    """With all it had written before, offsets included."""
    data = tmp_path / "data"
    with serving_process(data) as (address, process):
        plain = Producer({"bootstrap.servers": address, "log_level": 0})
        plain.produce(SOURCE, b"to be read")
        assert plain.flush(PATIENCE_S) == 0
        producer = ConfluentProducer(address, 60_000)
        producer.begin()
        producer.send(b"before")
        producer.send_offsets(5)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    with serving_process(None, "-d", str(data), "--listen", address):
        producer.send(b"after")
        producer.commit()
        producer.close()
        assert read(address, TARGET, [0]) == [b"after", b"before"]
        assert committed(address) == 5


# Consume, transform, produce

RECORD_COUNT = 40


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A broker with numbers in one partition of the source."""
    broker = open_broker(tmp_path / "data", group_initial_rebalance_delay_ms="0")
    for name in (SOURCE, TARGET):
        broker.admin.create_topic(NewTopic(name=name, partition_count=1))
    with serving(broker) as server:
        address = "{}:{}".format(*server.address)
        plain = Producer({"bootstrap.servers": address, "log_level": 0})
        for number in range(RECORD_COUNT):
            plain.produce(SOURCE, b"%02d" % number)
        assert plain.flush(PATIENCE_S) == 0
        yield address


def member(address: str) -> Consumer:
    """A consumer that is in the group and has the partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.subscribe([SOURCE])
    return consumer


def transform_some(consumer: Consumer, producer: Producer) -> list[bytes]:
    """A few records in a transaction that is not ended yet, with where it has come to."""
    producer.begin_transaction()
    messages = [consumer.poll(PATIENCE_S)]
    messages += consumer.consume(6, timeout=0.2)
    values = []
    for message in messages:
        assert message is not None
        assert message.error() is None
        values.append(b"made of " + message.value())
        producer.produce(TARGET, values[-1])
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
    )
    return values


def transactional(address: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": address, "transactional.id": "tx", "log_level": 0, "linger.ms": 0}
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def test_each_record_is_transformed_once_though_transactions_abort_and_members_die(
    address: str,
) -> None:
    made: list[bytes] = []
    turn = 0
    consumer, producer = member(address), transactional(address)
    while len(made) < RECORD_COUNT:
        some = transform_some(consumer, producer)
        turn += 1
        if turn % 3 == 0:
            producer.abort_transaction(PATIENCE_S)
            consumer.close()
            consumer = member(address)
        elif turn % 3 == 1:
            producer.commit_transaction(PATIENCE_S)
            made += some
        else:
            # Another takes over in the middle, and aborts what was left.
            producer = transactional(address)
            consumer.close()
            consumer = member(address)
    consumer.close()
    assert read(address, TARGET, [0]) == [b"made of %02d" % one for one in range(RECORD_COUNT)]
    assert len(read(address, TARGET, [0], "read_uncommitted")) > RECORD_COUNT
    assert committed(address) == RECORD_COUNT


def test_a_member_that_has_left_commits_no_offsets(address: str) -> None:
    consumer, producer = member(address), transactional(address)
    assert consumer.poll(PATIENCE_S) is not None
    old = consumer.consumer_group_metadata()
    consumer.close()
    producer.begin_transaction()
    producer.produce(TARGET, b"too late")
    with pytest.raises(KafkaException) as refusal:
        producer.send_offsets_to_transaction([TopicPartition(SOURCE, 0, 1)], old, PATIENCE_S)
    assert refusal.value.args[0].txn_requires_abort()
    producer.abort_transaction(PATIENCE_S)
    assert read(address, TARGET, [0]) == []
    assert committed(address) is None
