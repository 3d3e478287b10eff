"""The users, access rules and tokens of a metadata image, and the records that change them.

Kafka's counterparts: `AclControlManager`, `ScramControlManager`, `DelegationTokenControlManager`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.principal import parse_principal
from ottla.base.scram import CODES_OF_MECHANISMS, MECHANISM_CODES, ScramCredential
from ottla.broker.metadata.differences import differing
from ottla.broker.security.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.broker.security.security_state import SecurityState
from ottla.broker.security.tokens import DelegationToken
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

FIRST_WITH_SCRAM: Final = 11
FIRST_WITH_TOKENS: Final = 14
"""Levels of metadata.version: 3.5-IV2 and 3.6-IV2."""


def security_state_of(image: MetadataImage) -> SecurityState:
    """Raises `ValueError` for an access rule of an unknown kind: without it, clients might get
    access that the rule denies.
    """
    return SecurityState(
        credentials={
            (user, MECHANISM_CODES[code]): ScramCredential(
                salt=bytes(one.salt),
                stored_key=bytes(one.stored_key),
                server_key=bytes(one.server_key),
                iterations=one.iterations,
            )
            for (user, code), one in image.scram_credentials.items()
        },
        acls=tuple(dict.fromkeys(map(_acl, image.acls.values()))),
        tokens={key: _token(one) for key, one in image.delegation_tokens.items()},
    )


class SecurityChanges:
    """Makes the records that change users, access rules and tokens.

    It knows the ids of the rules in the log, of which an equal rule may have several.
    """

    def __init__(
        self, image: MetadataImage, new_id: Callable[[], Uuid], level: Callable[[], int]
    ) -> None:
        self._new_id = new_id
        self._level = level
        self._ids: dict[Acl, list[Uuid]] = {}
        for one, record in image.acls.items():
            self._ids.setdefault(_acl(record), []).append(one)

    def __call__(self, old: SecurityState, new: SecurityState) -> Iterator[VersionedRecord]:
        """Raises `ApiError` if the log's metadata.version is too old for a change."""
        yield from self._of_users(old, new)
        if old.acls is not new.acls:
            yield from self._of_acls(old.acls, new.acls)
        yield from self._of_tokens(old, new)

    def _of_users(self, old: SecurityState, new: SecurityState) -> Iterator[VersionedRecord]:
        for (user, mechanism), _, after in differing(old.credentials, new.credentials, None):
            self._check_level("users", FIRST_WITH_SCRAM)
            code = CODES_OF_MECHANISMS[mechanism]
            if after is None:
                yield RemoveUserScramCredentialRecord(name=user, mechanism=code), 0
                continue
            yield (
                UserScramCredentialRecord(
                    name=user,
                    mechanism=code,
                    salt=after.salt,
                    stored_key=after.stored_key,
                    server_key=after.server_key,
                    iterations=after.iterations,
                ),
                0,
            )

    def _of_acls(self, old: tuple[Acl, ...], new: tuple[Acl, ...]) -> Iterator[VersionedRecord]:
        before, after = dict.fromkeys(old), dict.fromkeys(new)
        for acl in before:
            if acl not in after:
                for one in self._ids.pop(acl, ()):
                    yield RemoveAccessControlEntryRecord(id=one), 0
        for acl in after:
            if acl not in before:
                record = _acl_record(acl, self._new_id())
                self._ids[acl] = [record.id]
                yield record, 0

    def _of_tokens(self, old: SecurityState, new: SecurityState) -> Iterator[VersionedRecord]:
        for token_id, _, after in differing(old.tokens, new.tokens, None):
            self._check_level("delegation tokens", FIRST_WITH_TOKENS)
            if after is None:
                yield RemoveDelegationTokenRecord(token_id=token_id), 0
            else:
                yield _token_record(after), 0

    def _check_level(self, what: str, least: int) -> None:
        if self._level() < least:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The metadata log has metadata.version {self._level()}, and has {what} from "
                f"{least} on; raise it with kafka-features.",
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


def _acl_record(acl: Acl, new_id: Uuid) -> AccessControlEntryRecord:
    pattern, entry = acl
    return AccessControlEntryRecord(
        id=new_id,
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
