"""The identity of an authenticated client, to which users, ACLs and quotas refer.

Kafka's counterparts: `KafkaPrincipal`, `SecurityProtocol`.
"""

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """A principal; `type` is `User` for Kafka's own mechanisms."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def parse_principal(text: str) -> Principal:
    """The inverse of `str(principal)`."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""The principal of a client that did not authenticate."""
