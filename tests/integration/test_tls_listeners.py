"""Listeners with TLS: who gets in and as whom, what they get, and what strangers cost."""

import contextlib
import logging
import os
import random
import signal
import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import ANONYMOUS, Principal
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.network.listener import Server
from ottla.server.tls import handshakes
from ottla.server.tls.transport import kernel_encrypts
from tests.integration.test_server_reconfigured import altered
from tests.support.brokers import batch
from tests.support.certificates import Authority, Identity, authority, client_context
from tests.support.logins import USER, log_in, login_broker
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port
from tests.support.serving import WireClient, open_broker, serving

VERSIONS = ApiVersionsRequest()
BOTH = "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093"


def tls_broker(directory: Path, **settings: str) -> Broker:
    """A broker with a plain listener and one with TLS."""
    store = authority().server().write(directory / "server.pem")
    own = {
        "listeners": BOTH,
        "ssl_keystore_location": str(store),
        "ssl_keystore_type": "PEM",
        "ottla_authentication_timeout_ms": str(PATIENCE_S * 1000),
    }
    return open_broker(directory / "data", **(own | settings))


def of_tls(server: Server) -> tuple[str, int]:
    return server.addresses[1]


def trusting(identity: Identity | None = None, directory: Path | None = None) -> ssl.SSLContext:
    return client_context(authority(), identity, directory)


def produce(client: WireClient, topic: str, records: bytes) -> int:
    request = ProduceRequest(
        acks=-1,
        timeout_ms=PATIENCE_S * 1000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=records)]
            )
        ],
    )
    (answer,) = client.ask(request, 9).responses[0].partition_responses
    return int(answer.error_code)


def fetch(client: WireClient, topic: str) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    request = FetchRequest(
        max_bytes=1 << 30, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )
    (answer,) = client.ask(request, 11).responses[0].partitions
    return bytes(answer.records)


def test_metadata_names_the_listener_that_a_client_came_by(tmp_path: Path) -> None:
    advertised = "PLAINTEXT://inside:9092,SSL://outside.example:9093"
    with serving(tls_broker(tmp_path, advertised_listeners=advertised)) as server:
        for address, context, wanted in (
            (server.address, None, ("inside", 9092)),
            (of_tls(server), trusting(), ("outside.example", 9093)),
        ):
            with WireClient(address, context) as client:
                (broker,) = client.ask(MetadataRequest(topics=[]), 12).brokers
                assert (broker.host, broker.port) == wanted


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_large_requests_and_answers_pass_whole(tmp_path: Path, version: ssl.TLSVersion) -> None:
    broker = tls_broker(tmp_path, fetch_max_bytes=str(1 << 30))
    broker.admin.create_topic(NewTopic(name="t"))
    context = trusting()
    context.minimum_version = context.maximum_version = version
    values = [os.urandom(size) for size in (1, 5_000, 300_000, 900_000, 700_000)]
    with serving(broker) as server, WireClient(of_tls(server), context) as client:
        for value in values:
            assert produce(client, "t", bytes(batch(value))) == 0
        records = fetch(client, "t")
    assert all(value in records for value in values)


def test_a_frame_in_records_of_single_bytes_is_one_request(tmp_path: Path) -> None:
    with (
        serving(tls_broker(tmp_path)) as server,
        WireClient(of_tls(server), trusting()) as client,
    ):
        for byte in client.frame(VERSIONS, 0):
            client.socket.sendall(bytes([byte]))
        assert client.receive(18, 0).error_code == 0


