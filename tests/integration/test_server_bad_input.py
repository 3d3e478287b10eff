"""Whatever a peer sends, the server closes at most that connection, says why, and serves on."""

import logging
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.codec.primitives import Output
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.server.network.listener import Server
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker, serving

TOPIC = "t"
MAX_REQUEST_SIZE = 1_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    settings = {"socket_request_max_bytes": str(MAX_REQUEST_SIZE)}
    with serving(open_broker(tmp_path / "data", **settings)) as server:
        yield server


def produce(records: bytes, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


@pytest.mark.parametrize("request_line", ["GET / HTTP/1.1", "POST /topics HTTP/1.1"])
def test_http_is_answered_in_http_and_reported(
    request_line: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(server.addresses[0], timeout=PATIENCE_S) as peer:
        peer.sendall(f"{request_line}\r\nHost: here\r\n\r\n".encode())
        head, _, text = peer.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"Content-Length: {len(text)}".encode() in head
    assert text.startswith(b"This is a Kafka broker.")
    assert "it speaks HTTP, but this port is for Kafka clients" in caplog.text


def test_tls_on_a_plaintext_port_is_reported(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(server.addresses[0], timeout=PATIENCE_S) as peer:
        peer.sendall(bytes.fromhex("1603010200010001fc0303"))
        assert peer.recv(1) == b""
    assert "it speaks TLS, but this port is PLAINTEXT" in caplog.text


def batch(value: bytes = b"value") -> bytes:
    builder = RecordBatchBuilder()
    builder.append(b"key", value, 1000)
    return builder.build()


def prove_that_a_good_client_is_served(server: Server) -> None:
    with WireClient(server.address) as client:
        topics = [MetadataRequestTopic(name=TOPIC)]
        metadata = client.ask(MetadataRequest(topics=topics), 12)
        assert metadata.topics[0].error_code == 0
        written = client.ask(produce(batch()), 9).responses[0].partition_responses[0]
        assert written.error_code == 0
        wanted = FetchPartition(
            partition=0, fetch_offset=written.base_offset, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=1000, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]
        )
        read = client.ask(request, 11).responses[0].partitions[0]
        assert read.error_code == 0
        assert read.records is not None
        assert bytes(read.records)[16] == 2


def header(api_key: int, version: int, client_id: bytes = b"\0\4test") -> bytes:
    return struct.pack(">hhi", api_key, version, 7) + client_id


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request_of(message: MetadataRequest | ProduceRequest, version: int) -> bytes:
    assert message.API_KEY is not None
    output = Output()
    encode_request(RequestHeader(message.API_KEY, version, 7, "test"), message, output)
    return output.read_all()


def cut(frame: bytes, missing: int) -> bytes:
    """The frame with its last bytes missing, and a size that says so."""
    return framed(frame[4:-missing])


BAD_INPUT = {
    "a negative size": struct.pack(">i", -1),
    "a size over the limit": struct.pack(">i", MAX_REQUEST_SIZE + 1),
    "an http request": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an empty frame": framed(b""),
    "a frame of three bytes": framed(b"\0\3\0"),
    "an unknown API key": framed(header(999, 0)),
    "a negative API key": framed(header(-1, 0)),
    "an API between brokers": framed(header(ApiKey.LEADER_AND_ISR, 4) + bytes(20)),
    "an API of Kafka that is not served": framed(header(ApiKey.DESCRIBE_QUORUM, 0)),
    "a version to come": framed(header(ApiKey.METADATA, 99) + b"\0\0"),
    "a negative version": framed(header(ApiKey.METADATA, -1)),
    "a fetch of an old version cut short": framed(header(ApiKey.FETCH, 3) + bytes(5)),
    "a client id that is cut short": framed(header(ApiKey.METADATA, 1, b"\0\xff")),
    "a client id of a negative size": framed(header(ApiKey.METADATA, 1, b"\xff\xf0")),
    "a client id that is no UTF-8": framed(header(ApiKey.METADATA, 1, b"\0\1\xff")),
    "a request without a body": framed(header(ApiKey.METADATA, 1)),
    "an array longer than the frame": framed(header(ApiKey.METADATA, 1) + b"\x7f\xff\xff\xff"),
    "an array of a negative size": framed(header(ApiKey.PRODUCE, 3) + b"\xff\xff\xff\x9c" * 3),
    "tagged fields that never end": framed(header(ApiKey.METADATA, 9) + b"\xff" * 9),
    "a cut produce": cut(request_of(produce(batch()), 7), 5),
    "a cut flexible produce": cut(request_of(produce(batch()), 9), 5),
}


@pytest.mark.parametrize("name", list(BAD_INPUT))
def test_a_request_that_breaks_the_rules_closes_its_connection_with_one_line(
    server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), WireClient(server.address) as client:
        client.socket.sendall(BAD_INPUT[name])
        assert client.receive_frame() is None, "nothing but the end"
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.WARNING
    assert caplog.records[0].exc_info is None
    assert "\n" not in caplog.text.strip()
    prove_that_a_good_client_is_served(server)


def test_random_bytes_never_stop_the_server(server: Server) -> None:
    chance = random.Random(11)
    for _ in range(100):
        key, version = chance.choice(list(ApiKey)), chance.randrange(14)
        payload = header(key, version) + chance.randbytes(chance.randrange(200))
        with WireClient(server.address) as client:
            client.socket.sendall(framed(payload))
            client.socket.shutdown(socket.SHUT_WR)
            client.receive_frame()
    prove_that_a_good_client_is_served(server)


def test_requests_before_the_bad_one_are_still_answered(server: Server) -> None:
    with WireClient(server.address) as client:
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9)
        good = client.frame(produce(batch()), 9)
        client.socket.sendall(good + good + BAD_INPUT["an unknown API key"] + good)
        for offset in (0, 1):
            answer = client.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, offset)
        assert client.receive_frame() is None


