"""Keys of tokens that are fetched from an address, as they change and when they cannot be had."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jwt")
pytest.importorskip("cryptography")

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from ottla.base.error_codes import ErrorCode
from ottla.broker.security.sasl import Login, LoginError
from ottla.config.broker import broker_config
from ottla.server.authentication import oauth
from ottla.server.authentication.oauth import TokenCheck
from tests.integration.test_server_reconfigured import altered
from tests.support.logins import SASL, authenticate, shake_hands
from tests.support.patience import wait_until
from tests.support.serving import WireClient, open_broker, serving
from tests.support.threaded_server import ThreadedServer

KEY, OTHER_KEY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))


def jwks(key_id: str, key: Any) -> str:
    entry = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return json.dumps({"keys": [{**entry, "kid": key_id, "alg": "ES256", "use": "sig"}]})


def token(key: Any = KEY, key_id: str = "two") -> str:
    claims = {"sub": "ana", "exp": time.time() + 600}
    return jwt.encode(claims, key, algorithm="ES256", headers={"kid": key_id})


class Issuer(ThreadedServer):
    """Answers each connection with `answer`, whatever it asks."""

    def __init__(self) -> None:
        self.answer = b""
        super().__init__()

    def publish(self, keys: str) -> None:
        self.answer = b"HTTP/1.0 200 OK\r\n\r\n" + keys.encode()

    def serve(self, plain: socket.socket) -> None:
        with plain:
            plain.recv(4096)
            plain.sendall(self.answer)


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    monkeypatch.setattr(oauth, "MIN_REFRESH_S", 0)
    found = Issuer()
    yield found
    found.close()


def fetching(issuer: Issuer) -> TokenCheck:
    url = f"http://127.0.0.1:{issuer.port}/keys"
    return TokenCheck(broker_config({"sasl.oauthbearer.jwks.endpoint.url": url}))


def retried(checked: TokenCheck, text: str) -> Login:
    """A refusal has the keys fetched again, as a client tries to log in again."""
    found: list[Login] = []

    def is_in() -> bool:
        with suppress(LoginError):
            found.append(checked(text))
        return bool(found)

    wait_until(is_in)
    return found[0]


def test_keys_of_an_address_are_fetched_again_for_a_token_that_names_a_new_one(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.publish(jwks("two", KEY))
    checked = fetching(issuer)
    assert "anyone on the network" in caplog.text
    assert retried(checked, token()).principal.name == "ana"
    issuer.publish(jwks("three", OTHER_KEY))
    assert retried(checked, token(OTHER_KEY, "three")).principal.name == "ana"
    with pytest.raises(LoginError):
        checked(token())


@pytest.mark.parametrize(
    "answer", [b"", b"no HTTP\r\n\r\n", b"HTTP/1.0 500 x\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n[]",
               b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{"],
)  # fmt: skip
def test_keys_that_cannot_be_fetched_are_one_line_and_those_from_before_count(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, answer: bytes
) -> None:
    issuer.publish(jwks("two", KEY))
    checked = fetching(issuer)
    retried(checked, token())
    caplog.clear()
    issuer.answer = answer

    def is_reported() -> bool:
        with pytest.raises(LoginError, match="unknown key"):
            checked(token(OTHER_KEY, "three"))
        return "cannot be fetched" in caplog.text

    wait_until(is_reported)  # the first may find the thread of the last fetch still at its end
    assert len(caplog.records[0].getMessage().splitlines()) == 1
    assert checked(token()).principal.name == "ana"


def test_an_address_that_cannot_be_reached_keeps_clients_out_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = "https://127.0.0.1:1/keys"
    checked = TokenCheck(broker_config({"sasl.oauthbearer.jwks.endpoint.url": url}))
    wait_until(lambda: f"{url}: the keys of tokens cannot be fetched" in caplog.text)
    assert sum(url in one.getMessage() for one in caplog.records) == 1
    with pytest.raises(LoginError, match="the issuer's keys have not been fetched yet"):
        checked(token())


@pytest.mark.slow
def test_fetched_keys_stay_when_settings_of_the_broker_change(
    issuer: Issuer, tmp_path: Path
) -> None:
    issuer.publish(jwks("two", KEY))
    broker = open_broker(
        tmp_path,
        **{**SASL, "sasl_enabled_mechanisms": "OAUTHBEARER"},
        sasl_oauthbearer_jwks_endpoint_url=f"http://127.0.0.1:{issuer.port}/keys",
    )

    def is_in(client: WireClient) -> bool:
        shake_hands(client, "OAUTHBEARER")
        return not authenticate(client, f"n,,\1auth=Bearer {token()}\1\1".encode()).auth_bytes

    def comes_in() -> bool:
        with WireClient(server.address) as other:
            return is_in(other)

    with serving(broker) as server, WireClient(server.address) as client:
        wait_until(comes_in)
        issuer.close()
        assert is_in(client)
        assert altered(client, max_connections_per_ip="9") == (0, None)
        assert comes_in()


@pytest.mark.slow
def test_a_listener_that_could_let_nobody_in_is_not_added(tmp_path: Path) -> None:
    broker = open_broker(
        tmp_path,
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        sasl_enabled_mechanisms="OAUTHBEARER",
        listeners="PLAINTEXT://127.0.0.1:0",
    )
    with serving(broker) as server, WireClient(server.address) as client:
        code, text = altered(client, listeners="PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0")
        assert code == ErrorCode.INVALID_REQUEST
        assert "logins by OAUTHBEARER need the issuer's keys" in (text or "")
        assert altered(client, max_connections_per_ip="9") == (0, None)
