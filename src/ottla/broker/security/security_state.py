"""The access rules, SCRAM credentials and delegation tokens of a cluster."""

from collections.abc import Mapping
from dataclasses import field

from ottla.base.scram import Credentials
from ottla.base.values import dataclass
from ottla.metadata.acls import Acl
from ottla.metadata.tokens import DelegationToken


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityState:
    acls: tuple[Acl, ...] = ()
    credentials: Credentials = field(default_factory=dict)
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
