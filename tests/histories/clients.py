"""Clients of a trial, each a process: `python -m tests.histories.clients ROLE NAME FILE ADDRESS
SEED SECONDS`. What it does goes to FILE, so that it may be killed at any time."""

import faulthandler
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from ottla.testing.history import (
    Assign,
    Begin,
    CommitOffsets,
    End,
    HistoryWriter,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
)
from tests.histories.clocks import wrong_ms

TOPIC = "in"
OUTPUT = "out"
PARTITIONS = 3
GROUP = "workers"
PATIENCE_S = 30.0
TRANSACTION_MS = 3000
POLL_S = 0.1
SET_SHARE = 0.02
"""Of all records: before them the client's clock is set."""


class Silence:
    """librdkafka reports lost connections, which is what a trial is about."""

    def log(self, *_: object) -> None:
        pass


class Teller:
    """Writes what one process does, with times that are its own."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._writer = HistoryWriter(path)
        self._last = 0

    def begun(self) -> dict[str, Any]:
        self._last = max(self._last + 1, time.monotonic_ns())
        return {"process": self.name, "began": self._last}

    def tell(self, operation: Operation) -> None:
        self._writer.write(operation)


class Client:
    """What all roles have."""

    def __init__(self, name: str, path: Path, address: str, seed: int) -> None:
        self.teller = Teller(name, path)
        self.address = address
        self.chance = random.Random(seed)
        self._count = 0
        self._fast_ms = wrong_ms(self.chance)

    def value(self) -> str:
        self._count += 1
        return f"{self.teller.name}:{self._count}"

    def timestamp_ms(self) -> int:
        """What records say, by a clock that is wrong and is set now and then."""
        if self.chance.random() < SET_SHARE:
            self._fast_ms = wrong_ms(self.chance)
        return time.time_ns() // 1_000_000 + self._fast_ms

    def producer(self, **more: Any) -> Producer:
        config = {
            "bootstrap.servers": self.address,
            "enable.idempotence": True,
            "linger.ms": 2,
            "batch.num.messages": 10,
            "message.timeout.ms": int(PATIENCE_S * 1000),
            "retry.backoff.ms": 50,
            # It forgets its brokers otherwise, and may then wait for one that it has forgotten.
            "metadata.recovery.strategy": "none",
            "socket.timeout.ms": 3000,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
        }
        return Producer({**config, **more}, logger=Silence())

    def consumer(self, group: str, *, is_committed: bool) -> Consumer:
        config = {
            "bootstrap.servers": self.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "socket.timeout.ms": 3000,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
        }
        return Consumer(config, logger=Silence())

    def send(self, producer: Producer, topic: str, **more: Any) -> None:
        """Tells of the send, and again when it is answered; an error leaves open what happened."""
        partition = self.chance.randrange(PARTITIONS)
        told = {**self.teller.begun(), "partition": f"{topic}-{partition}", **more}
        value = told["value"] = self.value()
        self.teller.tell(Send(**told))

        def answered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                known = offset if offset is not None and offset >= 0 else None
                told["ended"] = time.monotonic_ns()
                self.teller.tell(Send(**told, outcome=Outcome.OK, offset=known))

        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    partition=partition,
                    timestamp=self.timestamp_ms(),
                    on_delivery=answered,
                )
                return
            except BufferError:
                producer.poll(POLL_S)

    def poll(self, consumer: Consumer, *, is_committed: bool, count: int = 50) -> list[Message]:
        """Takes what has come, and tells of it; the records of it."""
        records, positions = [], {}
        messages = consumer.consume(count, POLL_S)
        # A rebalance may have happened in it, and what came of it belongs before the records.
        begun = self.teller.begun()
        for message in messages:
            error = message.error()
            where = f"{message.topic()}-{message.partition()}"
            if error is None:
                records.append(message)
                positions[where] = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                positions[where] = message.offset()
        reads = tuple(
            Read(f"{one.topic()}-{one.partition()}", one.offset(), one.value().decode())
            for one in records
        )
        if positions:
            ended = time.monotonic_ns()
            self.teller.tell(
                Poll(
                    **begun,
                    ended=ended,
                    records=reads,
                    is_committed=is_committed,
                    positions=positions,
                )
            )
        return records


# Roles


def transactional(slot: str) -> dict[str, Any]:
    """The next process of a slot has the same id, and fences the one before."""
    return {
        "transactional.id": slot,
        "transaction.timeout.ms": TRANSACTION_MS,
        "message.timeout.ms": TRANSACTION_MS,
    }


def produce(client: Client, until: float) -> None:
    """Sends in bursts, some of them longer than the client has requests in flight."""
    producer = client.producer()
    while time.monotonic() < until:
        for _ in range(client.chance.randrange(1, 60)):
            client.send(producer, TOPIC)
        producer.poll(client.chance.uniform(0.0, 0.05))
    producer.flush(PATIENCE_S)


def produce_in_transactions(client: Client, until: float) -> None:
    """Commits most, aborts some; the next process with the same id fences this one."""
    slot = client.teller.name.partition(".")[0]
    producer = client.producer(**transactional(slot))
    retried(producer.init_transactions)
    number = 0
    while time.monotonic() < until:
        number += 1
        name = f"{client.teller.name}-t{number}"
        client.teller.tell(Begin(**client.teller.begun(), transaction=name))
        producer.begin_transaction()
        for _ in range(client.chance.randrange(1, 30)):
            client.send(producer, TOPIC, transaction=name)
            if client.chance.random() < 0.2:
                producer.poll(0.01)
        end(client, producer, name, is_commit=client.chance.random() < 0.75)


def produce_in_transactions_of_java(client: Client, until: float) -> None:
    """Imported only where it is needed, for it starts a Java machine."""
    from tests.histories import java_producer

    java_producer.produce_in_transactions(client, until)


def transform(client: Client, until: float) -> None:
    """Reads committed inputs as one of a group, and writes one output for each, exactly once."""
    slot = client.teller.name.partition(".")[0]
    producer = client.producer(**transactional(slot))
    retried(producer.init_transactions)
    consumer = client.consumer(GROUP, is_committed=True)
    consumer.subscribe(
        [TOPIC],
        on_assign=lambda one, partitions: start_at_commits(client, one, partitions),
        on_revoke=lambda *_: None,
    )
    number = 0
    while time.monotonic() < until:
        records = client.poll(consumer, is_committed=True, count=20)
        if not records:
            continue
        number += 1
        name = f"{client.teller.name}-t{number}"
        if not transform_once(client, consumer, producer, name, records):
            start_at_commits(client, consumer, consumer.assignment())
    consumer.close()


def transform_once(
    client: Client, consumer: Consumer, producer: Producer, name: str, records: list[Message]
) -> bool:
    """One transaction; whether it was committed."""
    client.teller.tell(Begin(**client.teller.begun(), transaction=name))
    producer.begin_transaction()
    offsets: dict[int, int] = {}
    for one in records:
        source = (f"{TOPIC}-{one.partition()}", one.offset())
        client.send(producer, OUTPUT, transaction=name, source=source)
        offsets[one.partition()] = one.offset() + 1
    commit: dict[str, Any] = {
        **client.teller.begun(),
        "group": GROUP,
        "offsets": {f"{TOPIC}-{partition}": offset for partition, offset in offsets.items()},
        "transaction": name,
    }
    client.teller.tell(CommitOffsets(**commit))
    next_ones = [TopicPartition(TOPIC, *one) for one in offsets.items()]
    metadata = consumer.consumer_group_metadata()
    try:
        retried(lambda: producer.send_offsets_to_transaction(next_ones, metadata, PATIENCE_S))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        end(client, producer, name, is_commit=False)
        return False
    ended = time.monotonic_ns()
    client.teller.tell(CommitOffsets(**commit, ended=ended, outcome=Outcome.OK))
    return end(client, producer, name, is_commit=client.chance.random() < 0.85)


def start_at_commits(client: Client, consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Has a consumer read on where its group has committed."""
    begun = client.teller.begun()
    committed = retried(lambda: consumer.committed(partitions, timeout=PATIENCE_S))
    consumer.assign(
        [TopicPartition(one.topic, one.partition, max(one.offset, 0)) for one in committed]
    )
    positions: dict[str, int | None] = {
        f"{one.topic}-{one.partition}": max(one.offset, 0) for one in committed
    }
    ended = time.monotonic_ns()
    client.teller.tell(Assign(**begun, ended=ended, positions=positions, group=GROUP))


