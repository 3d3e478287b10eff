"""Connections: answers in order, long polls, slow readers, wake-ups, idleness, the end."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.broker.broker import Broker
from ottla.config.listeners import Listener
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.server.network.listener import Server
from ottla.testing import FakeClock
from tests.support.patience import wait_until
from tests.support.serving import WireClient, open_broker, serving

LONG_MS = 150_000
PATIENCE_S = LONG_MS / 3000


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = open_broker(tmp_path / "data")
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    return broker


@pytest.fixture
def server(broker: Broker) -> Iterator[Server]:
    with serving(broker) as server:
        yield server


def batch(value: bytes = b"value") -> bytearray:
    builder = RecordBatchBuilder()
    builder.append(b"key", value, 1000)
    return bytearray(builder.build())


def produce(index: int = 0, value: bytes = b"value", acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=batch(value))
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch(index: int = 0, offset: int = 0, max_wait_ms: int = LONG_MS) -> FetchRequest:
    wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 26)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 26,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )


def records_of(client: WireClient) -> bytes:
    partition = client.receive(ApiKey.FETCH, 11).responses[0].partitions[0]
    assert partition.error_code == 0
    assert partition.records is not None
    return bytes(partition.records)


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    with WireClient(server.address) as client:
        frames = [client.frame(produce(value=b"%d" % number), 9) for number in range(500)]
        client.socket.sendall(b"".join(frames))
        answers = [client.receive(ApiKey.PRODUCE, 9) for _ in frames]
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
    assert offsets == list(range(500))


def test_what_is_sent_after_a_long_poll_waits_for_it(server: Server) -> None:
    with WireClient(server.address) as poller, WireClient(server.address) as producer:
        poller.send(fetch(), 11)
        poller.send(ApiVersionsRequest(), 0)
        poller.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            poller.receive_frame()
        poller.socket.settimeout(PATIENCE_S)
        producer.ask(produce(), 9)
        assert b"value" in records_of(poller)
        assert poller.receive(ApiKey.API_VERSIONS, 0).error_code == 0


def test_a_produce_after_a_long_poll_on_its_own_connection_waits_like_any_other(
    server: Server,
) -> None:
    with WireClient(server.address) as client:
        frames = client.frame(fetch(max_wait_ms=100), 11) + client.frame(produce(), 9)
        client.socket.sendall(frames)
        assert records_of(client) == b""
        answer = client.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0]
        assert answer.base_offset == 0


def test_an_append_to_another_partition_wakes_nobody(server: Server) -> None:
    with WireClient(server.address) as poller, WireClient(server.address) as producer:
        poller.send(fetch(index=1, max_wait_ms=300), 11)
        producer.ask(produce(index=0), 9)
        assert records_of(poller) == b""


def test_a_fetch_sees_the_produce_sent_before_it_in_the_same_bytes(server: Server) -> None:
    with WireClient(server.address) as client:
        frames = client.frame(produce(), 9) + client.frame(fetch(), 11)
        client.socket.sendall(frames)
        client.receive(ApiKey.PRODUCE, 9)
        assert b"value" in records_of(client)


def test_a_long_poll_ends_at_its_deadline(server: Server) -> None:
    with WireClient(server.address) as client:
        start = time.monotonic()
        client.send(fetch(max_wait_ms=150), 11)
        assert records_of(client) == b""
        assert 0.14 < time.monotonic() - start < PATIENCE_S


def test_a_client_that_hangs_up_during_its_long_poll_is_forgotten(
    server: Server, broker: Broker
) -> None:
    with WireClient(server.address) as client:
        client.send(fetch(), 11)
        wait_until(lambda: len(broker.fetches.waiting) == 1)
    wait_until(lambda: len(broker.fetches.waiting) == 0)


def test_without_acks_nothing_comes_back(server: Server) -> None:
    with WireClient(server.address) as client:
        client.send(produce(acks=0), 9)
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        client.send(fetch(), 11)
        assert b"value" in records_of(client)


@pytest.mark.slow
def test_large_answers_come_whole(server: Server) -> None:
    values = [bytes([number]) * 900_000 for number in range(20)]
    with WireClient(server.address) as client:
        for value in values:
            client.ask(produce(value=value), 9)
        client.send(fetch(), 11)
        data = records_of(client)
    assert len(data) > 18_000_000
    for value in values:
        assert value in data


def test_a_reader_that_takes_nothing_is_not_read_from(server: Server, broker: Broker) -> None:
    with WireClient(server.address) as setup:
        setup.ask(produce(value=b"x" * 500_000), 9)
    with WireClient(server.address) as greedy:
        greedy.socket.settimeout(0.5)
        frames = greedy.frame(fetch(), 11) * 1_000_000
        with pytest.raises(TimeoutError):
            greedy.socket.sendall(frames)
        with WireClient(server.address) as other:
            assert other.ask(ApiVersionsRequest(), 0).error_code == 0
        with server.lock:
            assert max(len(one.output.slices) for one in server._connections) <= 200
            assert max(one._send_queue.size for one in server._connections) < 1 << 20


def test_metadata_names_the_address_that_the_client_came_to(server: Server) -> None:
    with WireClient(server.address) as client:
        broker = client.ask(MetadataRequest(topics=[]), 12).brokers[0]
        assert (broker.host, broker.port) == client.socket.getpeername()


def test_an_advertised_address_is_named_instead(tmp_path: Path) -> None:
    settings = {"advertised_listeners": "PLAINTEXT://kafka.example:1234"}
    with (
        serving(open_broker(tmp_path / "data", **settings)) as server,
        WireClient(server.address) as client,
    ):
        broker = client.ask(MetadataRequest(topics=[]), 12).brokers[0]
        assert (broker.host, broker.port) == ("kafka.example", 1234)


def test_clients_of_each_listener_are_sent_to_where_it_says(tmp_path: Path) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:1,OUTSIDE://127.0.0.1:2,PLAIN://127.0.0.1:3",
        "advertised_listeners": "INSIDE://broker:29092,OUTSIDE://kafka.example:9092",
        "listener_security_protocol_map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,PLAIN:PLAINTEXT",
    }
    told = []
    with serving(open_broker(tmp_path / "data", **settings)) as server:
        for address in server.addresses:
            with WireClient(address) as client:
                broker = client.ask(MetadataRequest(topics=[]), 12).brokers[0]
                told.append((broker.host, broker.port))
    assert told == [("broker", 29092), ("kafka.example", 9092), address]


def test_another_thread_that_appends_wakes_the_pollers(server: Server, broker: Broker) -> None:
    with WireClient(server.address) as client:
        client.send(fetch(), 11)
        wait_until(lambda: len(broker.fetches.waiting) == 1)
        with server.lock:
            broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
            broker.appends.write_out()
        server.wake()
        client.socket.settimeout(PATIENCE_S)
        assert b"value" in records_of(client)


def test_a_deleted_topic_ends_the_polls_on_it(server: Server, broker: Broker) -> None:
    with WireClient(server.address) as client:
        client.send(fetch(), 11)
        wait_until(lambda: len(broker.fetches.waiting) == 1)
        with server.lock:
            broker.admin.delete_topic(broker.topics.get("t"))
        server.wake()
        client.socket.settimeout(PATIENCE_S)
        answer = client.receive(ApiKey.FETCH, 11).responses[0].partitions[0]
        assert answer.error_code == 3


@pytest.mark.parametrize("size", [10, 100_000], ids=["in its answer", "by sendfile"])
def test_records_read_before_their_topic_was_deleted_are_still_sent(
    server: Server, size: int
) -> None:
    """What comes in the same bytes is answered in one round, in which the topic goes, too."""
    deletion = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
    with WireClient(server.address) as client:
        client.ask(produce(value=bytes(size)), 9)
        client.socket.sendall(client.frame(fetch(), 11) + client.frame(deletion, 3))
        assert len(records_of(client)) > size
        assert client.receive(ApiKey.DELETE_TOPICS, 3).responses[0].error_code == 0
        answer = client.ask(fetch(max_wait_ms=0), 11).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_silent_connection_is_closed_after_its_time(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = {"connections_max_idle_ms": "60000"}
    with (
        serving(open_broker(tmp_path / "data", **settings), clock) as server,
        WireClient(server.address) as silent,
        WireClient(server.address) as busy,
    ):
        for client in (silent, busy):
            client.ask(ApiVersionsRequest(), 0)
        clock.advance(59_000)
        busy.ask(ApiVersionsRequest(), 0)
        clock.advance(30_000)
        server.wake()
        assert silent.receive_frame() is None
        assert busy.ask(ApiVersionsRequest(), 0).error_code == 0


def test_stopping_closes_every_connection_and_frees_the_port(tmp_path: Path) -> None:
    with serving(open_broker(tmp_path / "data")) as server:
        address = server.address
        client = WireClient(address)
        client.ask(ApiVersionsRequest(), 0)
    assert client.receive_frame() is None
    client.socket.close()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(address)


def test_a_taken_port_is_an_error_at_the_start(server: Server, tmp_path: Path) -> None:
    taken = Listener(name="PLAINTEXT", address=server.address)
    free = Listener(name="OTHER", address=("127.0.0.1", 0))
    other = Server(server._broker, [free, taken], clock=server._clock)
    with pytest.raises(
        UserError, match=f"cannot listen on 127.0.0.1:{server.address[1]}: .* in use"
    ):
        other.start()
    other.close()
