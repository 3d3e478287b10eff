"""The interface of registries of schemas."""

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from ottla.base.errors import UserError
from ottla.base.values import dataclass

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"
KINDS = (AVRO, PROTOBUF, JSON)

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
"""What a new version of a subject has to be compatible with."""

_STATIC, _INHERITED = "STATIC_TOKEN", "SASL_OAUTHBEARER_INHERIT"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
"""Names of Confluent's clients, whose registries can share the token of their brokers."""

PATIENCE_S = 30.0
"""How long a response may take."""


class UnknownSchemaError(UserError):
    """The registry is reachable, but has no such schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema as it was registered.

    `text` is the schema in its own language; `references` has the texts of the schemas that it
    references, by the names it uses, each after those that it references itself.
    """

    text: str
    kind: str = AVRO
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaRegistry(Protocol):
    """A registry. Methods raise `UnknownSchemaError`, or `UserError` if it is unreachable."""

    def schema(self, schema_id: int) -> RegisteredSchema: ...

    def schema_of_guid(self, guid: str) -> RegisteredSchema: ...

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """All versions of a subject, such as `orders-value`, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLogin:
    """The login for a registry at a URL; the names are those of Confluent's clients."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    """A file with the token, read for each request, since tokens are renewed."""
    ca_location: str = ""


def parse_login(settings: Mapping[str, str]) -> RegistryLogin:
    """Parses a client's settings; ignores those with other prefixes.

    Raises `UserError` for a setting that has no effect here.
    """
    left = {
        name.removeprefix("schema.registry."): value
        for name, value in settings.items()
        if name.startswith(("schema.registry.", "basic.auth.", "bearer.auth."))
    }
    left.pop("url", None)
    source = left.pop("basic.auth.credentials.source", "USER_INFO")
    if source != "USER_INFO":
        raise UserError(
            f"basic.auth.credentials.source={source} is unknown: use USER_INFO, with "
            f"basic.auth.user.info=USER:PASSWORD"
        )
    source = left.pop("bearer.auth.credentials.source", _STATIC)
    if source not in (_STATIC, _INHERITED):
        raise UserError(
            f"bearer.auth.credentials.source={source} is unknown: use {_STATIC}, with "
            f"bearer.auth.token=TOKEN, or {_INHERITED}, with {_TOKEN_URL}=file:///PATH"
        )
    token_url = settings.get(_TOKEN_URL, "") if source == _INHERITED else ""
    if source == _INHERITED and not token_url.startswith("file://"):
        raise UserError(
            f"bearer.auth.credentials.source={source} needs {_TOKEN_URL}=file:///PATH, a file with "
            f"the token, which is read for each request"
        )
    user, _, password = left.pop("basic.auth.user.info", "").partition(":")
    login = RegistryLogin(
        user=user,
        password=password,
        token=left.pop("bearer.auth.token", ""),
        token_file=token_url.removeprefix("file://"),
        ca_location=left.pop("ssl.ca.location", ""),
    )
    if left:
        raise UserError(f"schema.registry.{next(iter(left))} has no effect here: remove it")
    return login