@pytest.mark.slow
def test_requests_in_one_write_are_all_answered(tmp_path: Path) -> None:
    """More than a buffer's worth: what is decrypted must not wait for bytes that never come."""
    count = 20_000
    with (
        serving(tls_broker(tmp_path)) as server,
        WireClient(of_tls(server), trusting()) as client,
    ):
        frames = b"".join(client.frame(MetadataRequest(topics=[]), 4) for _ in range(count))
        client.socket.sendall(frames)
        for _ in range(count):
            assert client.receive(3, 4).brokers


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", "CN=ana,O=Acme"),
        ("RULE:CN=(.*?),O=Acme/$1/U", "ANA"),
        ("RULE:CN=nobody/x/,RULE:.*CN=(.*?),.*/$1/", "ana"),
    ],
)
def test_a_certificate_makes_the_principal(tmp_path: Path, rules: str, user: str) -> None:
    with (
        serving(mutual(tmp_path, ssl_principal_mapping_rules=rules)) as server,
        WireClient(of_tls(server), trusting(authority().client("ana", "Acme"), tmp_path)) as client,
    ):
        client.ask(VERSIONS, 0)
        assert principals(server) == [Principal("User", user)]


def mutual(directory: Path, **settings: str) -> Broker:
    store = str(authority().write(directory / "ca.pem"))
    own = {"ssl_client_auth": "required", "ssl_truststore_location": store}
    return tls_broker(directory, **(own | settings))


def principals(server: Server) -> list[Principal]:
    with server.lock:
        return [one.peer.principal for one in server._connections]


def gets_in(server: Server, identity: Identity | None, directory: Path) -> bool:
    """With TLS 1.3 a client learns only with the first answer that its certificate is refused."""
    try:
        with WireClient(server.addresses[-1], trusting(identity, directory)) as client:
            client.send(VERSIONS, 0)
            return client.receive_frame() is not None
    except OSError:
        return False


def test_who_shows_no_certificate_or_one_of_a_stranger_stays_outside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority().client("ana")
    for identity, reason in ((None, "presents no certificate"), (stranger, "is not accepted")):
        with serving(mutual(tmp_path)) as server:
            assert not gets_in(server, identity, tmp_path)
            with WireClient(server.address) as client:
                assert client.ask(VERSIONS, 0).error_code == 0
            # Refused in a thread, and said by the loop.
            wait_until(lambda reason=reason: reason in caplog.text)


def test_a_certificate_whose_time_is_over_stays_outside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    over = Authority(valid=timedelta(hours=-1))
    store = str(over.write(tmp_path / "over.pem"))
    with serving(mutual(tmp_path, ssl_truststore_location=store)) as server:
        assert not gets_in(server, over.client("ana"), tmp_path)
        wait_until(lambda: "its TLS handshake with listener SSL failed" in caplog.text)
        assert "expired" in caplog.text


def test_a_certificate_that_no_rule_names_stays_outside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = "RULE:CN=(.*),OU=Services/$1/"
    with serving(mutual(tmp_path, ssl_principal_mapping_rules=rules)) as server:
        assert not gets_in(server, authority().client("ana"), tmp_path)
    assert "no rule of ssl.principal.mapping.rules" in caplog.text


def test_where_a_certificate_is_requested_who_has_none_is_anonymous(tmp_path: Path) -> None:
    with (
        serving(mutual(tmp_path, ssl_client_auth="requested")) as server,
        WireClient(of_tls(server), trusting()) as client,
    ):
        client.ask(VERSIONS, 0)
        assert principals(server) == [ANONYMOUS]


def test_where_a_certificate_is_requested_one_of_a_stranger_is_refused(tmp_path: Path) -> None:
    with serving(mutual(tmp_path, ssl_client_auth="requested")) as server:
        assert not gets_in(server, Authority().client("ana"), tmp_path)


def serial_number(address: tuple[str, int], context: ssl.SSLContext) -> int:
    with WireClient(address, context) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        certificate = client.socket.getpeercert()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)


def number_of(identity: Identity) -> int:
    return identity.certificate.serial_number


