"""Clients that record what was acknowledged, each in a process of its own until stdin ends.

python -m tests.support.cluster_clients CLIENT BOOTSTRAP TOPIC PARTITIONS FILE
"""

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ottla.testing.history import HistoryWriter, Outcome, Send
from tests.support.patience import PATIENCE_S

MESSAGE_TIMEOUT_MS = 1000 * PATIENCE_S
KAFKA_PYTHONS_START_S = 15
KAFKA_PYTHONS_TIMEOUT_S = 30
AT_ONCE = 5
LONGEST_PAUSE_S = 0.05


class Client:
    """Sends to all partitions in turn; a line of output for each record acknowledged."""

    def __init__(self, name: str, bootstrap: str, topic: str, writer: HistoryWriter) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.is_over = threading.Event()
        self._name = name
        self._writer = writer
        self._given = 0

    def values(self, partitions: int) -> Iterator[tuple[int, str, int]]:
        for number in itertools.count():
            self._given = number
            yield number % partitions, f"{self._name}-{number}", time.monotonic_ns()

    def pause(self) -> None:
        """Between sends: the longer the run the longer, as each client reads everything later."""
        self.is_over.wait(min(LONGEST_PAUSE_S, self._given / 1_000_000))

    def sent(self, sending: tuple[int, str, int], offset: int | None, *, is_known: bool) -> None:
        """`is_known`: it was acknowledged; otherwise it may be in the log."""
        partition, value, began = sending
        send = Send(
            process=self._name,
            began=began,
            ended=time.monotonic_ns() if is_known else None,
            partition=f"{self.topic}-{partition}",
            value=value,
            outcome=Outcome.OK if is_known else Outcome.UNKNOWN,
            offset=offset,
        )
        self._writer.write(send)


def produce_by_librdkafka(client: Client, partitions: int) -> None:
    from confluent_kafka import Producer

    from tests.support.running_cluster import Silence

    settings = {
        "bootstrap.servers": client.bootstrap,
        "enable.idempotence": True,
        "message.timeout.ms": MESSAGE_TIMEOUT_MS,
        "linger.ms": 2,
        "socket.timeout.ms": 3000,
        # It forgets brokers that Metadata does not list, as one that is down, and asks again only
        # when it has to: one that has come back is unknown when the last known one dies.
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.max.ms": 500,
    }
    producer = Producer(settings, logger=Silence())
    values = client.values(partitions)

    def send(sending: tuple[int, str, int]) -> None:
        def answered(error: Any, message: Any) -> None:
            offset = message.offset() if error is None else -1
            known = offset if offset is not None and offset >= 0 else None
            client.sent(sending, known, is_known=error is None)

        producer.produce(client.topic, sending[1], partition=sending[0], on_delivery=answered)

    while not client.is_over.is_set():
        for sending in itertools.islice(values, 20):
            send(sending)
        producer.poll(0.02)
        client.pause()
    if producer.flush(PATIENCE_S):
        sys.exit("no answers in time")


def produce_by_kafka_python(client: Client, partitions: int) -> None:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError, KafkaTimeoutError

    def new_producer() -> Any:
        # One address that does not answer may take all the time that it has for its start.
        for _ in range(PATIENCE_S // KAFKA_PYTHONS_START_S):
            with suppress(KafkaTimeoutError):
                return KafkaProducer(
                    bootstrap_servers=client.bootstrap.split(","),
                    bootstrap_timeout_ms=1000 * KAFKA_PYTHONS_START_S,
                    enable_idempotence=True,
                    acks="all",
                    delivery_timeout_ms=1000 * KAFKA_PYTHONS_TIMEOUT_S,
                    request_timeout_ms=3000,
                    reconnect_backoff_max_ms=500,
                    metadata_max_age_ms=1000,
                )
        sys.exit("no broker answers")

    producer = new_producer()

    def send(partition: int, value: str) -> WaitForOffset:
        asked = producer
        future = asked.send(client.topic, value.encode(), partition=partition)

        def wait() -> int:
            nonlocal producer
            try:
                # It does not always keep to its own limit for a delivery.
                return int(future.get(KAFKA_PYTHONS_TIMEOUT_S).offset)
            except KafkaError:
                # It knows the brokers that were up when it asked last, and never its first
                # addresses again: where that was one, which then is down, only a new one goes on.
                if asked is producer:
                    asked.close(timeout=0)
                    producer = new_producer()
                raise

        return wait

    produce_a_few_at_once(client, partitions, send, KafkaError)
    producer.close()


def produce_by_java(client: Client, partitions: int) -> None:
    from tests.compat import java_clients
    from tests.compat.java import java_class

    producer = java_clients.producer(client.bootstrap, request_timeout_ms=3000, linger_ms=2)

    def send(partition: int, value: str) -> WaitForOffset:
        answer = producer.send(java_clients.record(client.topic, value, partition=partition))

        def wait() -> int | None:
            told = answer.get()
            return int(told.offset()) if told.hasOffset() else None

        return wait

    failure = java_class("java.util.concurrent.ExecutionException")
    produce_a_few_at_once(client, partitions, send, failure)
    producer.close()


def produce_by_ottla(client: Client, partitions: int) -> None:
    import ottla
    from ottla.base.errors import OttlaError

    settings = {"delivery.timeout.ms": MESSAGE_TIMEOUT_MS, "request.timeout.ms": 3000}
    with ottla.Producer(client.bootstrap, settings=settings) as producer:

        def send(partition: int, value: str) -> WaitForOffset:
            sending = producer.send(client.topic, value.encode(), partition=partition)

            def wait() -> int | None:
                offset = sending.result(PATIENCE_S).offset
                return offset if offset >= 0 else None

            return wait

        produce_a_few_at_once(client, partitions, send, OttlaError)


WaitForOffset = Callable[[], int | None]
"""Waits for the answer; `None` where it does not say the offset, as of what was sent twice."""


def produce_a_few_at_once(
    client: Client,
    partitions: int,
    send: Callable[[int, str], WaitForOffset],
    failure: type[Exception],
) -> None:
    values = client.values(partitions)
    while not client.is_over.is_set():
        sent = [(sending, send(*sending[:2])) for sending in itertools.islice(values, AT_ONCE)]
        for sending, wait in sent:
            try:
                offset = wait()
            except failure:
                client.sent(sending, None, is_known=False)
            else:
                client.sent(sending, offset, is_known=True)
        client.pause()


CLIENTS: dict[str, Callable[[Client, int], None]] = {
    "librdkafka": produce_by_librdkafka,
    "kafka-python": produce_by_kafka_python,
    "ottla": produce_by_ottla,
    "java": produce_by_java,
}


def main() -> None:
    name, bootstrap, topic, partitions, path = sys.argv[1:]
    with HistoryWriter(Path(path)) as writer:
        client = Client(name, bootstrap, topic, writer)

        def wait_for_end() -> None:
            sys.stdin.read()
            client.is_over.set()

        # What the client raises ends the process, and whoever waits for it sees why.
        threading.Thread(target=wait_for_end, daemon=True).start()
        CLIENTS[name](client, int(partitions))


if __name__ == "__main__":
    main()
