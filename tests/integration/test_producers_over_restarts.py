"""Producers whose answers were lost, over a broker that stops or is killed and comes back.

Kafka's snapshots keep one batch of each producer; here the log is asked for the others, so that a
retry of any of five batches on their way is answered with its first offset.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.embedded import log as embedded
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.builder import RecordBatchBuilder
from tests.integration.cli.support import serving
from tests.support.logs import NOW_MS
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.serving import WireClient

pytestmark = pytest.mark.slow

VERSION = 9
IN_FLIGHT = 5

Ending = Callable[["Popen[str]"], None]


def kill(process: "Popen[str]") -> None:
    process.kill()
    process.wait()


def stop(process: "Popen[str]") -> None:
    process.terminate()
    assert process.wait(PATIENCE_S) == 0


ENDINGS: list[Ending] = [stop, kill]
KEEPS = pytest.mark.parametrize("keeps", [True, False], ids=["", "without snapshots"])
SIZES = {"one segment": "1073741824", "a segment each": "100"}


def settings(directory: Path, port: int, segment_bytes: str) -> list[str]:
    wanted = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.segment.bytes": segment_bytes,
        "num.partitions": "1",
    }
    given = [part for name, value in wanted.items() for part in ("-o", f"{name}={value}")]
    return ["--data-dir", str(directory), *given]


def request(number: int) -> ProduceRequest:
    builder = RecordBatchBuilder(producer_id=4, producer_epoch=0, base_sequence=3 * number)
    for record in range(3):
        builder.append(b"key", b"%d" % (3 * number + record), NOW_MS)
    data = PartitionProduceData(index=0, records=builder.build())
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def answer(client: WireClient) -> tuple[int, int]:
    (found,) = client.receive(ApiKey.PRODUCE, VERSION).responses[0].partition_responses
    return found.error_code, found.base_offset


def lose_snapshots(directory: Path) -> None:
    for one in directory.glob("t-0/*.snapshot"):
        one.unlink()


@KEEPS
@pytest.mark.parametrize("segment_bytes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("end", ENDINGS)
def test_five_batches_whose_answers_were_lost_are_sent_again(
    tmp_path: Path, end: Ending, segment_bytes: str, keeps: bool
) -> None:
    arguments = settings(tmp_path, free_port(), segment_bytes)
    with serving(None, *arguments) as (address, process):
        with WireClient(at(address)) as client:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
            for number in range(IN_FLIGHT):
                client.send(request(number), VERSION)
            # The last answer says that all are stored; what it says is not heeded.
            for _ in range(IN_FLIGHT):
                assert answer(client)[0] == 0
        end(process)
    for _ in range(2):
        if not keeps:
            lose_snapshots(tmp_path)
        with serving(None, *arguments) as (address, process):
            with WireClient(at(address)) as client:
                for number in range(IN_FLIGHT):
                    client.send(request(number), VERSION)
                expected = [(0, 3 * number) for number in range(IN_FLIGHT)]
                assert [answer(client) for _ in range(IN_FLIGHT)] == expected
            end(process)
    assert stored(tmp_path) == [b"%d" % number for number in range(3 * IN_FLIGHT)]


def at(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def stored(directory: Path) -> list[bytes | None]:
    with embedded.open(directory) as log:
        return [record.value for record in log.read("t")]


class SilentProxy:
    """Between a client and a broker. While it `is_silent` no answer to a Produce comes through."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_silent = False
        self.kept_back = 0
        self.has_all = threading.Event()
        self._links: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # A listener that is merely closed is still waited on.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Ends all connections."""
        links, self._links = self._links, []
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._broker_port))
                except OSError:
                    client.close()
                    continue
                self._links += [client, broker]
                produced: set[bytes] = set()
                for source, sink in ((client, broker), (broker, client)):
                    arguments = (source, sink, produced, source is client)
                    threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, produced: set[bytes], is_request: bool
    ) -> None:
        with contextlib.suppress(OSError), source:
            reader = source.makefile("rb")
            while len(size := reader.read(4)) == 4:
                frame = reader.read(int.from_bytes(size, "big"))
                if is_request and frame[:2] == bytes(2):
                    produced.add(frame[4:8])
                elif not is_request and self.is_silent and frame[:4] in produced:
                    self.kept_back += 1
                    if self.kept_back == IN_FLIGHT:
                        self.has_all.set()
                    continue
                sink.sendall(size + frame)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def broker_port() -> int:
    return free_port()


@pytest.fixture
def proxy(broker_port: int) -> Iterator[SilentProxy]:
    proxy = SilentProxy(broker_port)
    yield proxy
    proxy.close()


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker behind a proxy, and what becomes of its directory while it is away."""

    directory: Path
    port: int
    proxy: SilentProxy
    keeps: bool


@pytest.fixture
def broker(tmp_path: Path, broker_port: int, proxy: SilentProxy, keeps: bool) -> Broker:
    return Broker(tmp_path, broker_port, proxy, keeps)


@KEEPS
@pytest.mark.parametrize("transactional_id", ["", "till"], ids=["idempotent", "transactional"])
@pytest.mark.parametrize("segment_bytes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("end", ENDINGS)
def test_librdkafka_continues_after_a_restart_with_five_batches_on_their_way(
    broker: Broker, end: Ending, segment_bytes: str, transactional_id: str
) -> None:
    proxy = broker.proxy
    arguments = settings(broker.directory, broker.port, segment_bytes)
    arguments += ["-o", f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}"]
    offsets: dict[bytes, int] = {}
    failures: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(str(error))
        else:
            offsets[message.value()] = message.offset()

    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{proxy.port}",
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "reconnect.backoff.max.ms": 200,
            **({"transactional.id": transactional_id} if transactional_id else {}),
            "error_cb": lambda error: failures.append(str(error)) if error.fatal() else None,
        }
    )

    def send(number: int) -> None:
        producer.produce("t", b"%d" % number, partition=0, on_delivery=delivered)

    with serving(None, *arguments) as (_, process):
        if transactional_id:
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
        send(0)
        assert producer.flush(PATIENCE_S) == 0
        proxy.is_silent = True
        for number in range(1, 1 + IN_FLIGHT):
            send(number)
        assert proxy.has_all.wait(PATIENCE_S), f"{proxy.kept_back} batches were on their way"
        end(process)
    if not broker.keeps:
        lose_snapshots(broker.directory)
    proxy.cut()
    proxy.is_silent = False
    with serving(None, *arguments):
        send(1 + IN_FLIGHT)
        assert producer.flush(PATIENCE_S) == 0
        if transactional_id:
            producer.commit_transaction(PATIENCE_S)
    assert failures == []
    assert offsets == {b"%d" % number: number for number in range(2 + IN_FLIGHT)}
    assert stored(broker.directory) == [b"%d" % number for number in range(2 + IN_FLIGHT)]