def test_another_certificate_is_taken_from_a_client_of_the_broker_at_once(tmp_path: Path) -> None:
    first, other = authority().server(), authority().server()
    with serving(tls_broker(tmp_path)) as server, WireClient(server.address) as admin:
        name = "listener.name.ssl.ssl.keystore"
        with WireClient(of_tls(server), trusting()) as before:
            for identity in (first, other):
                path = identity.write(tmp_path / f"{number_of(identity)}.pem")
                assert altered(admin, **{f"{name}.location": str(path)}) == (0, None)
                assert serial_number(of_tls(server), trusting()) == number_of(identity)
            # The same name again has the file read again, as in Kafka.
            first.write(path)
            assert altered(admin, **{f"{name}.location": str(path)}) == (0, None)
            assert serial_number(of_tls(server), trusting()) == number_of(first)
            assert before.ask(VERSIONS, 0).error_code == 0


class SetClock:
    """Stands still until it is set."""

    monotonic = 1_000_000.0

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> float:
        return self.monotonic


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    clock, other = SetClock(), authority().server()
    with serving(tls_broker(tmp_path), clock) as server:
        assert serial_number(of_tls(server), trusting()) != number_of(other)
        other.write(tmp_path / "server.pem")
        tls = server._acceptors._all[1].tls
        assert tls is not None
        clock.monotonic += 10_000
        server.wake()
        with WireClient(server.address) as client:
            client.ask(VERSIONS, 0)  # the round that this wakes begins the thread
        while (thread := tls._thread) is None:  # type: ignore[attr-defined]
            server.wake()
        thread.join(PATIENCE_S)
        assert serial_number(of_tls(server), trusting()) == number_of(other)


@pytest.mark.parametrize("text", ["no key at all", ""])
def test_a_file_that_is_none_leaves_the_certificate_before(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tls_broker(tmp_path)) as server, WireClient(server.address) as admin:
        before = serial_number(of_tls(server), trusting())
        path = tmp_path / "server.pem"
        path.write_text(text)
        code, message = altered(admin, **{"listener.name.ssl.ssl.keystore.location": str(path)})
        assert code == ErrorCode.INVALID_REQUEST
        assert "ssl.keystore.location" in (message or "")
        assert serial_number(of_tls(server), trusting()) == before
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP"),
        (b"\0\0\0\x10\0\x12\0\0\0\0\0\x01\0\x06stray!", "it does not use TLS"),
        (b"\x16\x03\x01\x02\x00" + bytes(512), "failed"),
        (b"", "it hung up"),
    ],
)
def test_what_is_no_handshake_is_one_line(
    tmp_path: Path, said: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tls_broker(tmp_path)) as server:
        with socket.create_connection(of_tls(server), PATIENCE_S) as stranger:
            stranger.sendall(said)
            with contextlib.suppress(OSError):  # it may be refused already
                stranger.shutdown(socket.SHUT_WR)
            received = b"."
            while received:
                try:
                    received = stranger.recv(1024)
                except ConnectionResetError:
                    break
        with WireClient(of_tls(server), trusting()) as client:
            assert client.ask(VERSIONS, 0).error_code == 0
    (line,) = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert reason in line
    assert "handshake with listener SSL" in line


def test_a_handshake_that_goes_no_further_ends_after_its_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    with (
        serving(tls_broker(tmp_path, ottla_authentication_timeout_ms="3000"), clock) as server,
        WireClient(server.address) as client,
        socket.create_connection(of_tls(server), PATIENCE_S) as silent,
    ):
        silent.sendall(b"\x16\x03\x01")
        with WireClient(of_tls(server), trusting()) as other:  # accepted after the silent one
            assert other.ask(VERSIONS, 0).error_code == 0
            clock.monotonic += 3_001
            assert client.ask(VERSIONS, 0).error_code == 0
            assert silent.recv(1) == b""
            assert other.ask(VERSIONS, 0).error_code == 0
    assert "not done after ottla.authentication.timeout.ms=3000" in caplog.text


def test_a_listener_with_as_many_connections_as_it_may_have_lets_more_wait(tmp_path: Path) -> None:
    limits = {"listener.name.ssl.max.connections": "1"}
    with (
        serving(tls_broker(tmp_path, **limits)) as server,
        WireClient(of_tls(server), trusting()) as first,
        WireClient(server.address) as plain,
    ):
        assert first.ask(VERSIONS, 0).error_code == 0
        with socket.create_connection(of_tls(server), PATIENCE_S) as waiting:
            waiting.settimeout(PATIENCE_S)
            assert plain.ask(VERSIONS, 0).error_code == 0
            first.socket.close()
            with trusting().wrap_socket(waiting, server_hostname="localhost") as secured:
                assert secured.version() is not None


