"""The broker's side of a SASL login: takes the client's messages, returns challenges and a login.

SCRAM is in `scram.py`. Kafka's counterparts: Java's `SaslServer`, `PlainSaslServer`.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ottla.base.errors import OttlaError, ProtocolError
from ottla.base.principal import USER, Principal
from ottla.base.scram import ScramCredential, unescaped
from ottla.base.values import dataclass

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"

MAX_TEXT_SIZE: Final = 64 * 1024
"""The largest message, since the client is not authenticated yet and the loop parses the message. A
larger PLAIN message would be parsed quickly, and other mechanisms need no more.
"""

INVALID_CREDENTIALS = "Authentication failed: Invalid username or password"


class LoginError(OttlaError):
    """The login failed. The text goes to the client, and must contain no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """An authenticated client. `lifetime_ms` limits the time of the login, if set.

    `is_token`: authenticated by a delegation token, which may not be used to get another (KIP-48).
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
    """PLAIN: a name and a password in clear text (RFC 4616). `users` maps names to passwords."""

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
        # An unknown name takes as long as a wrong password, so that the time does not reveal names.
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
    """The principal of a name in SCRAM, and the credential to verify its password.

    `login` is `None` for an unknown name: the client is asked for a proof nevertheless, so that the
    response does not reveal which names exist. Kafka refuses such a client immediately.
    """

    login: Login | None
    credential: ScramCredential


FindAccount = Callable[[str, bool], ScramAccount]
"""`find(name, is_token)`: the account of a user, or of a delegation token."""

Check = Callable[[str], Login]
"""Verifies an OAuth token; returns its login, or raises `LoginError`."""

INVALID_MESSAGE = "Authentication failed: Invalid OAUTHBEARER client first message"
INVALID_TOKEN = b'{"status":"invalid_token"}'


class OAuthBearerServer:
    """OAUTHBEARER: a signed token identifies the client (RFC 7628; KIP-255, KIP-768).

    A refusal is a message that the client acknowledges with a byte; the error follows.
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
    """Returns the token, and the requested authorization id; raises `LoginError`."""
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
