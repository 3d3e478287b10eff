"""Logins by OAUTHBEARER: which tokens let somebody in, and whom."""

import base64
import hmac
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jwt")
pytest.importorskip("cryptography")

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from ottla.base.errors import UserError
from ottla.base.principal import Principal
from ottla.broker.security.sasl import INVALID_TOKEN, LoginError, OAuthBearerServer
from ottla.config.broker import broker_config
from ottla.server.authentication.oauth import TokenCheck

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


def jwks(**keys: Any) -> str:
    entries = []
    for key_id, key in keys.items():
        algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
        entry = algorithm.to_jwk(key.public_key(), as_dict=True)
        name = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        entries.append({**entry, "kid": key_id, "alg": name, "use": "sig"})
    return json.dumps({"keys": entries})


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(jwks(one=RSA_KEY, two=EC_KEY))
    return path


def check(path: Path, **settings: str) -> TokenCheck:
    names = {
        f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in settings.items()
    }
    url = {"sasl.oauthbearer.jwks.endpoint.url": f"file://{path}"}
    return TokenCheck(broker_config({**names, **url}))


def token(
    key: Any = EC_KEY, algorithm: str = "ES256", key_id: str | None = "two", **claims: Any
) -> str:
    body = {"sub": "ana", "exp": time.time() + 60, **claims}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(
        {name: value for name, value in body.items() if value is not None},
        key, algorithm=algorithm, headers=headers,
    )  # fmt: skip


