"""The access rules, SCRAM credentials and delegation tokens of a cluster."""

from collections.abc import Mapping
from dataclasses import field

from ottla.base.scram import ScramCredential
from ottla.base.values import dataclass
from ottla.broker.security.acls import Acl
from ottla.broker.security.tokens import DelegationToken

Credentials = Mapping[tuple[str, str], ScramCredential]
"""By name of the user and mechanism."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityState:
    acls: tuple[Acl, ...] = ()
    credentials: Credentials = field(default_factory=dict)
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
