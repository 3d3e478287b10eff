"""Requests of the right shape with the worst that fits it, asked of a broker with real state.

Every field is filled from its declaration: with what the broker knows (topics, groups, members,
producers, paths), with the extremes of its type, and with what has broken programs before (NUL,
dots, slashes, long and empty names, duplicates). None of it may reach the server's catch-all.
"""

import random
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from ottla.base.errors import ProtocolError
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.codec.compression import Compression
from ottla.codec.fields import Field
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, Struct, reader
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.headers import RequestHeader, encode_request, read_response_header
from ottla.protocol.messages import request_class, response_class
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.record.builder import RecordBatchBuilder
from ottla.server.dispatching.apis import APIS, CLUSTER_APIS
from ottla.server.dispatching.dispatch import Dispatcher
from ottla.server.dispatching.request_context import PendingResponse
from tests.support.asking import PEER
from tests.support.brokers import NOW_MS, batch
from tests.support.random_messages import RANGES
from tests.support.serving import open_broker

MEMORY = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)
"""A disk that needs no syncs, where there is one."""

MAX_PARTITION_COUNT = 4
REQUESTS_PER_BROKER = 400
MAX_TOPICS = 40
MAX_TOLD = 200

HOSTILE_TEXTS = (
    "", "\0", "a\0b", ".", "..", "../..", "/", "a/b", " ", "\n", "\x7f", "\u2028", "%s{}", "-1",
    "9223372036854775808", "-9223372036854775809", "1e999", "NaN", "true", "x" * 249, "x" * 250,
    "x" * 32767, "é" * 16383, "\U0001f4a3", "*", "null",
)  # fmt: skip
CLIENT_IDS = (*("test",) * 6, None, "", "x" * 32767, "é" * 16383)
KNOWN_TEXTS = (
    "t", "c", "new", "other", "__consumer_offsets", "__transaction_state", "g", "k", "tx", "range",
    "uniform", "consumer", "share", "retention.ms", "cleanup.policy", "compact", "segment.bytes",
    "log.retention.ms", "max.connections.per.ip.overrides", "listeners", "client-id", "user", "ip",
    "producer_byte_rate", "1", "127.0.0.1:1", "Empty", "Stable", "Ongoing", "read_committed",
)  # fmt: skip
LIKELY: dict[str, tuple[str | int, ...]] = {
    "group": ("g", "k", "new"),
    "transactional": ("tx", "tx", "other"),
    "topic": ("t", "t", "c"),
    "member": ("", "member"),
    "instance": ("",),
    "partition": (0, 1),
    "generation": (-1, 0, 1),
    "epoch": (-1, 0, 1),
    "producer_id": (-1, 0, 1),
    "timeout": (10_000,),
    "timestamp": (-1, -2, -3, NOW_MS),
    "offset": (0, 1, 3, -1),
    "bytes": (1 << 20,),
    "replica_id": (-1, -1, -2),
    "acks": (-1, 1, 0),
    "name": ("t", "c", "retention.ms", "range"),
}
"""By parts of fields' names, what lets a request come further."""

SMALL_INTS = (-3, -2, -1, 0, 0, 1, 1, 2, 3, 5, 9)
COUNTS = (0, 1, 1, 1, 2, 3)
STEPS_MS = (0, 0, 1, 500, 60_000, 10**9)