def part(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def unsigned(algorithm: str = "none") -> str:
    header = json.dumps({"alg": algorithm, "kid": "one"}).encode()
    claims = json.dumps({"sub": "ana", "exp": time.time() + 60}).encode()
    return f"{part(header)}.{part(claims)}."


def signed_with_the_public_key() -> str:
    """A public key taken for a shared secret."""
    public = RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = unsigned("HS256")
    return text + part(hmac.digest(public, text[:-1].encode(), "sha256"))


def test_a_token_of_a_known_key_is_a_login_for_its_lifetime(keys_file: Path) -> None:
    for one in (token(), token(RSA_KEY, "RS256", "one")):
        login = check(keys_file)(one)
        assert login.principal == Principal("User", "ana")
        assert login.lifetime_ms is not None
        assert 0 < login.lifetime_ms <= 60_000


def test_an_end_may_be_a_text_or_beyond_all_measure(keys_file: Path) -> None:
    for end in (str(round(time.time()) + 60), 1e30):
        lifetime_ms = check(keys_file)(token(exp=end)).lifetime_ms
        assert lifetime_ms is not None
        assert 0 < lifetime_ms < 2**63


# Functions, since a token that is made while tests are collected has expired when they run.
WRONG: dict[str, tuple[Callable[[], str], str]] = {
    "expired": (lambda: token(exp=time.time() - 3600), "expired"),
    "without an end": (lambda: token(exp=None), "exp"),
    "not valid yet": (lambda: token(nbf=time.time() + 3600), "not yet valid"),
    "an end that is no time": (lambda: token(exp=float("inf")), "refused"),
    "issued later": (lambda: token(iat=time.time() + 3600), "not yet valid"),
    "another key": (lambda: token(OTHER_KEY), "Signature verification failed"),
    "unknown key": (lambda: token(key_id="three"), "unknown key"),
    "no key": (lambda: token(key_id=None), "unknown key"),
    "key of another kind": (lambda: token(RSA_KEY, "RS256", "two"), "refused"),
    "unsigned": (unsigned, "refused"),
    "signed with the public key": (signed_with_the_public_key, "refused"),
    "cut short": (lambda: token()[:-8], "refused"),
    "no subject": (lambda: token(sub=None), "does not name a user"),
    "blank subject": (lambda: token(sub=" "), "does not name a user"),
    "scope is a number": (lambda: token(scope=7), "must be a text or a list"),
    "half a character as subject": (lambda: token(sub="\ud800"), "does not name a user"),
    "a header without an end": (lambda: f"{part(b'[' * 100_000)}.{part(b'{}')}.AA", "refused"),
    "empty": (str, "refused"),
    "three letters": (lambda: "a.b.c", "refused"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_token_that_is_not_right_is_refused(keys_file: Path, name: str) -> None:
    make, words = WRONG[name]
    with pytest.raises(LoginError, match=words):
        check(keys_file)(make())


def test_audience_issuer_claims_and_clocks_are_as_the_settings_say(keys_file: Path) -> None:
    strict = check(
        keys_file, expected_audience="ottla,others", expected_issuer="https://issuer",
        sub_claim_name="email", clock_skew_seconds="100",
    )  # fmt: skip
    right = {"aud": "ottla", "iss": "https://issuer", "email": "ana@example.org"}
    late = time.time() - 50
    assert strict(token(**right, exp=late)).principal.name == "ana@example.org"
    for wrong in ({"aud": "else"}, {"aud": None}, {"iss": "https://else"}, {"email": None}):
        with pytest.raises(LoginError):
            strict(token(**{**right, **wrong}))


def test_keys_that_were_replaced_count_at_once(keys_file: Path) -> None:
    checked = check(keys_file)
    checked(token())
    keys_file.write_text(jwks(two=OTHER_KEY))
    os.utime(keys_file, (1, 1))
    with pytest.raises(LoginError):
        checked(token())
    assert checked(token(OTHER_KEY, key_id=None)).principal.name == "ana"


def test_a_file_that_is_broken_is_one_line_however_many_log_in(
    keys_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checked, whole = check(keys_file), keys_file.read_text()
    for time_s, content in ((1, whole[:50]), (2, whole), (3, whole[:50])):
        keys_file.write_text(content)
        os.utime(keys_file, (time_s, time_s))
        for _ in range(3):
            assert checked(token()).principal.name == "ana", "by the keys from before"
    lines = [
        one for one in caplog.messages if "the keys that were read before stay in effect" in one
    ]
    assert len(lines) == 2


@pytest.mark.parametrize("content", ["", "[]", "7", '{"keys": 7}', '{"keys": [7]}', '{"keys": []}'])
def test_a_file_that_holds_no_keys_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(UserError, match=r"jwks\.endpoint\.url names a JWKS"):
        check(tmp_path / "keys.json")


@pytest.mark.parametrize("says", [{"use": "enc"}, {"key_ops": ["encrypt"]}])
def test_a_key_that_encrypts_signs_no_token(tmp_path: Path, says: dict[str, Any]) -> None:
    path = tmp_path / "keys.json"
    keys = json.loads(jwks(one=RSA_KEY, two=EC_KEY))
    keys["keys"][1] |= says
    path.write_text(json.dumps(keys))
    with pytest.raises(LoginError, match="unknown key"):
        check(path)(token())


def test_a_token_with_a_condition_that_nobody_knows_is_refused(keys_file: Path) -> None:
    headers = {"kid": "two", "crit": ["policy"], "policy": "none"}
    body = {"sub": "ana", "exp": time.time() + 60}
    with pytest.raises(LoginError, match="critical"):
        check(keys_file)(jwt.encode(body, EC_KEY, algorithm="ES256", headers=headers))


@pytest.mark.parametrize("url", ["", "ftp://issuer/keys", "file:///nowhere/keys.json"])
def test_keys_that_cannot_be_had_stop_the_start(url: str) -> None:
    with pytest.raises(UserError, match="jwks"):
        TokenCheck(broker_config({"sasl.oauthbearer.jwks.endpoint.url": url}))


class TestMessages:
    """RFC 7628's."""

    def server(self, keys_file: Path) -> OAuthBearerServer:
        return OAuthBearerServer(check(keys_file))

    def test_the_example_of_the_rfc_is_read(self, keys_file: Path) -> None:
        # Section 4.1, with a token that is one.
        text = f"n,a=ana,\x01host=server.example.com\x01port=143\x01auth=Bearer {token()}\x01\x01"
        ours = self.server(keys_file)
        assert ours.answer(text.encode()) == b""
        assert ours.login is not None

    @pytest.mark.parametrize("name", ["n,,", "n,a=ana,", "y,,"])
    def test_a_client_may_say_who_it_is(self, keys_file: Path, name: str) -> None:
        ours = self.server(keys_file)
        ours.answer(f"{name}\x01auth=Bearer {token()}\x01\x01".encode())
        assert ours.login is not None

    @pytest.mark.parametrize("text", ["n,a=bob,\x01auth=Bearer TOKEN\x01\x01",
                                      "n,,\x01auth=Bearer x\x01\x01"])  # fmt: skip
    def test_a_refusal_is_said_and_ends_the_login_when_it_is_acknowledged(
        self, keys_file: Path, text: str
    ) -> None:
        ours = self.server(keys_file)
        assert ours.answer(text.replace("TOKEN", token()).encode()) == INVALID_TOKEN
        with pytest.raises(LoginError):
            ours.answer(b"\x01")
        assert ours.login is None

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"n,,",
            b"n,,\x01\x01",
            b"n,,\x01auth=Basic x\x01\x01",
            b"n,,\x01auth=Bearer \x01\x01",
            b"n,,\x01auth=Bearer x\x01",
            b"p=tls,,\x01auth=Bearer x\x01\x01",
            b"\xff,,\x01auth=Bearer x\x01\x01",
            b"n,,\x01\xff\x01\x01",
        ],
    )
    def test_anything_else_is_refused_at_once(self, keys_file: Path, text: bytes) -> None:
        with pytest.raises(LoginError, match="Invalid OAUTHBEARER"):
            self.server(keys_file).answer(text)
