"""A role of a trial: Apache Kafka's Java producer in transactions of version 2 (KIP-890)."""

import sys
import time
from typing import Any, NamedTuple

from ottla.testing.history import Begin, End, Outcome, Send
from tests.compat.java import PATIENCE_S, java_class, kafka
from tests.compat.java_clients import producer, record
from tests.histories.clients import PARTITIONS, TOPIC, TRANSACTION_MS, Client

FATAL = (
    "InvalidProducerEpochException",
    "InvalidTxnStateException",
    "OutOfOrderSequenceException",
    "ProducerFencedException",
)
"""What a producer does not come back from: fenced, or aborted by its timeout while it ended."""


class Sent(NamedTuple):
    """What was told of a record when it was handed to the client, and the future of its answer."""

    told: dict[str, Any]
    answer: Any


def produce_in_transactions(client: Client, until: float) -> None:
    """Commits most, aborts some; the next process of the slot fences this one.

    The time that Java takes to start is not of the trial.
    """
    began = time.monotonic()
    sender = producer(
        client.address,
        transactional_id=client.teller.name.partition(".")[0],
        transaction_timeout_ms=TRANSACTION_MS,
        delivery_timeout_ms=TRANSACTION_MS,
        request_timeout_ms=TRANSACTION_MS // 2,
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=100,
        linger_ms=2,
        batch_size=200,
    )
    patiently(sender.initTransactions)
    until += time.monotonic() - began
    number = 0
    while time.monotonic() < until:
        number += 1
        name = f"{client.teller.name}-t{number}"
        client.teller.tell(Begin(**client.teller.begun(), transaction=name))
        sender.beginTransaction()
        sent = [send(client, sender, name) for _ in range(client.chance.randrange(1, 30))]
        end(client, sender, name, sent, is_commit=client.chance.random() < 0.75)
    sender.close()


def send(client: Client, sender: Any, transaction: str) -> Sent:
    partition = client.chance.randrange(PARTITIONS)
    told = {
        **client.teller.begun(),
        "partition": f"{TOPIC}-{partition}",
        "transaction": transaction,
        "value": client.value(),
    }
    client.teller.tell(Send(**told))
    told_of = record(TOPIC, told["value"], partition=partition, timestamp_ms=client.timestamp_ms())
    try:
        answer = sender.send(told_of)
    except java_class("org.apache.kafka.common.KafkaException"):
        answer = None  # The transaction has failed meanwhile, as its end will say.
    return Sent(told, answer)


def end(client: Client, sender: Any, name: str, sent: list[Sent], *, is_commit: bool) -> None:
    """Ends a transaction, and tells how; what cannot be committed is aborted."""
    begun = client.teller.begun()
    client.teller.tell(End(**begun, transaction=name, is_commit=is_commit))
    try:
        patiently(sender.commitTransaction if is_commit else sender.abortTransaction)
    except tuple(kafka(f"common.errors.{one}") for one in FATAL) as error:
        sys.exit(f"{client.teller.name}: {error}")
    except kafka("common.KafkaException") as error:
        if not is_commit:
            sys.exit(f"{client.teller.name}: {error}")
        end(client, sender, name, sent, is_commit=False)
        return
    tell_answers(client, sent)
    ended = time.monotonic_ns()
    client.teller.tell(
        End(**begun, ended=ended, transaction=name, is_commit=is_commit, outcome=Outcome.OK)
    )


def tell_answers(client: Client, sent: list[Sent]) -> None:
    """Of those records that were acknowledged; of the rest it stays open what happened."""
    for told, answer in sent:
        if answer is None or not answer.isDone():
            continue
        try:
            offset = int(answer.get().offset())
        except java_class("java.util.concurrent.ExecutionException"):
            continue
        ended = time.monotonic_ns()
        client.teller.tell(Send(**told, ended=ended, outcome=Outcome.OK, offset=offset))


def patiently(deed: Any) -> None:
    """Again while the client gives up waiting, which it allows for these deeds."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            deed()
            return
        except kafka("common.errors.TimeoutException"):
            if time.monotonic() > until:
                raise
