"""Decides about access rules, users and tokens, for whoever keeps the image.

A broker alone writes what is decided to its disk, and the leader of a quorum to its log. Kafka's
counterparts: `AclControlManager`, `ScramControlManager`, `DelegationTokenControlManager`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.scram import ScramCredential
from ottla.base.turns import in_turns, turn_dict, turn_list
from ottla.broker.metadata.image_store import Decision, Images
from ottla.broker.topics.storage_failures import storage_failures_answered
from ottla.metadata.acl_hosts import check_host
from ottla.metadata.acls import Acl, AclFilter, Entry, ResourcePattern
from ottla.metadata.image import FIRST_WITH_SCRAM, FIRST_WITH_TOKENS, MetadataImage, merged
from ottla.metadata.tokens import DelegationToken

if TYPE_CHECKING:
    from ottla.broker.security.users import ScramUpsertion
    from ottla.metadata.image_changes import VersionedRecord


class AccessChanges:
    """Changes that raise `ApiError` have no effect."""

    def __init__(self, metadata: Images, new_id: Callable[[], Uuid]) -> None:
        self._metadata = metadata
        self._new_id = new_id

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    def _change(
        self,
        decide: Callable[[MetadataImage], Decision | None],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises `ApiError` if no directory can be written, and then keeps the old image."""
        with storage_failures_answered():
            self._metadata.change(decide, then)

    # Access rules

    def create_acls(self, acls: Sequence[Acl]) -> list[ApiError | None]:
        """Adds rules; existing ones are not duplicated. Returns for each why it is refused."""
        refusals: list[ApiError | None] = turn_list(
            _refusal(one, self._metadata.level) for one in in_turns(acls)
        )
        self._add_acls(turn_list(one for one, no in zip(acls, refusals, strict=True) if no is None))
        return refusals

    def _add_acls(self, acls: Sequence[Acl]) -> None:
        added: list[Acl] = []

        def decide(image: MetadataImage) -> Decision | None:
            nonlocal added
            added = turn_list()
            changed = _ChangedAcls(image)
            for acl in acls:
                entries = changed.of(acl.pattern)
                if acl.entry not in entries:
                    entries[acl.entry] = (self._new_id(),)
                    added.append(acl)
            return changed.adding(added)

        self._change(decide, lambda: self._follow_acls(added, denials_first))

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Removes the rules that match the filters; returns the removed rules of each filter."""
        matched: list[list[Acl]] = []
        gone: dict[Acl, None] = {}

        def decide(image: MetadataImage) -> Decision | None:
            nonlocal matched, gone
            matched = turn_list(
                [turn_list(one.select(in_turns(one.among(image.acls)))) for one in filters]
            )
            gone = turn_dict((acl, None) for acls in matched for acl in acls)
            return _ChangedAcls(image).removing(gone)

        self._change(decide, lambda: self._follow_acls(gone, denials_last))
        return matched

    def remove_acls(self, acls: Iterable[Acl]) -> None:
        """Removes those of them that there are."""
        gone: dict[Acl, None] = {}

        def decide(image: MetadataImage) -> Decision | None:
            nonlocal gone
            known = image.acls
            gone = {one: None for one in acls if one.entry in known.get(one.pattern, ())}
            return _ChangedAcls(image).removing(gone)

        self._change(decide, lambda: self._follow_acls(gone, denials_last))

    def _follow_acls(self, changed: Iterable[Acl], key: Callable[[Acl], int]) -> None:
        """Called with rules that were added or removed, and the order in which that is to be
        followed.
        """

    # Users

    def alter_users(self, wanted: "Sequence[ScramUpsertion]") -> dict[str, ApiError | None]:
        from ottla.broker.security.users import altered_credentials

        results: dict[str, ApiError | None] = {}

        def decide(image: MetadataImage) -> Decision | None:
            nonlocal results
            altered, results = altered_credentials(image.credentials, wanted)
            return self._with_credentials(image, altered)

        self._change(decide)
        return results

    def _with_credentials(
        self,
        image: MetadataImage,
        altered: Mapping[tuple[str, str], ScramCredential | None],
    ) -> Decision | None:
        from ottla.metadata.values import credential_changes  # Lazy: most change nothing.

        if not altered:
            return None
        self._metadata.check_level("users", FIRST_WITH_SCRAM)
        credentials = merged(image.credentials, altered)
        return replace(image, credentials=credentials), credential_changes(altered)

    # Delegation tokens

    def put_token(self, token: DelegationToken) -> None:
        self._change(lambda image: self._with_tokens(image, {token.token_id: token}))

    def change_token(self, token: DelegationToken) -> None:
        """Raises `ApiError` if the token no longer exists."""

        def decide(image: MetadataImage) -> Decision | None:
            if token.token_id not in image.tokens:
                raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            return self._with_tokens(image, {token.token_id: token})

        self._change(decide)

    def drop_token(self, token: DelegationToken) -> None:
        def decide(image: MetadataImage) -> Decision | None:
            is_known = token.token_id in image.tokens
            return self._with_tokens(image, {token.token_id: None} if is_known else {})

        self._change(decide)

    def end_expired_tokens(self, now_ms: int) -> None:
        """Removes the tokens that have expired, which are refused anyway."""
        self._change(lambda image: self._without_expired(image, now_ms))

    def _without_expired(self, image: MetadataImage, now_ms: int) -> Decision | None:
        tokens = image.tokens
        expired = dict.fromkeys(key for key, one in tokens.items() if one.expires_ms < now_ms)
        return self._with_tokens(image, expired)

    def _with_tokens(
        self, image: MetadataImage, altered: Mapping[str, DelegationToken | None]
    ) -> Decision | None:
        from ottla.metadata.values import token_changes  # Lazy: most change nothing.

        if not altered:
            return None
        self._metadata.check_level("delegation tokens", FIRST_WITH_TOKENS)
        return replace(image, tokens=merged(image.tokens, altered)), token_changes(altered)


def _refusal(acl: Acl, level: int) -> ApiError | None:
    try:
        check_host(acl.entry.host, level)
    except ApiError as error:
        return error.without_traceback()
    return None


class _ChangedAcls:
    """The rules of an image with those of some patterns changed."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._patterns: dict[ResourcePattern, dict[Entry, tuple[Uuid, ...]]] = turn_dict()

    def of(self, pattern: ResourcePattern) -> dict[Entry, tuple[Uuid, ...]]:
        """The rules of a pattern, to be changed."""
        entries = self._patterns.get(pattern)
        if entries is None:
            entries = self._patterns[pattern] = dict(self._image.acls.get(pattern, {}))
        return entries

    def adding(self, added: Collection[Acl]) -> Decision | None:
        from ottla.metadata.values import acl_record  # Lazy: most brokers have no rules.

        records = ((acl_record(self.of(one.pattern)[one.entry][0], one), 0) for one in added)
        return self._decision(records) if added else None

    def removing(self, gone: Collection[Acl]) -> Decision | None:
        from ottla.metadata.values import acl_removal

        ids: list[Uuid] = turn_list()
        for one in gone:
            ids += self.of(one.pattern).pop(one.entry)
        return self._decision((acl_removal(one), 0) for one in ids) if gone else None

    def _decision(self, records: "Iterable[VersionedRecord]") -> Decision:
        return replace(self._image, acls=merged(self._image.acls, self._patterns)), records


# Rules come and go one by one: a denial is there before what is allowed beside it, and longer.


def denials_first(acl: Acl) -> int:
    return acl.entry.permission


def denials_last(acl: Acl) -> int:
    return -acl.entry.permission
