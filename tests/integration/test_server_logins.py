"""A listener whose clients must log in: what is taken before that, and how a login ends."""

from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import Principal
from ottla.client.scram import ScramClient
from ottla.codec.schema import Message
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.testing.clock import FakeClock
from tests.support.logins import (
    PASSWORD,
    USER,
    authenticate,
    log_in,
    login_broker,
    plain_text,
    shake_hands,
)
from tests.support.serving import WireClient, serving

pytestmark = pytest.mark.slow

GROUPS = ListGroupsRequest()
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_that_has_logged_in_is_answered(tmp_path: Path, mechanism: str) -> None:
    with serving(login_broker(tmp_path)) as server, WireClient(server.address) as client:
        assert client.ask(VERSIONS, 3).error_code == 0
        answer = log_in(client, mechanism)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
        assert client.ask(GROUPS, 4).error_code == 0
        (connection,) = server._connections
        assert connection.peer.principal == Principal("User", USER)
        assert server.connections_by_user() == {f"User:{USER}": 1}
        # A handshake for which there is no occasion is an ordinary request, and refused as such.
        assert shake_hands(client, mechanism).error_code == ErrorCode.ILLEGAL_SASL_STATE
        refused = authenticate(client, plain_text("bob", "bobs secret"))
        assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert refused.error_message == "The client has logged in already."
        assert client.ask(GROUPS, 4).error_code == 0
        assert connection.peer.principal == Principal("User", USER)


def test_after_a_handshake_in_version_0_texts_come_without_headers(tmp_path: Path) -> None:
    with serving(login_broker(tmp_path)) as server, WireClient(server.address) as client:
        assert shake_hands(client, "SCRAM-SHA-256", 0).error_code == 0
        scram = ScramClient("SCRAM-SHA-256", USER, PASSWORD, "nonce")

        def say(text: bytes) -> bytes | None:
            client.socket.sendall(len(text).to_bytes(4, "big") + text)
            return client.receive_frame()

        scram.check(say(scram.prove(say(scram.first()) or b"")) or b"")
        assert client.ask(GROUPS, 4).error_code == 0


@pytest.mark.parametrize(
    ("before", "request_", "version"),
    [
        ([], GROUPS, 4),
        ([], MetadataRequest(topics=None), 9),
        ([], CreateTopicsRequest(topics=[], timeout_ms=1), 5),
        ([], SaslAuthenticateRequest(auth_bytes=plain_text()), 2),
        ([(VERSIONS, 3)], GROUPS, 4),
        ([(SaslHandshakeRequest(mechanism="PLAIN"), 1)], GROUPS, 4),
        ([(SaslHandshakeRequest(mechanism="PLAIN"), 1)], VERSIONS, 3),
        (
            [(SaslHandshakeRequest(mechanism="PLAIN"), 1)],
            SaslHandshakeRequest(mechanism="PLAIN"),
            1,
        ),
    ],
)
def test_a_request_before_the_login_closes_the_connection(
    tmp_path: Path, before: list[tuple[Message, int]], request_: Message, version: int
) -> None:
    with serving(login_broker(tmp_path)) as server, WireClient(server.address) as client:
        for one, in_version in before:
            client.ask(one, in_version)
        client.send(request_, version)
        assert client.receive_frame() is None
        assert server.connection_counts.open == 0


def test_a_stranger_gets_the_versions_three_times(tmp_path: Path) -> None:
    with serving(login_broker(tmp_path)) as server:
        with WireClient(server.address) as client:
            for _ in range(3):
                assert client.ask(VERSIONS, 3).error_code == 0
            client.send(VERSIONS, 3)
            assert client.receive_frame() is None
        with WireClient(server.address) as client:
            log_in(client)
            for _ in range(4):
                assert client.ask(VERSIONS, 3).error_code == 0


def test_strangers_that_break_the_protocol_fill_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    with serving(login_broker(tmp_path), clock) as server:
        for _ in range(5):
            with WireClient(server.address) as client:
                client.send(GROUPS, 4)
                assert client.receive_frame() is None
        clock.advance(1001)
        with WireClient(server.address) as client:
            client.send(GROUPS, 4)
            assert client.receive_frame() is None
    first, last = [one for one in caplog.messages if "closing" in one]
    assert first.endswith(": SASL_HANDSHAKE must come before any other request")
    assert last.endswith("any other request (and 4 others since the last)")


