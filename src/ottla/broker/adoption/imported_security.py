"""Converts users, access rules and delegation tokens between a metadata log and Ottla's state.

An import adds Kafka's entries to Ottla's. Entries that Kafka no longer has stay until a user
removes them. A metadata log written by a handover has exactly Ottla's entries.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ottla.base.errors import UserError
from ottla.base.ids import Uuid
from ottla.base.principal import parse_principal
from ottla.base.scram import CODES_OF_MECHANISMS, MECHANISM_CODES, ScramCredential
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
from ottla.metadata.image_changes import METADATA_VERSION
from ottla.metadata.records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)

NewId = Callable[[], Uuid]

FIRST_WITH_SCRAM: Final = 11
FIRST_WITH_TOKENS: Final = 14
"""Levels of metadata.version: 3.5-IV2 and 3.6-IV2."""


def with_imported(ours: SecurityState, image: MetadataImage) -> SecurityState:
    """Adds the image's entries to ours.

    Raises `ValueError` for an access rule of an unknown kind: without it, clients might get access
    that the rule denies.
    """
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


def with_exported(image: MetadataImage, ours: SecurityState, new_id: NewId) -> MetadataImage:
    """Replaces the image's entries by ours; equal access rules keep their records.

    Raises `UserError` if the log's metadata.version is too old for an entry.
    """
    known = {_acl(one): one for one in image.acls.values()}
    acls = (known.get(one) or _acl_record(one, new_id) for one in ours.acls)
    new = replace(
        image,
        scram_credentials={
            (user, CODES_OF_MECHANISMS[mechanism]): UserScramCredentialRecord(
                name=user,
                mechanism=CODES_OF_MECHANISMS[mechanism],
                salt=one.salt,
                stored_key=one.stored_key,
                server_key=one.server_key,
                iterations=one.iterations,
            )
            for (user, mechanism), one in ours.credentials.items()
        },
        acls={one.id: one for one in acls},
        delegation_tokens={key: _token_record(one) for key, one in ours.tokens.items()},
    )
    level = image.features.get(METADATA_VERSION, 0)
    for what, some, least in (
        ("users", new.scram_credentials, FIRST_WITH_SCRAM),
        ("delegation tokens", new.delegation_tokens, FIRST_WITH_TOKENS),
    ):
        if some and level < least:
            raise UserError(
                f"a metadata log has {what} from metadata.version {least} on; raise it with "
                f"kafka-features before the directories are adopted, or remove the {what}"
            )
    return new


def _acl_record(acl: Acl, new_id: NewId) -> AccessControlEntryRecord:
    pattern, entry = acl
    return AccessControlEntryRecord(
        id=new_id(),
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _token_record(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=list(map(str, token.renewers)),
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
        token_id=token.token_id,
    )


def _token(record: DelegationTokenRecord) -> DelegationToken:
    owner = parse_principal(record.owner)
    return DelegationToken(
        token_id=record.token_id,
        owner=owner,
        requester=parse_principal(record.requester) if record.requester else owner,
        renewers=tuple(map(parse_principal, record.renewers)),
        issued_ms=record.issue_timestamp,
        expires_ms=record.expiration_timestamp,
        max_ms=record.max_timestamp,
    )
