"""The users, access rules and tokens of a metadata image, and the records that change them.

Kafka's counterparts: `AclControlManager`, `ScramControlManager`, `DelegationTokenControlManager`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.broker.metadata.differences import differing
from ottla.broker.security.security_state import SecurityState
from ottla.metadata.acls import Acl
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.records import (
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
)
from ottla.metadata.security_records import acl_record, code_of, credential_record, token_record

FIRST_WITH_SCRAM: Final = 11
FIRST_WITH_TOKENS: Final = 14
"""Levels of metadata.version: 3.5-IV2 and 3.6-IV2."""


def security_state_of(image: MetadataImage) -> SecurityState:
    return SecurityState(
        credentials=image.credentials,
        acls=tuple(dict.fromkeys(image.acls.values())),
        tokens=image.tokens,
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
        for one, acl in image.acls.items():
            self._ids.setdefault(acl, []).append(one)

    def __call__(self, old: SecurityState, new: SecurityState) -> Iterator[VersionedRecord]:
        """Raises `ApiError` if the log's metadata.version is too old for a change."""
        yield from self._of_users(old, new)
        if old.acls is not new.acls:
            yield from self._of_acls(old.acls, new.acls)
        yield from self._of_tokens(old, new)

    def _of_users(self, old: SecurityState, new: SecurityState) -> Iterator[VersionedRecord]:
        for (user, mechanism), _, after in differing(old.credentials, new.credentials, None):
            self._check_level("users", FIRST_WITH_SCRAM)
            if after is None:
                yield RemoveUserScramCredentialRecord(name=user, mechanism=code_of(mechanism)), 0
            else:
                yield credential_record(user, mechanism, after), 0

    def _of_acls(self, old: tuple[Acl, ...], new: tuple[Acl, ...]) -> Iterator[VersionedRecord]:
        before, after = dict.fromkeys(old), dict.fromkeys(new)
        for acl in before:
            if acl not in after:
                for one in self._ids.pop(acl, ()):
                    yield RemoveAccessControlEntryRecord(id=one), 0
        for acl in after:
            if acl not in before:
                self._ids[acl] = [self._new_id()]
                yield acl_record(self._ids[acl][0], acl), 0

    def _of_tokens(self, old: SecurityState, new: SecurityState) -> Iterator[VersionedRecord]:
        for token_id, _, after in differing(old.tokens, new.tokens, None):
            self._check_level("delegation tokens", FIRST_WITH_TOKENS)
            if after is None:
                yield RemoveDelegationTokenRecord(token_id=token_id), 0
            else:
                yield token_record(after), 0

    def _check_level(self, what: str, least: int) -> None:
        if self._level() < least:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The metadata log has metadata.version {self._level()}, and has {what} from "
                f"{least} on; raise it with kafka-features.",
            )
