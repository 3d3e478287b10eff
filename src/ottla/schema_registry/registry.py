"""Schemas by id, whatever holds them."""

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from ottla.base.errors import UserError
from ottla.base.values import dataclass

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"


class UnknownSchemaError(UserError):
    """The registry answers, and has no such schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema as its writer registered it.

    `text` is the schema in its own language; `references` has the schemas that it names, by the
    names it uses, each after those that it needs itself.
    """

    text: str
    kind: str = AVRO
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaRegistry(Protocol):
    """Each raises `UnknownSchemaError`, and `UserError` when nothing can be asked."""

    def schema(self, schema_id: int) -> RegisteredSchema: ...

    def schema_of_guid(self, guid: str) -> RegisteredSchema: ...

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """All that are registered under a subject, such as `orders-value`, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLogin:
    """With what a registry at a URL is asked; the names are those of Confluent's clients."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca_location: str = ""


def parse_login(settings: Mapping[str, str]) -> RegistryLogin:
    """From a client's settings; those with other prefixes are left to others.

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
            f"basic.auth.credentials.source={source} is not known: take USER_INFO, with "
            f"basic.auth.user.info=USER:PASSWORD"
        )
    source = left.pop("bearer.auth.credentials.source", "STATIC_TOKEN")
    if source != "STATIC_TOKEN":
        raise UserError(
            f"bearer.auth.credentials.source={source} is not known: take STATIC_TOKEN, with "
            f"bearer.auth.token=TOKEN"
        )
    user, _, password = left.pop("basic.auth.user.info", "").partition(":")
    login = RegistryLogin(
        user=user,
        password=password,
        token=left.pop("bearer.auth.token", ""),
        ca_location=left.pop("ssl.ca.location", ""),
    )
    if left:
        raise UserError(f"schema.registry.{next(iter(left))} has no effect here: remove it")
    return login