class ByteChance(random.Random):
    """Chance that is bytes, so that a fuzzer which is guided by coverage decides; then zeros."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = data
        self._position = 0

    def getrandbits(self, count: int, /) -> int:
        size = (count + 7) // 8
        taken = self._data[self._position : self._position + size].ljust(size, b"\0")
        self._position += size
        return int.from_bytes(taken, "big") >> (size * 8 - count)

    def random(self) -> float:
        return self.getrandbits(16) / (1 << 16)


class HostileClient:
    """Asks a broker on a real disk; the broker is replaced before it has become large."""

    peer = PEER

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-", dir=MEMORY))
        self._remove = weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        self._asked = 0
        self._begin()

    def close(self) -> None:
        self._broker.close()
        self._remove()

    def ask(self, api_key: int, version: int, chance: random.Random) -> None:
        """One request, and the answers that have become due; raises what no request may raise."""
        self._asked += 1
        if self._asked % REQUESTS_PER_BROKER == 0 or len(self._broker.topics) > MAX_TOPICS:
            self._broker.close()
            shutil.rmtree(self._directory, ignore_errors=True)
            self._begin()
        request = self._filled(api_key, version, chance)
        with mock.patch("ottla.metadata.deciding.topics.MAX_PARTITION_COUNT", MAX_PARTITION_COUNT):
            self._send(request, version, chance.choice(CLIENT_IDS))
            self.at = Timestamps(
                now_ms=self.at.now_ms, monotonic_ms=self.at.monotonic_ms + chance.choice(STEPS_MS)
            )
            self._settle()

    def _filled(self, api_key: int, version: int, chance: random.Random) -> Message:
        filled: Message = Filler(self.told, version, chance).fill(request_class(api_key))
        return filled

    def _open(self) -> Broker:
        return _broker_with_state(self._directory / "data")

    def _state(self) -> Sequence[tuple[Message, int]]:
        """What is asked before anything hostile."""
        return STATE

    def _likely(self) -> dict[str, tuple[str | int, ...]]:
        return {}

    def _begin(self) -> None:
        self.at = Timestamps(now_ms=NOW_MS, monotonic_ms=0.0)
        self._broker = self._open()
        self._dispatcher = Dispatcher(self._broker)
        self._dispatcher.set_time(self.at)
        self._held: dict[object, tuple[PendingResponse, Message, int]] = {}
        self.told = Told()
        self.told.likely = self._likely()
        self.told.texts.append(str(self._directory / "data"))
        self.told.ids += [topic.topic_id for topic in self._broker.topics]
        for request, version in self._state():
            self._send(request, version)
            self._settle()

    def _send(self, request: Message, version: int, client_id: str | None = "test") -> None:
        assert request.API_KEY is not None
        incoming, output = Output(), Output()
        encode_request(RequestHeader(request.API_KEY, version, 7, client_id), request, incoming)
        frame = memoryview(bytearray(incoming.read_all()))[4:]
        try:
            later = self._dispatcher.dispatch(frame, self.peer, output)
        except ProtocolError:
            assert not output.data, "half an answer"
            return
        self._take(later, request, version, output)
        self._broker.appends.write_out()

    def _settle(self) -> None:
        self._dispatcher.set_time(self.at)
        self._broker.scheduler.run_due(self.at)
        self._broker.appends.write_out()
        for pending_id in self._broker.answers.take_answered(self.at.monotonic_ms):
            if pending_id in self._held:
                later, request, version = self._held.pop(pending_id)
                output = Output()
                self._take(self._dispatcher.finish(later, output), request, version, output)

    def _take(
        self, later: PendingResponse | None, request: Message, version: int, output: Output
    ) -> None:
        if output.data:
            self.told.take(checked_answer(request, version, output.read_all()))
        if later is not None:
            self._held[later.pending_id] = (later, request, version)


def checked_answer(request: Message, version: int, answer: bytes) -> Message:
    """An answer is one whole frame that its reader reads to the end."""
    assert request.API_KEY is not None
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    _, position = read_response_header(answer[4:], request.API_KEY, version)
    response, end = reader(response_class(request.API_KEY), version)(answer[4:], position)
    assert end == len(answer) - 4
    made: Message = response
    return made


class Told:
    """What answers have said, for requests to come: ids, names, offsets, epochs."""

    def __init__(self) -> None:
        self.likely: dict[str, tuple[str | int, ...]] = {}
        """As `LIKELY`, for this broker."""
        self.texts: list[str] = []
        self.ids: list[bytes] = []
        self.numbers: list[int] = []

    def take(self, value: Any) -> None:
        match value:
            case str() if value and len(value) < 100 and len(self.texts) < MAX_TOLD:
                self.texts.append(value)
            case bytes() if len(value) == 16 and len(self.ids) < MAX_TOLD:
                self.ids.append(value)
            case bool():
                pass
            case int() if value > 9 and len(self.numbers) < MAX_TOLD:
                self.numbers.append(value)
            case list():
                for one in value[:20]:
                    self.take(one)
            case Struct():
                for field in value.FIELDS:
                    self.take(getattr(value, field.name))


class Filler:
    """Fills a request of one version with what one client has been told, and with worse."""

    def __init__(self, told: Told, version: int, chance: random.Random) -> None:
        self._told = told
        self._version = version
        self._chance = chance
        # A request that is wrong in one place gets further than one that is wrong in all.
        self._share = chance.choice((0.05, 0.2, 0.6))

    def fill(self, struct: Any) -> Any:
        fields = [field for field in struct.FIELDS if field.is_in(self._version)]
        return struct(**{field.name: self._value(field) for field in fields})

    def _value(self, field: Field) -> Any:
        chance = self._chance
        if chance.random() > self._share:
            likely = self._likely(field)
            if likely is not None:
                return likely
        elif field.is_nullable_in(self._version) and chance.random() < 0.4:
            return None
        match field.kind:
            case "nested":
                return self.fill(field.struct)
            case "array":
                made = [self._element(field) for _ in range(chance.choice(COUNTS))]
                return made + made[-1:] if chance.random() < 0.2 else made
            case "string":
                if chance.random() < 0.3:
                    return chance.choice(HOSTILE_TEXTS)
                return chance.choice((*KNOWN_TEXTS, *self._told.texts))
            case "binary":
                return chance.choice(
                    (b"", b"\0", b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff", b"x" * 70_000)
                )
            case "records":
                return self._records()
            case "uuid":
                return chance.choice((bytes(16), b"\xff" * 16, *self._told.ids))
            case "boolean":
                return chance.random() < 0.5
            case "float64":
                return chance.choice((0.0, -1.0, 1e308, float("inf"), float("nan"), 1024.0))
        return self._number(field)

    def _likely(self, field: Field) -> Any:
        """What a field of that name mostly holds; `None` for one of which nothing is known."""
        if field.kind not in ("string", "int16", "int32", "int64"):
            return None
        known = self._told.likely | LIKELY
        likely = next((values for part, values in known.items() if part in field.name), None)
        if likely is None:
            return field.default
        fitting = [one for one in likely if isinstance(one, str) == (field.kind == "string")]
        return self._chance.choice(fitting) if fitting else field.default

    def _element(self, field: Field) -> Any:
        return self.fill(field.struct) if field.element is None else self._value(field.element)

    def _number(self, field: Field) -> int:
        low, high = RANGES[field.kind]
        numbers = (low, low + 1, high, high - 1, *SMALL_INTS, *SMALL_INTS, *self._told.numbers)
        return max(low, min(high, self._chance.choice(numbers)))

    def _records(self) -> bytes:
        chance = self._chance
        made = bytearray(batch(b"a", b"b", producer_id=chance.choice((-1, 0, 1000))))
        if chance.random() < 0.5:
            made[chance.randrange(len(made))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        return bytes(made) * chance.choice((0, 1, 1, 2))


STATE: tuple[tuple[Message, int], ...] = (
    (InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 5),
    (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 5),
    (
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")],
        ),
        3,
    ),
    (
        ConsumerGroupHeartbeatRequest(
            group_id="k",
            member_id="member",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
        1,
    ),
)
"""Who is there already: producers, and a member of a group of each protocol."""


SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "group_initial_rebalance_delay_ms": "0",
    "log_index_size_max_bytes": "1200",
    "num_partitions": "1",
    "super_users": "User:ANONYMOUS",
}


def _broker_with_state(directory: Path) -> Broker:
    broker = open_broker(
        directory,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        **SETTINGS,
    )
    for name, overrides in (("t", {}), ("c", {"cleanup.policy": "compact"})):
        broker.admin.create_topic(NewTopic(name=name, partition_count=2, overrides=overrides))
        for index in range(2):
            broker.appends.append(
                broker.topics.partition(name, index), keyed_batch(), now_ms=NOW_MS
            )
    broker.appends.write_out()
    return broker


def keyed_batch() -> bytearray:
    builder = RecordBatchBuilder(compression=Compression.GZIP)
    for number in range(3):
        builder.append(b"key", b"%d" % number, NOW_MS + number)
    return bytearray(builder.build())


def versions_of(api_key: int) -> range:
    api = APIS.get(api_key) or CLUSTER_APIS[api_key]
    return range(api.oldest, api.newest + 1)
