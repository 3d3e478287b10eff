"""The broker's users, access rules and tokens; changes are written to disk first.

Kafka's counterparts: `StandardAuthorizer`, `CredentialProvider`, `DelegationTokenManager`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.principal import USER, Principal
from ottla.base.scram import MIN_ITERATIONS, SALT_SIZE, Credentials, ScramCredential, mac
from ottla.base.turns import in_turns, sorted_in_turns, turn_list
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.security.access_changes import AccessChanges, denials_first, denials_last
from ottla.broker.security.authorizer import Authorizer
from ottla.broker.security.token_secrets import token_credential, token_hmac
from ottla.config.security import SecurityConfig
from ottla.metadata.acl_hosts import FIRST_WITH_RANGES
from ottla.metadata.acls import Acl, ResourcePattern
from ottla.metadata.image import Acls, MetadataImage
from ottla.metadata.tokens import DelegationToken

if TYPE_CHECKING:
    from ottla.broker.security.sasl import ScramAccount

logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

Tokens = Mapping[str, DelegationToken]

MAX_SALTED_TOKENS: Final = 1000
"""The size of the cache of tokens' salted secrets; a full cache is cleared."""


class Security(AccessChanges):
    """`authorizer` is `None` if all clients may do everything."""

    def __init__(
        self, metadata: ImageStore, config: SecurityConfig, new_id: Callable[[], Uuid]
    ) -> None:
        super().__init__(metadata, new_id)
        self._store = metadata
        self._config = config
        self._nobodys_key = b""
        self._salted_tokens: dict[tuple[str, str], ScramCredential] = {}
        self.authorizer: Authorizer | None = None
        if config.has_authorizer:
            self.authorizer = Authorizer(
                self.image.all_acls(),
                config.super_user_names,
                allows_without_acls=config.allow_everyone_if_no_acl_found,
            )
            self._follow_level()

    def follow(self, image: MetadataImage) -> None:
        """Applies what the cluster has; rules are applied by `follow_rules`."""
        self._store.follow(image)
        self._follow_level()

    def _follow_level(self) -> None:
        if self.authorizer is not None:
            self.authorizer.read_ranges(self.image.level >= FIRST_WITH_RANGES)

    def await_rules(self) -> None:
        """Lets nobody but super users do anything until `rules_are_known`."""
        if self.authorizer is not None:
            self.authorizer.is_complete = False

    def rules_are_known(self) -> None:
        if self.authorizer is not None:
            self.authorizer.is_complete = True

    def follow_rules(self, before: Acls, patterns: Iterable[ResourcePattern]) -> None:
        """Applies the present image's rules of patterns that had others `before`, in turns."""
        added: list[Acl] = turn_list()
        gone: list[Acl] = turn_list()
        for pattern in patterns:
            old, new = before.get(pattern, {}), self.image.acls.get(pattern, {})
            added += (Acl(pattern, one) for one in new if one not in old)
            gone += (Acl(pattern, one) for one in old if one not in new)
        self._follow_acls(added, denials_first)
        self._follow_acls(gone, denials_last)

    def adopt(self, credentials: Credentials, acls: Sequence[Acl], tokens: Tokens) -> None:
        """Adds another cluster's users, rules and tokens; existing passwords and tokens stay.

        Its rules are taken as they are, also with hosts that are no addresses: there they have no
        effect either.
        """
        self._change(
            lambda image: self._with_credentials(image, _new_among(credentials, image.credentials))
        )
        self._add_acls(acls)
        self._change(lambda image: self._with_tokens(image, _new_among(tokens, image.tokens)))

    # Access rules

    def _follow_acls(self, changed: Iterable[Acl], key: Callable[[Acl], int]) -> None:
        if self.authorizer is None:
            return
        for acl in sorted_in_turns(changed, key=key):
            if not acl.is_known:
                logger.error("an ACL is of a kind that is not known here, and is left out: %s", acl)
                continue
            # What is there now counts: another change may have come in between.
            if acl.entry in self.image.acls.get(acl.pattern, ()):
                self.authorizer.put(*acl)
            else:
                self.authorizer.drop(*acl)

    # Users

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

    def drop_expired_tokens(self, now_ms: int) -> None:
        """Removes expired tokens from memory; the next change removes them from the disks. Expired
        tokens are refused anyway.
        """
        decision = self._without_expired(self.image, now_ms)
        if decision is not None:
            self._store.leave_out(*decision)

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


def _new_among(theirs: Mapping[K, V], ours: Mapping[K, V]) -> dict[K, V]:
    return {key: one for key, one in theirs.items() if key not in ours}
