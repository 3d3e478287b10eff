"""The broker's users, access rules and tokens; changes are written to disk first.

Kafka's counterparts: `AclControlManager`, `ScramControlManager`, `DelegationTokenControlManager`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.principal import USER, Principal
from ottla.base.scram import MIN_ITERATIONS, SALT_SIZE, Credentials, ScramCredential, mac
from ottla.base.turns import in_turns, sorted_in_turns, turn_dict, turn_list
from ottla.broker.metadata.image_store import (
    Decision,
    ImageStore,
)
from ottla.broker.security.authorizer import Authorizer
from ottla.broker.security.token_secrets import token_credential, token_hmac
from ottla.broker.topics.storage_failures import storage_failures_answered
from ottla.config.security import SecurityConfig
from ottla.metadata.acls import Acl, AclFilter, Entry, ResourcePattern
from ottla.metadata.image import FIRST_WITH_SCRAM, FIRST_WITH_TOKENS, MetadataImage, merged
from ottla.metadata.tokens import DelegationToken

if TYPE_CHECKING:
    from ottla.broker.security.sasl import ScramAccount
    from ottla.broker.security.users import ScramUpsertion
    from ottla.metadata.image_changes import VersionedRecord

K = TypeVar("K")
V = TypeVar("V")

Tokens = Mapping[str, DelegationToken]

MAX_SALTED_TOKENS: Final = 1000
"""The size of the cache of tokens' salted secrets; a full cache is cleared."""