def test_a_request_larger_than_a_login_closes_the_connection(tmp_path: Path) -> None:
    broker = login_broker(tmp_path, sasl_server_max_receive_size="1000")
    with serving(broker) as server, WireClient(server.address) as client:
        client.socket.sendall((1001).to_bytes(4, "big"))
        assert client.receive_frame() is None
        with WireClient(server.address) as other:
            log_in(other)
            names = [f"a-group-of-a-long-name-{number}" for number in range(100)]
            assert other.ask(ListGroupsRequest(states_filter=names), 4).error_code == 0


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(tmp_path: Path) -> None:
    broker = login_broker(tmp_path, sasl_enabled_mechanisms="SCRAM-SHA-512,PLAIN")
    with serving(broker) as server, WireClient(server.address) as client:
        answer = shake_hands(client, "GSSAPI")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["SCRAM-SHA-512", "PLAIN"]
        assert client.receive_frame() is None


@pytest.mark.parametrize("version", [0, 2])
def test_a_wrong_password_is_answered_and_closes_the_connection(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(login_broker(tmp_path)) as server, WireClient(server.address) as client:
        shake_hands(client, "PLAIN")
        answer = authenticate(client, plain_text(password="guessed-wrong"), version)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert client.receive_frame() is None
    assert "guessed-wrong" not in caplog.text


def test_a_refusal_waits_so_that_guessing_is_slow(tmp_path: Path) -> None:
    clock = FakeClock()
    broker = login_broker(tmp_path, connection_failed_authentication_delay_ms="5000")
    with serving(broker, clock) as server, WireClient(server.address) as client:
        shake_hands(client, "PLAIN")
        client.send(SaslAuthenticateRequest(auth_bytes=plain_text(password="no")), 2)
        with WireClient(server.address) as other:
            log_in(other)
        assert len(broker.throttled_clients) == 1
        clock.advance(5001)
        server.wake()
        assert client.receive(36, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


class TestSessionsWithAnEnd:
    """KIP-368: `connections.max.reauth.ms`."""

    def test_the_client_logs_in_again_on_the_same_connection(self, tmp_path: Path) -> None:
        clock = FakeClock()
        broker = login_broker(tmp_path, connections_max_reauth_ms="60000")
        with serving(broker, clock) as server, WireClient(server.address) as client:
            assert log_in(client).session_lifetime_ms == 60_000
            clock.advance(50_000)
            assert client.ask(GROUPS, 4).error_code == 0
            assert log_in(client).session_lifetime_ms == 60_000
            clock.advance(50_000)
            assert client.ask(GROUPS, 4).error_code == 0

    def test_a_client_that_does_not_is_cut_off_with_its_next_request(self, tmp_path: Path) -> None:
        clock = FakeClock()
        broker = login_broker(tmp_path, connections_max_reauth_ms="60000")
        with serving(broker, clock) as server, WireClient(server.address) as client:
            log_in(client)
            clock.advance(60_001)
            client.send(GROUPS, 4)
            assert client.receive_frame() is None

    def test_the_first_time_comes_at_once_and_further_ones_a_second_later(
        self, tmp_path: Path
    ) -> None:
        """As in Kafka: a token that is used late in its life is over within the second."""
        clock = FakeClock()
        broker = login_broker(tmp_path, connections_max_reauth_ms="500")
        with serving(broker, clock) as server, WireClient(server.address) as client:
            assert log_in(client).session_lifetime_ms == 500
            clock.advance(450)
            assert log_in(client).session_lifetime_ms == 500
            clock.advance(450)
            assert shake_hands(client, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
            clock.advance(549)
            client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert client.receive_frame() is None, "the login has expired meanwhile"
        broker = login_broker(tmp_path / "b", connections_max_reauth_ms="5000")
        with serving(broker, clock) as server, WireClient(server.address) as client:
            for _ in range(4):
                assert log_in(client).session_lifetime_ms == 5000
                clock.advance(1000)

    @pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "bob"), ("SCRAM-SHA-256", USER)])
    def test_it_stays_the_same_user_by_the_same_mechanism(
        self, tmp_path: Path, mechanism: str, user: str
    ) -> None:
        clock = FakeClock()
        broker = login_broker(tmp_path, connections_max_reauth_ms="60000")
        with serving(broker, clock) as server, WireClient(server.address) as client:
            log_in(client)
            clock.advance(50_000)
            answer = shake_hands(client, mechanism)
            if user != USER:
                answer = authenticate(client, plain_text(user, "bobs secret"))
                assert answer.error_message == "Cannot change principals during re-authentication"
            assert answer.error_code != 0
            assert client.receive_frame() is None