def test_a_listener_that_is_to_speak_tls_from_now_on_speaks_nothing_else(tmp_path: Path) -> None:
    address = ("127.0.0.1", free_port())
    listeners = f"PLAINTEXT://127.0.0.1:9092,SECOND://127.0.0.1:{address[1]}"
    names = "PLAINTEXT:PLAINTEXT,SECOND:"
    with (
        serving(tls_broker(tmp_path, listeners="PLAINTEXT://127.0.0.1:9092")) as server,
        WireClient(server.address) as admin,
    ):
        for protocol, context in (("PLAINTEXT", None), ("SSL", trusting())):
            changed = {
                "listeners": listeners,
                "listener.security.protocol.map": f"{names}{protocol}",
            }
            assert altered(admin, **changed) == (0, None)
            with WireClient(address, context) as client:
                assert client.ask(VERSIONS, 0).error_code == 0
        with WireClient(address) as client:
            client.send(VERSIONS, 0)
            assert client.receive_frame() is None


def test_a_handshake_with_a_listener_that_was_closed_is_given_up(tmp_path: Path) -> None:
    with (
        serving(tls_broker(tmp_path)) as server,
        WireClient(server.address) as admin,
        socket.create_connection(of_tls(server), PATIENCE_S) as waiting,
    ):
        with WireClient(of_tls(server), trusting()) as client:  # accepted after the waiting one
            assert client.ask(VERSIONS, 0).error_code == 0
        assert altered(admin, listeners="PLAINTEXT://127.0.0.1:9092") == (0, None)
        assert waiting.recv(1) == b""
        assert admin.ask(VERSIONS, 0).error_code == 0


def test_a_socket_without_keys_in_the_kernel_is_known() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as plain,
    ):
        assert not kernel_encrypts(plain)


def test_secrets_of_tls_are_never_described(tmp_path: Path) -> None:
    from ottla.server.handling.config_entries import broker_entries

    broker = tls_broker(
        tmp_path,
        **{
            "ssl_key_password": "sesame",
            "listener.name.ssl.ssl.keystore.password": "sesame",
        },
    )
    with serving(broker):
        entries = broker_entries(broker.settings)
    assert "sesame" not in repr([(one.value, one.synonyms) for one in entries])