def end(client: Client, producer: Producer, name: str, *, is_commit: bool) -> bool:
    """Ends a transaction, and tells how; what cannot be committed is aborted. Whether it was."""
    begun = client.teller.begun()
    client.teller.tell(End(**begun, transaction=name, is_commit=is_commit))
    ends = producer.commit_transaction if is_commit else producer.abort_transaction
    # Without it librdkafka 2.16 may give the numbers of what it drops to the next transaction:
    # tests/compat/test_aborts_of_librdkafka.py.
    if not is_commit and producer.flush(2 * TRANSACTION_MS / 1000):
        sys.exit(f"{client.teller.name}: no answers in time")
    try:
        retried(lambda: ends(PATIENCE_S))
    except KafkaException as error:
        if not (is_commit and error.args[0].txn_requires_abort()):
            raise
        end(client, producer, name, is_commit=False)
        return False
    ended = time.monotonic_ns()
    client.teller.tell(
        End(**begun, ended=ended, transaction=name, is_commit=is_commit, outcome=Outcome.OK)
    )
    return is_commit


def retried(deed: Callable[[], Any]) -> Any:
    """Again and again while the client says that this may help."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return deed()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise


def consume(client: Client, until: float, *, is_committed: bool) -> None:
    """Reads everything, from the start, and now and then from somewhere else."""
    topics = (TOPIC, OUTPUT)
    consumer = client.consumer(f"of {client.teller.name}", is_committed=is_committed)
    places = [TopicPartition(topic, one, 0) for topic in topics for one in range(PARTITIONS)]
    client.teller.tell(assign(client, consumer, places))
    while time.monotonic() < until:
        client.poll(consumer, is_committed=is_committed)
        if client.chance.random() < 0.01:
            client.teller.tell(assign(client, consumer, places))
    consumer.close()


def assign(client: Client, consumer: Consumer, places: list[TopicPartition]) -> Assign:
    begun = client.teller.begun()
    consumer.assign(places)
    positions: dict[str, int | None] = {
        f"{one.topic}-{one.partition}": one.offset for one in places
    }
    return Assign(**begun, ended=time.monotonic_ns(), positions=positions)


ROLES: dict[str, Callable[[Client, float], None]] = {
    "producer": produce,
    "transactional": produce_in_transactions,
    "transformer": transform,
    "java_transactional": produce_in_transactions_of_java,
    "consumer": lambda client, until: consume(client, until, is_committed=False),
    "committed": lambda client, until: consume(client, until, is_committed=True),
}


def main() -> None:
    role, name, path, address, seed, seconds = sys.argv[1:]
    # Whoever hangs when the trial is over says where.
    faulthandler.dump_traceback_later(float(seconds) + PATIENCE_S / 3)
    client = Client(name, Path(path), address, int(seed))
    try:
        ROLES[role](client, time.monotonic() + float(seconds))
    except KafkaException as error:
        sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main()
