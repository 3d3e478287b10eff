"""A listener whose clients must log in: what is taken before that, and how a login ends."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import Principal
from ottla.client.connecting.scram import ScramClient
from ottla.codec.schema import Message
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.server.network.connection_events import CloseReason
from ottla.server.network.listener import Server
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
from tests.support.patience import wait_until
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


def test_a_client_that_does_not_log_in_is_cut_off_when_its_time_is_over(tmp_path: Path) -> None:
    """To the millisecond, and the loop wakes up for it: nothing else is due so soon."""
    clock = FakeClock()
    broker = login_broker(tmp_path, ottla_authentication_timeout_ms="3000")
    with (
        serving(broker, clock) as server,
        WireClient(server.address) as other,
        WireClient(server.address) as slow,
    ):
        log_in(other)
        assert slow.ask(VERSIONS, 3).error_code == 0
        assert shake_hands(slow, "PLAIN").error_code == 0
        with server.lock:
            assert server._log_in_by.next_deadline_ms == 3000
        assert (server._timeout() or 0) <= 3
        clock.advance(2999)
        assert other.ask(GROUPS, 4).error_code == 0
        assert server.connection_counts.open == 2
        clock.advance(1)
        server.wake()
        assert slow.receive_frame() is None
        assert other.ask(GROUPS, 4).error_code == 0
        assert server.connection_counts.closed == {CloseReason.LOGIN: 1}
        with server.lock:
            assert server._log_in_by.next_deadline_ms is None, "nobody is waited for any more"


def test_strangers_that_hang_up_are_not_kept_until_their_time_is_over(tmp_path: Path) -> None:
    with serving(login_broker(tmp_path), FakeClock()) as server:
        for _ in range(100):
            with WireClient(server.address) as client:
                assert client.ask(VERSIONS, 3).error_code == 0
        wait_until(lambda: server.connection_counts.open == 0)
        with server.lock:
            assert len(server._log_in_by) == 0


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


class TestDelegationTokens:
    """A session ends with its token, and no way of logging in lets it last longer."""

    LIFE_MS = 2000

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def server(self, tmp_path: Path, clock: FakeClock) -> Iterator[Server]:
        broker = login_broker(
            tmp_path,
            delegation_token_secret_key="sealed",
            delegation_token_expiry_time_ms=str(self.LIFE_MS),
            delegation_token_max_lifetime_ms=str(2 * self.LIFE_MS),
        )
        with serving(broker, clock) as server:
            yield server

    @pytest.fixture
    def owner(self, server: Server) -> Iterator[WireClient]:
        with WireClient(server.address) as client:
            log_in(client)
            yield client

    @pytest.fixture
    def token(self, owner: WireClient) -> Any:
        token = owner.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        assert token.error_code == 0
        return token

    @staticmethod
    def first_of(client: WireClient, token: Any) -> tuple[ScramClient, Any]:
        """The first half of a login by the token, and what is answered."""
        password = b64encode(token.hmac).decode()
        scram = ScramClient("SCRAM-SHA-256", token.token_id, password, "nonce", is_token=True)
        assert shake_hands(client, "SCRAM-SHA-256").error_code == 0
        return scram, authenticate(client, scram.first())

    def come_by(self, client: WireClient, token: Any) -> Any:
        scram, challenge = self.first_of(client, token)
        return authenticate(client, scram.prove(bytes(challenge.auth_bytes)))

    def test_a_session_lasts_as_long_as_its_token(
        self, server: Server, clock: FakeClock, token: Any
    ) -> None:
        with WireClient(server.address) as client:
            clock.advance(500)
            assert self.come_by(client, token).session_lifetime_ms == self.LIFE_MS - 500
            clock.advance(1500)
            assert client.ask(GROUPS, 4).error_code == 0
            clock.advance(1)
            client.send(GROUPS, 4)
            assert client.receive_frame() is None

    def test_a_token_that_is_renewed_lets_the_session_continue_after_another_login(
        self, server: Server, clock: FakeClock, owner: WireClient, token: Any
    ) -> None:
        with WireClient(server.address) as client, WireClient(server.address) as idle:
            self.come_by(client, token)
            self.come_by(idle, token)
            clock.advance(1000)
            renewed = owner.ask(
                RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=self.LIFE_MS), 2
            )
            assert renewed.error_code == 0
            assert self.come_by(client, token).session_lifetime_ms == self.LIFE_MS
            clock.advance(1500)
            assert client.ask(GROUPS, 4).error_code == 0
            idle.send(GROUPS, 4)
            assert idle.receive_frame() is None, "its login was for the time before"

    def test_a_login_that_takes_longer_than_its_token_lives_fails(
        self, server: Server, clock: FakeClock, token: Any
    ) -> None:
        with WireClient(server.address) as client:
            scram, challenge = self.first_of(client, token)
            clock.advance(self.LIFE_MS + 1)
            answer = authenticate(client, scram.prove(bytes(challenge.auth_bytes)))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.receive_frame() is None

    @pytest.mark.parametrize("messages", [0, 1])
    def test_a_login_begun_again_in_time_and_ended_late_is_for_nothing(
        self, server: Server, clock: FakeClock, token: Any, messages: int
    ) -> None:
        with WireClient(server.address) as client:
            self.come_by(client, token)
            clock.advance(self.LIFE_MS - 1)
            if messages:
                scram, challenge = self.first_of(client, token)
                clock.advance(100)
            else:
                password = b64encode(token.hmac).decode()
                scram = ScramClient(
                    "SCRAM-SHA-256", token.token_id, password, "nonce", is_token=True
                )
                assert shake_hands(client, "SCRAM-SHA-256").error_code == 0
                clock.advance(100)
                challenge = authenticate(client, scram.first())
                assert challenge.error_code == 0, "as for a token that there never was"
            answer = authenticate(client, scram.prove(bytes(challenge.auth_bytes)))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.receive_frame() is None

    def test_a_slow_login_gets_no_longer_session_than_a_quick_one(
        self, server: Server, clock: FakeClock, token: Any
    ) -> None:
        with WireClient(server.address) as client:
            scram, challenge = self.first_of(client, token)
            clock.advance(1500)
            answer = authenticate(client, scram.prove(bytes(challenge.auth_bytes)))
            assert answer.session_lifetime_ms == self.LIFE_MS - 1500

    def test_a_token_that_is_dropped_in_a_session_ends_it_at_its_time(
        self, server: Server, clock: FakeClock, owner: WireClient, token: Any
    ) -> None:
        """As in Kafka: a session that has begun lasts, and there is no other after it."""
        with WireClient(server.address) as client, WireClient(server.address) as other:
            self.come_by(client, token)
            scram, challenge = self.first_of(other, token)
            dropped = owner.ask(
                ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2
            )
            assert dropped.error_code == 0
            late = authenticate(other, scram.prove(bytes(challenge.auth_bytes)))
            assert late.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.ask(GROUPS, 4).error_code == 0
            clock.advance(self.LIFE_MS + 1)
            client.send(GROUPS, 4)
            assert client.receive_frame() is None

    def test_nobody_gets_another_token_by_a_token(self, server: Server, token: Any) -> None:
        not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        with WireClient(server.address) as client:
            self.come_by(client, token)
            for request in (
                CreateDelegationTokenRequest(max_lifetime_ms=-1),
                RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=9_000_000),
                ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=9_000_000),
                DescribeDelegationTokenRequest(owners=None),
            ):
                assert client.ask(request, 2).error_code == not_allowed


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
