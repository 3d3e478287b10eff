"""Users, access rules and delegation tokens of a metadata log, as they are kept here.

What Kafka has is added to what is here; what Kafka no longer has stays until somebody removes it.
"""

from dataclasses import replace

from ottla.base.principal import Principal
from ottla.base.scram import MECHANISM_CODES, ScramCredential
from ottla.broker.security.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.broker.security.security_file import SecurityState
from ottla.broker.security.tokens import DelegationToken
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import AccessControlEntryRecord, DelegationTokenRecord


def with_imported(ours: SecurityState, image: MetadataImage) -> SecurityState:
    """Raises `ValueError` for a rule of a kind that is not known here: to leave it out may let
    somebody in."""
    credentials = dict(ours.credentials)
    for (user, code), one in image.scram_credentials.items():
        credentials[user, MECHANISM_CODES[code]] = ScramCredential(
            salt=bytes(one.salt),
            stored_key=bytes(one.stored_key),
            server_key=bytes(one.server_key),
            iterations=one.iterations,
        )
    acls = dict.fromkeys((*ours.acls, *map(_acl, image.acls.values())))
    tokens = {key: _token(one) for key, one in image.delegation_tokens.items()}
    return replace(
        ours, acls=tuple(acls), credentials=credentials, tokens={**ours.tokens, **tokens}
    )


def _acl(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        ResourcePattern(
            ResourceType(record.resource_type),
            PatternType(record.pattern_type),
            record.resource_name,
        ),
        Entry(
            record.principal,
            record.host,
            Operation(record.operation),
            Permission(record.permission_type),
        ),
    )


def _token(record: DelegationTokenRecord) -> DelegationToken:
    owner = _principal(record.owner)
    return DelegationToken(
        token_id=record.token_id,
        owner=owner,
        requester=_principal(record.requester) if record.requester else owner,
        renewers=tuple(map(_principal, record.renewers)),
        issued_ms=record.issue_timestamp,
        expires_ms=record.expiration_timestamp,
        max_ms=record.max_timestamp,
    )


def _principal(text: str) -> Principal:
    kind, _, name = text.partition(":")
    return Principal(kind, name)