class Security:
    """`authorizer` is `None` if all clients may do everything."""

    def __init__(
        self, metadata: ImageStore, config: SecurityConfig, new_id: Callable[[], Uuid]
    ) -> None:
        self._metadata = metadata
        self._config = config
        self._new_id = new_id
        self._nobodys_key = b""
        self._salted_tokens: dict[tuple[str, str], ScramCredential] = {}
        self.authorizer: Authorizer | None = None
        if config.has_authorizer:
            self.authorizer = Authorizer(
                self.image.all_acls(),
                config.super_user_names,
                allows_without_acls=config.allow_everyone_if_no_acl_found,
            )

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

    def follow(self, image: MetadataImage) -> None:
        """Applies what ZooKeeper has."""
        self._metadata.follow(image)

    def adopt(self, credentials: Credentials, acls: Sequence[Acl], tokens: Tokens) -> None:
        """Adds another cluster's users, rules and tokens; existing passwords and tokens stay."""
        self._change(
            lambda image: self._with_credentials(image, _new_among(credentials, image.credentials))
        )
        self.create_acls(acls)
        self._change(lambda image: self._with_tokens(image, _new_among(tokens, image.tokens)))

    # Access rules

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Adds rules; existing ones are not duplicated."""
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

        self._change(decide, lambda: self._follow_acls(added, _denials_first))

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Removes the rules that match the filters; returns the removed rules of each filter."""
        matched: list[list[Acl]] = []
        gone: dict[Acl, None] = {}

        def decide(image: MetadataImage) -> Decision | None:
            nonlocal matched, gone
            matched = turn_list(
                [turn_list(one.select(in_turns(image.all_acls()))) for one in filters]
            )
            gone = turn_dict((acl, None) for acls in matched for acl in acls)
            return _ChangedAcls(image).removing(gone)

        self._change(decide, lambda: self._follow_acls(gone, _denials_last))
        return matched

    def _follow_acls(self, changed: Iterable[Acl], key: Callable[[Acl], int]) -> None:
        if self.authorizer is None:
            return
        for acl in sorted_in_turns(changed, key=key):
            # What is there now counts: another change may have come in between.
            if acl.entry in self.image.acls.get(acl.pattern, ()):
                self.authorizer.put(*acl)
            else:
                self.authorizer.drop(*acl)

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

    def find_account(
        self, mechanism: str, now_ms: Callable[[], int], new_salt: Callable[[], bytes]
    ) -> "Callable[[str, bool], ScramAccount]":
        """Returns a function that finds the account of a name during a SCRAM login."""
        # Lazy import: an embedded log has no logins.
        from ottla.broker.security.sasl import Login, ScramAccount

        def find(name: str, is_token: bool) -> ScramAccount:
            if is_token:
                account = self._token_account(mechanism, name, now_ms(), new_salt)
                return account or self._nobodys_account(mechanism, name, new_salt)
            credential = self.image.credentials.get((name, mechanism))
            if credential is None:
                return self._nobodys_account(mechanism, name, new_salt)
            return ScramAccount(login=Login(principal=Principal(USER, name)), credential=credential)

        return find

    def _nobodys_account(
        self, mechanism: str, name: str, new_salt: Callable[[], bytes]
    ) -> "ScramAccount":
        """Returns an account for an unknown name.

        Its salt is the same at each login, and on all brokers with the same token secret, so that
        it does not reveal that the name is unknown.
        """
        from ottla.broker.security.sasl import ScramAccount

        self._nobodys_key = self._nobodys_key or self._config.token_secret.encode() or new_salt()
        text = f"nobody\0{mechanism}\0{name}".encode()
        made_up = mac("sha512", self._nobodys_key, text)
        credential = ScramCredential(
            salt=made_up[:SALT_SIZE],
            stored_key=made_up[SALT_SIZE:],
            server_key=b"",
            iterations=MIN_ITERATIONS,
        )
        return ScramAccount(login=None, credential=credential)

    # Delegation tokens

    @property
    def token_secret(self) -> str:
        """Raises `ApiError` if the settings contain no token secret."""
        secret = self._config.token_secret
        if not secret:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return secret

    def hmac_of(self, token: DelegationToken) -> bytes:
        return token_hmac(self.token_secret, token.token_id)

    def token_by_hmac(self, hmac: bytes) -> DelegationToken:
        """Raises `ApiError` for an unknown HMAC."""
        from hmac import compare_digest  # Lazy import: it loads OpenSSL, which few brokers need.

        for token in in_turns(list(self.image.tokens.values())):
            if compare_digest(self.hmac_of(token), hmac):
                return token
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

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

    def drop_expired_tokens(self, now_ms: int) -> None:
        """Removes expired tokens from memory; the next change removes them from the disks. Expired
        tokens are refused anyway.
        """
        tokens = self.image.tokens
        expired = dict.fromkeys(key for key, one in tokens.items() if one.expires_ms < now_ms)
        decision = self._with_tokens(self.image, expired)
        if decision is not None:
            self._metadata.leave_out(*decision)

    def _with_tokens(
        self, image: MetadataImage, altered: Mapping[str, DelegationToken | None]
    ) -> Decision | None:
        from ottla.metadata.values import token_changes  # Lazy: most change nothing.

        if not altered:
            return None
        self._metadata.check_level("delegation tokens", FIRST_WITH_TOKENS)
        return replace(image, tokens=merged(image.tokens, altered)), token_changes(altered)

    def _token_account(
        self, mechanism: str, token_id: str, now_ms: int, new_salt: Callable[[], bytes]
    ) -> "ScramAccount | None":
        from ottla.broker.security.sasl import Login, ScramAccount

        token, secret = self.image.tokens.get(token_id), self._config.token_secret
        if token is None or not secret or token.expires_ms < now_ms:
            return None
        lifetime_ms = token.expires_ms - now_ms
        key = (mechanism, token_id)
        credential = self._salted_tokens.get(key)
        if credential is None:
            # Cached: salting takes 2 ms of the loop, and an unauthenticated client can name any
            # token.
            if len(self._salted_tokens) >= MAX_SALTED_TOKENS:
                self._salted_tokens.clear()
            credential = token_credential(mechanism, secret, token_id, new_salt())
            self._salted_tokens[key] = credential
        return ScramAccount(
            login=Login(principal=token.owner, lifetime_ms=lifetime_ms, is_token=True),
            credential=credential,
        )


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


def _new_among(theirs: Mapping[K, V], ours: Mapping[K, V]) -> dict[K, V]:
    return {key: one for key, one in theirs.items() if key not in ours}


# Rules come and go one by one: a denial is there before what is allowed beside it, and longer.


def _denials_first(acl: Acl) -> int:
    return acl.entry.permission


def _denials_last(acl: Acl) -> int:
    return -acl.entry.permission
