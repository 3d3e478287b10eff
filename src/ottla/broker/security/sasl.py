"""The broker's side of one SASL login: the client's messages in, challenges out, then a principal.

Kafka's counterparts: Java's `SaslServer`, `PlainSaslServer`, `ScramSaslServer`.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.base.errors import OttlaError, ProtocolError
from ottla.base.principal import USER, Principal
from ottla.base.scram import (
    HASHES,
    ScramCredential,
    bytes_text,
    combined,
    mac,
    parse_bytes,
    parse_fields,
    unescaped,
)

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"

MAX_TEXT_SIZE: Final = 64 * 1024
"""Of a message: the loop reads it for somebody who has not shown yet who it is. Of PLAIN more is
read in no time, and the other mechanisms say no more."""

INVALID_CREDENTIALS = "Authentication failed: Invalid username or password"


class LoginError(OttlaError):
    """The login failed. The text goes to the client: no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """An authenticated client. `lifetime_ms`: for how long, if limited.

    `is_token`: by a delegation token, which may not be used to get another (KIP-48).
    """

    principal: Principal
    lifetime_ms: int | None = None
    is_token: bool = False


class SaslServer(Protocol):
    """`answer` takes the client's next message. `login` is set when the exchange is complete."""

    login: Login | None

    def answer(self, text: bytes) -> bytes:
        """Returns the message for the client; raises `LoginError`."""