def test_a_client_that_vanishes_in_the_middle_of_a_frame_leaves_nothing(server: Server) -> None:
    frame = request_of(produce(batch()), 9)
    for size in (1, 3, 4, 5, 20, len(frame) - 1):
        with WireClient(server.address) as client:
            client.socket.sendall(frame[:size])
    prove_that_a_good_client_is_served(server)


def test_a_frame_may_come_byte_by_byte(server: Server) -> None:
    with WireClient(server.address) as client:
        for byte in client.frame(ApiVersionsRequest(), 0):
            client.socket.sendall(bytes([byte]))
        assert client.receive(ApiKey.API_VERSIONS, 0).error_code == 0


def test_api_versions_of_a_version_to_come_is_answered_in_version_zero(server: Server) -> None:
    with WireClient(server.address) as client:
        client.socket.sendall(framed(header(ApiKey.API_VERSIONS, 77) + b"\0nonsense"))
        answer = client.receive(ApiKey.API_VERSIONS, 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert any(one.api_key == ApiKey.API_VERSIONS for one in answer.api_keys)
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_handler_that_fails_costs_its_connection_and_a_traceback_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    with WireClient(server.address) as client, monkeypatch.context() as patch:
        patch.setattr("ottla.server.handlers.find_coordinator.handle", fail)
        client.socket.sendall(framed(header(ApiKey.FIND_COORDINATOR, 0) + b"\0\1g"))
        assert client.receive_frame() is None
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].levelno == logging.ERROR
    prove_that_a_good_client_is_served(server)


def test_a_handler_without_memory_costs_its_connection_and_one_line_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    with WireClient(server.address) as client, monkeypatch.context() as patch:
        patch.setattr("ottla.server.handlers.find_coordinator.handle", fail)
        client.socket.sendall(framed(header(ApiKey.FIND_COORDINATOR, 0) + b"\0\1g"))
        assert client.receive_frame() is None
    (record,) = caplog.records
    assert record.exc_info is None
    assert "there is no memory for its request" in record.getMessage()
    prove_that_a_good_client_is_served(server)


def test_a_failed_produce_without_acks_closes_the_connection(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with WireClient(server.address) as client:
        client.send(produce(batch(), acks=0), 9)  # nobody has made the topic
        assert client.receive_frame() is None
    assert "acks=0" in caplog.text
    prove_that_a_good_client_is_served(server)
