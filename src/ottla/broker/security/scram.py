"""The broker's side of a SCRAM login; the library scramp verifies and creates the proofs.

scramp accepts fewer messages than Kafka: attribute names must have one letter, unlike `tokenauth`
of delegation tokens; names are normalized (SASLprep); salts have at least 12 bytes; and clients
must not send their name twice or, as librdkafka before 2.6, their nonce. Therefore scramp gets a
first message with another name, and then the text that the client actually signs. Kafka's
counterparts: `ScramSaslServer`, `ScramMessages`.
"""

from typing import Final

from scramp import ScramException, ScramMechanism
from scramp.core import Nonce
from scramp.utils import ServerError

from ottla.base.errors import ProtocolError
from ottla.base.scram import MIN_ITERATIONS, STAND_IN, bytes_text, refusal_text, unescaped
from ottla.broker.security.sasl import (
    INVALID_CREDENTIALS,
    MAX_TEXT_SIZE,
    FindAccount,
    Login,
    LoginError,
    ScramAccount,
)

MAX_FIELDS: Final = 32
"""Of a message: an unauthenticated client may send 512 KiB of fields."""

STAND_IN_SALT: Final = bytes(16)


class ScramServer:
    """The server's side of SCRAM: two rounds, in which neither side sends the password.

    `nonce` consists of printable characters without commas, and is new for each login, so that
    recorded messages cannot be replayed.
    """

    def __init__(self, mechanism: str, find: FindAccount, nonce: str) -> None:
        self._find = find
        self._nonce = nonce
        self._name = ""
        self._is_token = False
        self._account: ScramAccount | None = None
        self._exchange = ScramMechanism(mechanism).make_server(self._stored, s_nonce=nonce)
        self.login: Login | None = None

    def answer(self, text: bytes) -> bytes:
        try:
            if len(text) > MAX_TEXT_SIZE:
                raise ProtocolError(f"SCRAM: a message has at most {MAX_TEXT_SIZE} bytes")
            message = text.decode()
            answer = self._begin(message) if self._account is None else self._finish(message)
        except UnicodeDecodeError as error:
            raise LoginError("Authentication failed: SCRAM: a message is not UTF-8") from error
        except ProtocolError as error:
            raise LoginError(f"Authentication failed: {error}") from error
        except ScramException as error:
            if error.server_error is ServerError.INVALID_PROOF:
                raise LoginError(INVALID_CREDENTIALS) from error
            raise LoginError(f"Authentication failed: {refusal_text(error)}") from error
        return answer.encode()

    def _begin(self, message: str) -> str:
        # "n,,n=name,r=nonce": the part before the second comma is about channel binding.
        binding, _, rest = message.partition(",")
        authorization, _, signed = rest.partition(",")
        fields = _parse_fields(signed)
        if list(fields)[:2] != ["n", "r"]:
            raise ProtocolError("SCRAM: the first message must be a name and a nonce")
        self._name = unescaped(fields["n"])
        self._is_token = fields.get("tokenauth", "").lower() == "true"
        if authorization and unescaped(authorization.removeprefix("a=")) != self._name:
            raise ProtocolError("SCRAM: the client requests another authorization id than its own")
        exchange = self._exchange
        exchange.set_client_first(f"{binding},,n={STAND_IN},r={fields['r']}")
        assert self._account is not None, "the exchange has asked for it"
        credential = self._account.credential
        exchange.client_first_bare = signed
        exchange.gs2_header = _Header(f"{binding},{authorization},")
        exchange.salt = bytes_text(credential.salt)
        exchange.i = credential.iterations
        return str(exchange.get_server_first())

    def _stored(self, _stand_in: str) -> tuple[bytes, bytes, bytes, int]:
        self._account = self._find(self._name, self._is_token)
        credential = self._account.credential
        return STAND_IN_SALT, credential.stored_key, credential.server_key, MIN_ITERATIONS

    def _finish(self, message: str) -> str:
        sent = message.partition(",r=")[2].partition(",")[0]
        # As in Kafka, only the end is compared: librdkafka before 2.6 repeats its own part.
        if sent.endswith(self._nonce):
            self._exchange.nonce = Nonce(sent)
        self._exchange.set_client_final(message)
        # Looked up again: a token may have expired since the first message, and clients may take
        # long.
        self.login = self._find(self._name, self._is_token).login
        if self.login is None:
            raise LoginError(INVALID_CREDENTIALS)
        return str(self._exchange.get_server_final())


class _Header(str):
    """The header before the signed part of the client's first message; the client repeats it."""

    def make_cbind_input(self, _channel_binding: None) -> bytes:
        return self.encode()


def _parse_fields(text: str) -> dict[str, str]:
    """Returns the fields of a message by name; raises `ProtocolError`."""
    parts = text.split(",", MAX_FIELDS)
    if len(parts) > MAX_FIELDS:
        raise ProtocolError(f"SCRAM: a message has at most {MAX_FIELDS} fields")
    fields: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or name in fields:
            raise ProtocolError("SCRAM: a message must have fields NAME=VALUE, each once")
        fields[name] = value
    return fields