class PlainServer:
    """PLAIN: a name and a password in the clear (RFC 4616). `users` are names and passwords."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.login: Login | None = None

    def answer(self, text: bytes) -> bytes:
        try:
            authorization_id, name, password = text.decode().split("\0", 3)
        except ValueError as error:
            raise LoginError("Invalid SASL/PLAIN response: expected 3 tokens") from error
        if not name:
            raise LoginError("Authentication failed: username not specified")
        if not password:
            raise LoginError("Authentication failed: password not specified")
        expected = self._users.get(name)
        # An unknown name takes as long as a wrong password: the time says nothing of names.
        is_right = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not is_right:
            raise LoginError(INVALID_CREDENTIALS)
        if authorization_id not in ("", name):
            raise LoginError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.login = Login(principal=Principal(USER, name))
        return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramAccount:
    """The principal of a name in SCRAM, and the credential to check its password.

    `login` is `None` for an unknown name: it is asked for a proof like all others, so that the
    response does not show which names exist. Kafka refuses it at once.
    """

    login: Login | None
    credential: ScramCredential


FindAccount = Callable[[str, bool], ScramAccount]
"""`find(name, is_token)`: the account of a user, or of a delegation token."""


class ScramServer:
    """The server's side of SCRAM: two rounds, in which neither side sends the password.

    `nonce` consists of printable characters without commas, and is new each time: a recorded
    message is useless in another login.
    """

    def __init__(self, mechanism: str, find: FindAccount, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._find = find
        self._nonce = nonce
        self._first: bytes | None = None
        self._challenge = b""
        self._header = ""
        self._name = ""
        self._is_token = False
        self._account: ScramAccount | None = None
        self.login: Login | None = None

    def answer(self, text: bytes) -> bytes:
        try:
            if self.login is not None:
                raise ProtocolError("SCRAM: the login is over")
            if len(text) > MAX_TEXT_SIZE:
                raise ProtocolError(f"SCRAM: a message has at most {MAX_TEXT_SIZE} bytes")
            if self._first is None:
                return self._begin(text)
            return self._finish(text)
        except ProtocolError as error:
            raise LoginError(f"Authentication failed: {error}") from error

    def _begin(self, text: bytes) -> bytes:
        # "n,,n=name,r=nonce": what stands before the second comma is about channel binding.
        binding, _, rest = text.partition(b",")
        authorization, comma, first = rest.partition(b",")
        if binding not in (b"n", b"y") or not comma:
            raise ProtocolError("SCRAM: channel binding is not supported")
        fields = parse_fields(first)
        client_nonce = fields.get("r", "")
        if list(fields)[:2] != ["n", "r"] or not _is_nonce(client_nonce):
            raise ProtocolError("SCRAM: the first message must be a name and a nonce")
        name = unescaped(fields["n"])
        if authorization and unescaped(authorization.decode("latin-1").removeprefix("a=")) != name:
            raise ProtocolError("SCRAM: the client requests another authorization id than its own")
        self._name = name
        self._is_token = fields.get("tokenauth", "").lower() == "true"
        self._header = f"{binding.decode()},{authorization.decode('latin-1')},"
        self._account = self._find(name, self._is_token)
        self._first = first
        credential = self._account.credential
        salt = bytes_text(credential.salt)
        nonces = f"{client_nonce}{self._nonce}"
        self._challenge = f"r={nonces},s={salt},i={credential.iterations}".encode()
        return self._challenge

    def _finish(self, text: bytes) -> bytes:
        assert self._account is not None
        assert self._first is not None
        without_proof, _, proof_text = text.rpartition(b",p=")
        fields = parse_fields(without_proof)
        # As in Kafka, the end of it counts: librdkafka before 2.6 sends its own part twice.
        if not fields.get("r", "").endswith(self._nonce):
            raise ProtocolError("SCRAM: the nonce is not that of this login")
        if parse_bytes(fields.get("c", "")) != self._header.encode("latin-1"):
            raise ProtocolError("SCRAM: the channel binding is not that of the first message")
        credential = self._account.credential
        signed = b",".join((self._first, self._challenge, without_proof))
        signature = mac(self._hash, credential.stored_key, signed)
        proof = parse_bytes(proof_text.decode("latin-1"))
        if len(proof) != len(signature):
            raise LoginError(INVALID_CREDENTIALS)
        key = hashlib.new(self._hash, combined(proof, signature)).digest()
        if not hmac.compare_digest(key, credential.stored_key):
            raise LoginError(INVALID_CREDENTIALS)
        # Asked again: a token may have ended since the first message, for which there is no hurry.
        self.login = self._find(self._name, self._is_token).login
        if self.login is None:
            raise LoginError(INVALID_CREDENTIALS)
        return b"v=" + bytes_text(mac(self._hash, credential.server_key, signed)).encode()


Check = Callable[[str], Login]
"""Takes a token of OAuth for a login, or raises `LoginError`."""

INVALID_MESSAGE = "Authentication failed: Invalid OAUTHBEARER client first message"
INVALID_TOKEN = b'{"status":"invalid_token"}'


class OAuthBearerServer:
    """OAUTHBEARER: a signed token says who the client is (RFC 7628; KIP-255, KIP-768).

    A refusal is a text that the client acknowledges with a byte, and only then an error.
    """

    def __init__(self, check: Check) -> None:
        self._check = check
        self._refusal: LoginError | None = None
        self.login: Login | None = None

    def answer(self, text: bytes) -> bytes:
        if self._refusal is not None:
            raise self._refusal
        if self.login is not None:
            raise LoginError("Authentication failed: the login is over")
        token, name = _parse_bearer(text)
        try:
            login = self._check(token)
            if name not in ("", login.principal.name):
                raise LoginError(
                    f"Authentication failed: Client requested an authorization id ({name}) that "
                    f"is different from the token's principal name ({login.principal.name})"
                )
        except LoginError as error:
            self._refusal = error
            return INVALID_TOKEN
        self.login = login
        return b""


def _parse_bearer(text: bytes) -> tuple[str, str]:
    """The token, and whom the client asks to be; raises `LoginError`."""
    header, separator, rest = text.partition(b"\x01")
    parts = header.split(b",", 3)
    try:
        if len(text) > MAX_TEXT_SIZE:
            raise ValueError(f"longer than {MAX_TEXT_SIZE} bytes")
        if not separator or len(parts) != 3 or parts[0] not in (b"n", b"y"):
            raise ValueError("no header")
        if not rest.endswith(b"\x01\x01"):
            raise ValueError("pairs end with a mark, and so do all of them")
        fields = dict(one.split("=", 1) for one in rest.decode("ascii").split("\x01") if one)
        name = unescaped(parts[1].decode().removeprefix("a="))
        scheme, _, token = fields.get("auth", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise ValueError("no token")
    except (ValueError, ProtocolError) as error:
        raise LoginError(INVALID_MESSAGE) from error
    return token.strip(), name


def _is_nonce(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text and bool(text)
