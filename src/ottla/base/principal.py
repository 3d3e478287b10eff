"""The identity of an authenticated client, to which users, ACLs and quotas refer.

Kafka's counterparts: `KafkaPrincipal`, `SecurityProtocol`.
"""

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """`type` is `User` for all that Kafka's own mechanisms make."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def parse_principal(text: str) -> Principal:
    """The inverse of a principal's text."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client of whom nothing was asked."""
