"""What is fed with garbage: each target takes any bytes and lets only unexpected errors out.

A target is a function of bytes alone, so that Hypothesis, a coverage-guided fuzzer and a file with
one input drive the same code.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from ottla.base.errors import ApiError, ProtocolError
from ottla.base.principal import ANONYMOUS
from ottla.broker.broker import Broker
from ottla.codec.compression import Compression
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader, writer
from ottla.config.topic import TopicConfig
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import FIRST_FLEXIBLE_VERSIONS, ApiKey
from ottla.protocol.framing import FrameReader
from ottla.protocol.headers import REQUEST_START, read_request_header, read_response_header
from ottla.protocol.messages import DECLARED, request_class, response_class
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.record.batch import InvalidBatchError, batch_at
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records
from ottla.server.authentication.authentication import Authentication, login_settings
from ottla.server.dispatching.apis import APIS
from ottla.server.dispatching.dispatch import Dispatcher
from ottla.server.network.connection_events import LoginOutcome
from ottla.storage.log.append import check_batches
from ottla.storage.log.producer_state import AppendOrigin
from tests.fuzz.__main__ import CONTROLLER, MEMBER
from tests.fuzz.texts import queries, query_seeds, terminal
from tests.fuzz.tls_strangers import first_words, tls
from tests.support.asking import PEER
from tests.support.brokers import batch, disk, open_broker
from tests.support.hostile_controller import HostileController, controller_versions_of
from tests.support.hostile_member import HostileMember
from tests.support.hostile_quorum import HostileQuorum
from tests.support.hostile_requests import ByteChance, HostileClient, versions_of
from tests.support.logins import set_password
from tests.support.random_messages import random_message

Target = Callable[[bytes], None]

MAX_FRAME_SIZE = 64 * 1024
MIN_CAPACITY = 64
MAX_UNPACKED_SIZE = 1024 * 1024
MAX_PARTITION_COUNT = 20
INPUTS_PER_BROKER = 300
SECRET = "a password that no garbage is"
LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_ana="{SECRET}";'

REQUESTS = [
    (request_class(key), version)
    for key in sorted(DECLARED)
    for version in range(request_class(key).VERSIONS.first, request_class(key).VERSIONS.last + 1)
]
RESPONSES = [(response_class(message.API_KEY or 0), version) for message, version in REQUESTS]
ANSWERED = [
    (request_class(api.key), version)
    for api in APIS.values()
    for version in range(api.oldest, api.newest + 1)
]
Declared = list[tuple[type[Message], int]]


def chosen(data: bytes, choices: Declared) -> tuple[type[Message], int, bytes]:
    """The first two bytes say which message in which version the others are to be."""
    number = int.from_bytes(data[:2].ljust(2, b"\0"), "big")
    message, version = choices[number % len(choices)]
    return message, version, data[2:]


def frames(data: bytes) -> None:
    """A stream in pieces, each as long as the next byte of the stream says."""
    source = FrameReader(MAX_FRAME_SIZE, capacity=MIN_CAPACITY)
    most = 0
    while data:
        view = source.writable()
        assert len(view) > 0
        size = min(1 + data[0], len(view), len(data))
        most = max(most, source.pending_size + size)
        view[:size] = data[:size]
        data = data[size:]
        try:
            for frame in source.received(size):
                assert len(frame) <= MAX_FRAME_SIZE
        except ProtocolError:
            return
        assert source.capacity <= max(MIN_CAPACITY, 4 * most), "memory follows what came"


def headers(data: bytes) -> None:
    """A request's header, and a response's for the API in the first bytes."""
    with contextlib.suppress(ProtocolError):
        _, position = read_request_header(memoryview(data))
        assert position <= len(data)
    message, version, rest = chosen(data, RESPONSES)
    with contextlib.suppress(ProtocolError):
        read_response_header(memoryview(rest), message.API_KEY or 0, version)


def requests(data: bytes) -> None:
    read_as(data, REQUESTS)


def responses(data: bytes) -> None:
    read_as(data, RESPONSES)


def read_as(data: bytes, choices: Declared) -> int | None:
    """Where the chosen message ends, `None` when the bytes are none."""
    message, version, body = chosen(data, choices)
    try:
        found, position = reader(message, version)(body, 0)
    except ProtocolError:
        return None
    assert position <= len(body)
    assert type(found) is message
    return position


def records(data: bytes) -> None:
    """What a produce request carries: split and checked, and then every record read."""
    with contextlib.suppress(ApiError):
        check_batches(bytearray(data), TopicConfig(), AppendOrigin.CLIENT)
    with contextlib.suppress(InvalidBatchError):
        for _ in read_records(batch_at(data), limit=MAX_UNPACKED_SIZE):
            pass


class Served:
    """A broker that is asked garbage, and replaced before it has become large."""

    def __init__(self) -> None:
        self._inputs = 0
        self._broker = _broker()

    def __call__(self, data: bytes) -> None:
        self._inputs += 1
        if self._inputs % INPUTS_PER_BROKER == 0:
            self._broker = _broker()
        broker = self._broker
        message, version, body = chosen(data, ANSWERED)
        frame = framed(message, version, body)
        try:
            with few_partitions():
                later = Dispatcher(broker).dispatch(frame, PEER, Output())
        except ProtocolError:
            later = None
        broker.appends.write_out()
        if later is not None:
            broker.fetches.cancel(later.pending_id)


class LoggingIn:
    """A connection that has not logged in: frames cut out of garbage, each a byte of length first.

    Nobody gets in: the one user's password is none that garbage hits upon.
    """

    def __init__(self) -> None:
        self._broker = open_broker(
            disk("/d"),
            listeners="CLIENTS://:0",
            listener_security_protocol_map="CLIENTS:SASL_PLAINTEXT",
            sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            listener_name_clients_plain_sasl_jaas_config=LOGIN,
        )
        set_password(self._broker, "ana", SECRET)
        self._settings = login_settings(self._broker.settings.config, "CLIENTS")
        self._counts: Counter[LoginOutcome] = Counter()

    def __call__(self, data: bytes) -> None:
        connection = Stranger()
        login = Authentication(self._broker, self._settings, self._counts, connection)
        dispatcher = Dispatcher(self._broker)
        with contextlib.suppress(ProtocolError):
            while data:
                size = 1 + data[0]
                login.dispatch(memoryview(bytearray(data[1:size])), Output(), dispatcher)
                data = data[size:]
        assert connection.peer.principal == ANONYMOUS


class Stranger:
    """A connection, as far as a login needs it."""

    def __init__(self) -> None:
        self.peer = PEER
        self.reader = FrameReader(MAX_FRAME_SIZE, capacity=MIN_CAPACITY)

    def has_logged_in(self) -> None:
        raise AssertionError("a stranger was let in")

    def has_failed_to_log_in(self) -> None:
        """The frames that follow must be refused."""


def few_partitions() -> Any:
    """Garbage that asks for many partitions gets fewer than otherwise: that is no news."""
    return mock.patch("ottla.metadata.deciding.topics.MAX_PARTITION_COUNT", MAX_PARTITION_COUNT)


def _broker() -> Broker:
    broker = open_broker(disk("/d"), log_index_size_max_bytes="120")
    broker.admin.create_topic(NewTopic(name="topic-7", partition_count=2))
    broker.appends.append(broker.topics.partition("topic-7", 0), batch(), now_ms=1)
    broker.appends.write_out()
    return broker


def framed(message: type[Message], version: int, body: bytes) -> memoryview:
    """A body after a valid header, as a connection hands it out."""
    key = message.API_KEY or 0
    tags = b"\0" if version >= FIRST_FLEXIBLE_VERSIONS[key] else b""
    return memoryview(bytearray(REQUEST_START.pack(key, version, 7, -1) + tags + body))


def framed_message(message: Message, version: int) -> bytes:
    output = Output()
    writer(type(message), version)(message, output)
    return bytes(framed(type(message), version, output.read_all()))


def among_hostile_nodes(quorum: HostileQuorum) -> Target:
    return lambda data: quorum(ByteChance(data))


TARGETS: dict[str, Callable[[], Target]] = {
    "frames": lambda: frames,
    "headers": lambda: headers,
    "requests": lambda: requests,
    "responses": lambda: responses,
    "records": lambda: records,
    "dispatch": Served,
    "sasl": LoggingIn,
    "tls": lambda: tls,
    "queries": lambda: queries,
    "terminal": lambda: terminal,
    "quorum": lambda: among_hostile_nodes(HostileQuorum()),
}
"""What makes each target; a target may remember what it was fed."""


class AskedOneApi:
    """One API, in the version and with the fields that the bytes decide."""

    def __init__(self, api_key: int, client: HostileClient, versions: range) -> None:
        self._api_key = api_key
        self._client = client
        self._versions = versions

    def __call__(self, data: bytes) -> None:
        chance = ByteChance(data)
        self._client.ask(self._api_key, chance.choice(self._versions), chance)


def target(name: str) -> Target:
    """Makes a target, also that of one API."""
    if name in TARGETS:
        return TARGETS[name]()
    if name.startswith(CONTROLLER):
        key = ApiKey[name.removeprefix(CONTROLLER).upper()]
        return AskedOneApi(key, HostileController(), controller_versions_of(key))
    api = name.removeprefix(MEMBER)
    key = ApiKey[api.upper()]
    client = HostileClient() if api == name else HostileMember()
    return AskedOneApi(key, client, versions_of(key))


def seeds(name: str) -> Iterator[bytes]:
    """Valid inputs of a target, to be changed."""
    chance = random.Random(7)
    match name:
        case "requests":
            yield from _messages(REQUESTS, chance)
        case "responses":
            yield from _messages(RESPONSES, chance)
        case "dispatch":
            yield from _messages(ANSWERED, chance)
        case "records":
            for codec in Compression:
                builder = RecordBatchBuilder(compression=codec)
                for number in range(3):
                    builder.append(b"key", b"value" * 20, number, [("a", b"1"), ("b", None)])
                yield bytes(builder.build())
        case "frames" | "headers":
            for message, version in REQUESTS[::7]:
                frame = bytes(framed(message, version, valid(message, version, chance)))
                yield frame if name == "headers" else len(frame).to_bytes(4, "big") + frame
        case "queries":
            yield from query_seeds()
        case "terminal":
            yield "\x1b]0;owned\x07\x9b35m\u202e漢\r\n".encode()
        case "sasl":
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                for version in (0, 1):
                    shake = framed_message(SaslHandshakeRequest(mechanism=mechanism), version)
                    said = b"\0ana\0guess" if mechanism == "PLAIN" else b"n,,n=ana,r=nonce"
                    say = framed_message(SaslAuthenticateRequest(auth_bytes=said), 2)
                    pieces = (shake, say) if version else (shake, said)
                    yield b"".join(bytes([len(one)]) + one for one in pieces)
        case "tls":
            yield b"\0" + first_words()
            yield b"\1" + bytes.fromhex("14030300010116030300200102")
            yield b"\3" + bytes.fromhex("1703030020") + chance.randbytes(32)
        case _:
            yield from (chance.randbytes(400) for _ in range(20))


def _messages(choices: Declared, chance: random.Random) -> Iterator[bytes]:
    for number, (message, version) in enumerate(choices):
        yield number.to_bytes(2, "big") + valid(message, version, chance)


def valid(message: type[Message], version: int, chance: random.Random) -> bytes:
    output = Output()
    writer(message, version)(random_message(message, version, chance), output)
    return output.read_all()