def test_only_the_owner_reads_the_keys_that_a_client_has_set(tmp_path: Path) -> None:
    identity = authority().server()
    path = tmp_path / "data" / "__cluster_metadata-0"
    with serving(tls_broker(tmp_path)) as server, WireClient(server.address) as admin:
        assert altered(admin, log_cleaner_threads="2") == (0, None)
        assert path.stat().st_mode & 0o077 == 0
        name = "listener.name.ssl.ssl.keystore"
        inline = {
            f"{name}.type": "PEM",
            f"{name}.location": "",
            f"{name}.key": identity.key_pem(),
            f"{name}.certificate.chain": identity.certificate_pem,
        }
        assert altered(admin, **inline) == (0, None)
        assert serial_number(of_tls(server), trusting()) == number_of(identity)
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_certificates_are_changed_under_load_and_no_request_fails(tmp_path: Path) -> None:
    """Each client asks, connects again, and asks, while the certificate is another every time."""
    broker = tls_broker(tmp_path)
    broker.admin.create_topic(NewTopic(name="t"))
    seen: set[int] = set()
    failures: list[BaseException] = []
    done = threading.Event()

    def work(address: tuple[str, int]) -> None:
        try:
            while not done.is_set():
                with WireClient(address, trusting()) as client:
                    assert isinstance(client.socket, ssl.SSLSocket)
                    certificate = client.socket.getpeercert()
                    assert certificate is not None
                    for _ in range(5):
                        assert produce(client, "t", bytes(batch(b"v"))) == 0
                    seen.add(int(str(certificate["serialNumber"]), 16))
        except BaseException as error:
            failures.append(error)

    with serving(broker) as server, WireClient(server.address) as admin:
        threads = [threading.Thread(target=work, args=(of_tls(server),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(5):
            identity = authority().server()
            path = identity.write(tmp_path / f"{number}.pem")
            changed = {"listener.name.ssl.ssl.keystore.location": str(path)}
            assert altered(admin, **changed) == (0, None)
            number_now = number_of(identity)
            wait_until(lambda wanted=number_now: wanted in seen or failures)  # type: ignore[misc]
        done.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert failures == []


@pytest.mark.slow
def test_a_forked_child_gives_up_listeners_and_the_parent_serves_on(tmp_path: Path) -> None:
    """While a handshake is under way, whose thread the child lacks."""
    with serving(tls_broker(tmp_path)) as server:
        with socket.create_connection(of_tls(server), PATIENCE_S):
            with WireClient(of_tls(server), trusting()) as client:
                client.ask(VERSIONS, 0)
            child = os.fork()
            if child == 0:
                signal.alarm(PATIENCE_S)
                server.abandon()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with WireClient(of_tls(server), trusting()) as client:
            assert client.ask(VERSIONS, 0).error_code == 0


@pytest.mark.slow
def test_a_client_is_served_among_a_thousand_handshakes_that_go_no_further(tmp_path: Path) -> None:
    count = 1000
    hello = begun()
    with serving(tls_broker(tmp_path)) as server, contextlib.ExitStack() as stack:
        for _ in range(count):
            stranger = stack.enter_context(socket.create_connection(of_tls(server), PATIENCE_S))
            stranger.sendall(hello)
        with WireClient(of_tls(server), trusting()) as client:
            for _ in range(50):
                assert client.ask(VERSIONS, 0).error_code == 0
        held = server._acceptors._handshakes
        assert isinstance(held, handshakes.Handshakes)
        assert len(held._open) == count


def test_the_thread_of_handshakes_rests_after_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[handshakes.Handshake] = []
    pauses: list[float] = []
    carry_on = handshakes.Handshake.carry_on

    def counted(handshake: handshakes.Handshake) -> None:
        steps.append(handshake)
        carry_on(handshake)

    monkeypatch.setattr(handshakes.Handshake, "carry_on", counted)
    monkeypatch.setattr(handshakes, "sleep", pauses.append)
    with (
        serving(tls_broker(tmp_path)) as server,
        WireClient(of_tls(server), trusting()) as client,
    ):
        assert client.ask(VERSIONS, 0).error_code == 0
        wait_until(lambda: steps and len(pauses) == len(steps))
    assert set(pauses) == {handshakes.PAUSE_S}


def begun(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = trusting()
    context.maximum_version = version
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def test_the_oldest_of_too_many_handshakes_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "MAX_HANDSHAKES", 3)
    with serving(tls_broker(tmp_path)) as server, contextlib.ExitStack() as stack:
        strangers = [
            stack.enter_context(socket.create_connection(of_tls(server), PATIENCE_S))
            for _ in range(4)
        ]
        assert strangers[0].recv(1) == b""
        with WireClient(of_tls(server), trusting()) as client:
            assert client.ask(VERSIONS, 0).error_code == 0
        assert strangers[1].recv(1) == b""
        strangers[3].setblocking(False)
        with pytest.raises(BlockingIOError):
            strangers[3].recv(1)
    assert "too many others have begun" in caplog.text


@pytest.mark.slow
def test_garbage_in_handshakes_and_records_ends_its_connection_alone(tmp_path: Path) -> None:
    """What a client says is cut, flipped or repeated at any byte, in and after the handshake."""
    chance = random.Random(5)
    with serving(tls_broker(tmp_path)) as server:
        for number in range(60):
            damage(of_tls(server), chance, is_after_handshake=number % 2 == 0)
        with WireClient(of_tls(server), trusting()) as client:
            assert client.ask(VERSIONS, 0).error_code == 0
            wait_until(lambda: len(server._connections) == 1)


def damage(address: tuple[str, int], chance: random.Random, *, is_after_handshake: bool) -> None:
    """One connection of a client whose bytes are damaged on the way, until it is closed."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(address, PATIENCE_S) as raw, contextlib.suppress(OSError):
        if is_after_handshake:
            shake_hands(secured, incoming, outgoing, raw)
            secured.write(chance.randbytes(chance.randrange(1, 3000)))
            raw.sendall(damaged(outgoing.read(), chance))
        else:
            raw.sendall(damaged(begun(), chance))
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(65536):
            pass


def shake_hands(
    secured: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, raw: socket.socket
) -> None:
    while True:
        try:
            secured.do_handshake()
            break
        except ssl.SSLWantReadError:
            raw.sendall(outgoing.read())
            incoming.write(raw.recv(65536))
    raw.sendall(outgoing.read())


def damaged(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    match chance.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 2:
            return data[:at] + data[at - 7 : at] + data[at:]
        case _:
            return data[:at] + chance.randbytes(40)


def test_what_waits_too_long_to_log_in_is_closed(tmp_path: Path) -> None:
    clock = SetClock()
    broker = open_broker(
        tmp_path / "data", listeners="PLAINTEXT://127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:2"
    )
    with (
        serving(broker, clock) as server,
        WireClient(server.address) as plain,
        WireClient(server.addresses[1]) as silent,
    ):
        assert silent.ask(VERSIONS, 0).error_code == 0
        assert plain.ask(VERSIONS, 0).error_code == 0
        clock.monotonic += 10_001
        server.wake()
        assert silent.receive_frame() is None
        assert plain.ask(VERSIONS, 0).error_code == 0


def test_a_certificate_is_no_login(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    settings = {
        "listener_security_protocol_map": "CLIENTS:SASL_SSL",
        "ssl_keystore_location": str(authority().server().write(tmp_path / "server.pem")),
        "ssl_truststore_location": str(authority().write(tmp_path / "ca.pem")),
        "listener_name_clients_ssl_client_auth": "required",
        "ottla_authentication_timeout_ms": "10000",
    }
    context = trusting(authority().client("bob"), tmp_path)
    with serving(login_broker(tmp_path / "data", **settings), clock) as server:
        with WireClient(server.address, context) as silent:
            assert silent.ask(VERSIONS, 0).error_code == 0
            clock.monotonic += 10_001
            server.wake()
            assert silent.receive_frame() is None
        for _ in range(3):
            with WireClient(server.address, context) as hasty:
                hasty.send(MetadataRequest(topics=[]), 4)
                assert hasty.receive_frame() is None
    assert len([one for one in caplog.messages if "must come before any other" in one]) == 1


@pytest.mark.parametrize("own", ["", "required"])
def test_clients_log_in_over_tls_and_are_who_they_log_in_as(tmp_path: Path, own: str) -> None:
    """There a certificate is wanted only by the listener's own setting (KIP-684)."""
    store = authority().server().write(tmp_path / "server.pem")
    settings = {
        "listener_security_protocol_map": "CLIENTS:SASL_SSL",
        "ssl_keystore_location": str(store),
        "ssl_truststore_location": str(authority().write(tmp_path / "ca.pem")),
        "ssl_client_auth": "required",
    }
    settings |= {"listener_name_clients_ssl_client_auth": own} if own else {}
    identity = authority().client("bob") if own else None
    with (
        serving(login_broker(tmp_path / "data", **settings)) as server,
        WireClient(server.address, trusting(identity, tmp_path)) as client,
    ):
        assert log_in(client, "SCRAM-SHA-256").error_code == 0
        assert client.ask(MetadataRequest(topics=[]), 4).brokers
        assert principals(server) == [Principal("User", USER)]
        if own:
            assert not gets_in(server, None, tmp_path)
