"""What librdkafka drops unanswered when it aborts, it numbers again: docs/testing.md says so.

A wire between it and the broker shows the numbers, and loses one answer together with its
connection. How Kafka's broker answers to the same numbers is in `test_partition_log.py`.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka import Producer

from ottla.codec.schema import reader
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import read_request_header
from ottla.protocol.messages import request_class
from ottla.record.batch import batch_at
from ottla.record.record import read_records
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

VERSION = confluent_kafka.libversion()[0]
SEEN_WITH = "2.16."

pytestmark = pytest.mark.slow


class Sent(NamedTuple):
    """A batch on the wire."""

    value: str
    producer_epoch: int
    base_sequence: int


class Wire:
    """Passes frames on, and notes batches; `loses_answer`: cuts in place of the next answer."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.loses_answer = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def begin(self, broker: tuple[str, int]) -> None:
        self._start(self._accept, broker)

    def close(self) -> None:
        shut(self._listener)
        self._threads[0].join(PATIENCE_S)
        for one in self._ends:
            shut(one)
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _start(self, target: Any, *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _accept(self, broker: tuple[str, int]) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._ends.append(client)
                onward = socket.create_connection(broker)
                self._ends.append(onward)
                self._start(self._serve, client, onward)

    def _serve(self, client: socket.socket, broker: socket.socket) -> None:
        """One request at a time: each is answered before the next is passed on."""
        with suppress(OSError), client, broker:
            for frame, answer in zip(self._requests(client, broker), frames(broker), strict=False):
                is_lost = self.loses_answer and frame[4:6] == bytes((0, ApiKey.PRODUCE))
                if is_lost:
                    self.loses_answer = False
                    return
                client.sendall(answer)

    def _requests(self, client: socket.socket, broker: socket.socket) -> Iterator[bytes]:
        for frame in frames(client):
            self._note(memoryview(frame)[4:])
            broker.sendall(frame)
            yield frame

    def _note(self, frame: memoryview) -> None:
        header, position = read_request_header(frame)
        if header.api_key != ApiKey.PRODUCE:
            return
        request, _ = reader(request_class(header.api_key), header.api_version)(frame, position)
        batch = batch_at(request.topic_data[0].partition_data[0].records, 0)
        value = next(iter(read_records(batch))).value or b""
        self.sent.append(Sent(value.decode(), batch.producer_epoch, batch.base_sequence))


def shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def frames(source: socket.socket) -> Iterator[bytes]:
    with source.makefile("rb") as file:
        while size := file.read(4):
            yield size + file.read(int.from_bytes(size, "big"))


class Client:
    """A transactional producer of librdkafka; `offsets` are what it was told of its records."""

    def __init__(self, port: int, backoff_ms: int) -> None:
        self.offsets: dict[str, int | None] = {}
        self._has_failed = False
        self.producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "transactional.id": "tx",
                "metadata.recovery.strategy": "none",
                "linger.ms": 0,
                "log_level": 0,
                "retry.backoff.ms": backoff_ms,
                "retry.backoff.max.ms": backoff_ms,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 10,
                "error_cb": self._failed,
            }
        )

    def send(self, value: str) -> None:
        def answered(error: object, message: Any) -> None:
            self.offsets[value] = None if error else message.offset()

        self.producer.produce("t", value, partition=0, on_delivery=answered)

    def await_cut(self) -> None:
        while not self._has_failed:
            self.producer.poll(PATIENCE_S)

    def _failed(self, _: object) -> None:
        self._has_failed = True


@contextmanager
def wired(directory: Path, *, backoff_ms: int) -> Iterator[tuple[Wire, Client]]:
    """`backoff_ms`: how long what is to be sent again waits."""
    with ExitStack() as stack:
        wire = stack.enter_context(closing(Wire()))
        address = f"PLAINTEXT://127.0.0.1:{wire.port}"
        broker = open_broker(directory, advertised_listeners=address)
        broker.admin.create_topic(NewTopic(name="t"))
        wire.begin(stack.enter_context(serving(broker)).addresses[0])
        client = Client(wire.port, backoff_ms)
        client.producer.init_transactions(PATIENCE_S)
        yield wire, client


def abort_one_and_commit_one(wire: Wire, client: Client, *, flushes: bool) -> None:
    """The connection of the first is cut when the broker has it and the client no answer."""
    client.producer.begin_transaction()
    wire.loses_answer = True
    client.send("aborted")
    client.await_cut()
    if flushes:
        assert client.producer.flush(PATIENCE_S) == 0
    client.producer.abort_transaction(PATIENCE_S)
    client.producer.begin_transaction()
    client.send("committed")
    client.producer.commit_transaction(PATIENCE_S)


@pytest.mark.skipif(
    not VERSION.startswith(SEEN_WITH),
    reason=f"librdkafka {VERSION} may be fixed: see what docs/testing.md says of {SEEN_WITH}",
)
def test_librdkafka_gives_the_numbers_of_what_an_abort_dropped_to_the_next_record(
    tmp_path: Path,
) -> None:
    """So that, for the broker, that is a retry: acknowledged at the offset of the dropped one."""
    # Long enough for the abort to find it on a slow machine.
    with wired(tmp_path, backoff_ms=4000) as (wire, client):
        abort_one_and_commit_one(wire, client, flushes=False)
        first, second = wire.sent
    assert (first.value, second.value) == ("aborted", "committed")
    assert first[1:] == second[1:] == (0, 0)
    assert client.offsets == {"aborted": None, "committed": 0}


def test_with_a_flush_before_the_abort_it_does_not(tmp_path: Path) -> None:
    with wired(tmp_path, backoff_ms=100) as (wire, client):
        abort_one_and_commit_one(wire, client, flushes=True)
    assert [one.value for one in wire.sent] == ["aborted", "aborted", "committed"]
    assert wire.sent[-1] > wire.sent[0]
    assert client.offsets == {"aborted": 0, "committed": 2}
