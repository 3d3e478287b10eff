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

_STATIC, _INHERITED, _OAUTH = "STATIC_TOKEN", "SASL_OAUTHBEARER_INHERIT", "OAUTHBEARER"
_ISSUER_URL = "bearer.auth.issuer.endpoint.url"
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
class ClientCredentials:
    """Where tokens are, and who asks; the settings are those of Confluent's clients."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    buffer_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLogin:
    """The login for a registry at a URL; the names are those of Confluent's clients."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    """A file with the token, read for each request, since tokens are renewed."""
    credentials: ClientCredentials | None = None
    """With which an OAuth server gives tokens."""
    cluster: str = ""
    pool: str = ""
    """The registry's cluster and the identity pool of a token, in Confluent Cloud."""
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
    if source not in (_STATIC, _INHERITED, _OAUTH):
        raise UserError(
            f"bearer.auth.credentials.source={source} is unknown: use {_STATIC}, with "
            f"bearer.auth.token=TOKEN, {_INHERITED}, with {_TOKEN_URL}=file:///PATH, or {_OAUTH}, "
            f"with {_ISSUER_URL}=URL"
        )
    token_url = settings.get(_TOKEN_URL, "") if source == _INHERITED else ""
    if source == _INHERITED and not token_url.startswith("file://"):
        raise UserError(
            f"bearer.auth.credentials.source={source} needs {_TOKEN_URL}=file:///PATH, a file with "
            f"the token, which is read for each request; for tokens of an OAuth server use {_OAUTH}"
        )
    user, _, password = left.pop("basic.auth.user.info", "").partition(":")
    login = RegistryLogin(
        user=user,
        password=password,
        token=left.pop("bearer.auth.token", ""),
        token_file=token_url.removeprefix("file://"),
        credentials=_credentials(left) if source == _OAUTH else None,
        cluster=left.pop("bearer.auth.logical.cluster", ""),
        pool=left.pop("bearer.auth.identity.pool.id", ""),
        ca_location=left.pop("ssl.ca.location", ""),
    )
    if left:
        raise UserError(f"schema.registry.{next(iter(left))} has no effect here: remove it")
    return login


def _credentials(left: dict[str, str]) -> ClientCredentials:
    url = left.pop(_ISSUER_URL, "")
    client_id = left.pop("bearer.auth.client.id", "")
    if not url.startswith(("https://", "http://")) or not client_id:
        raise UserError(
            f"bearer.auth.credentials.source={_OAUTH} needs {_ISSUER_URL}=https://HOST/PATH, which "
            f"gives tokens, bearer.auth.client.id=NAME and bearer.auth.client.secret=SECRET"
        )
    buffer = left.pop("bearer.auth.cache.expiry.buffer.seconds", "300")
    if not buffer.isdecimal():
        raise UserError(f"bearer.auth.cache.expiry.buffer.seconds={buffer} is no number of seconds")
    return ClientCredentials(
        url=url,
        client_id=client_id,
        secret=left.pop("bearer.auth.client.secret", ""),
        scope=left.pop("bearer.auth.scope", ""),
        buffer_s=int(buffer),
    )
