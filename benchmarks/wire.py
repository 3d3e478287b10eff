"""The leanest client there is: frames made beforehand, and answers that are counted, not read.

So that what is measured is the broker. Whether the answers were right is seen from the first and
the last of them: offsets must have grown by exactly what was sent.
"""

import itertools
import socket
import time
from typing import Any

from benchmarks.logs import batch_of
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_request, read_response_header
from ottla.protocol.messages import response_class
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

TIMEOUT_S = 30.0
NEWEST_PRODUCE = 9
"""The first flexible version: newer ones differ by what this benchmark does not use."""
NEWEST_CREATE_TOPICS = 4
ACKS_ALL = -1
RECEIVE_SIZE = 256 * 1024

_topic_numbers = itertools.count(1)


class WireClient:
    """One connection."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        known = self.ask(ApiVersionsRequest(), 0).api_keys
        self._newest: dict[int, int] = {api.api_key: api.max_version for api in known}

    def __enter__(self) -> "WireClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def version(self, api_key: ApiKey, newest: int) -> int:
        """The newest version that both sides know."""
        return min(self._newest[api_key], newest)

    def ask(self, request: Message, version: int) -> Any:
        self.socket.sendall(frame_of(request, version))
        assert request.API_KEY is not None
        return decode(self.receive_frame(), request.API_KEY, version)

    def receive_frame(self) -> bytes:
        return self.receive_exactly(int.from_bytes(self.receive_exactly(4), "big"))

    def receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            some = self.socket.recv(size - len(data))
            if not some:
                raise ConnectionError("the broker closed the connection")
            data += some
        return bytes(data)

    def create_topic(self, partition_count: int = 1, **settings: str) -> str:
        """A new topic; returns its name. Settings are Kafka's names with `_` for `.`."""
        name = f"bench-{next(_topic_numbers)}"
        wanted = CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)
        wanted.configs = [
            CreatableTopicConfig(name=one.replace("_", "."), value=text)
            for one, text in settings.items()
        ]
        version = self.version(ApiKey.CREATE_TOPICS, NEWEST_CREATE_TOPICS)
        answer = self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), version)
        code = answer.topics[0].error_code
        if code:
            raise RuntimeError(f"the broker did not make a topic: error {code}")
        return name


def frame_of(request: Message, version: int) -> bytes:
    assert request.API_KEY is not None
    output = Output()
    encode_request(RequestHeader(request.API_KEY, version, 1, "bench"), request, output)
    return output.read_all()


def decode(frame: bytes, api_key: int, version: int) -> Any:
    _, position = read_response_header(frame, api_key, version)
    response, _ = reader(response_class(api_key), version)(frame, position)
    return response


class Producing:
    """Produce requests to a topic of their own, acks=all, all with the same bytes.

    They have one record unless told; what else is given is the topic's settings.
    """

    def __init__(
        self, host: str, port: int, value_size: int = 100, record_count: int = 1, **settings: str
    ) -> None:
        self._address = (host, port)
        self._clients = [WireClient(host, port)]
        client = self._clients[0]
        self._version = client.version(ApiKey.PRODUCE, NEWEST_PRODUCE)
        data = PartitionProduceData(index=0, records=batch_of(record_count, value_size))
        topic = TopicProduceData(name=client.create_topic(1, **settings), partition_data=[data])
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=10_000, topic_data=[topic])
        self.frame = frame_of(request, self._version)
        self.answer_size = 0
        self._next_offset = self._first_produce()

    def close(self) -> None:
        for client in self._clients:
            client.socket.close()

    def _first_produce(self) -> int:
        """The offset that comes next. A broker may need a moment to lead the new partition."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            self._clients[0].socket.sendall(self.frame)
            error_code, offset = self._read_answer()
            if not error_code:
                return offset + 1
            if time.monotonic() > deadline:
                raise RuntimeError(f"produce requests fail with error {error_code}")
            time.sleep(0.05)

    def _read_answer(self) -> tuple[int, int]:
        frame = self._clients[0].receive_frame()
        self.answer_size = len(frame) + 4
        answer = decode(frame, ApiKey.PRODUCE, self._version)
        partition = answer.responses[0].partition_responses[0]
        return partition.error_code, partition.base_offset

    def sockets(self, count: int) -> list[socket.socket]:
        """That many connections."""
        while len(self._clients) < count:
            self._clients.append(WireClient(*self._address))
        return [client.socket for client in self._clients[:count]]

    def check(self, count: int) -> None:
        """Raises unless exactly `count` records were appended since the last check."""
        self._clients[0].socket.sendall(self.frame)
        error_code, offset = self._read_answer()
        if error_code or offset != self._next_offset + count:
            raise RuntimeError(
                f"offset {offset} (error {error_code}) after {count} produce requests "
                f"from {self._next_offset} on"
            )
        self._next_offset = offset + 1
