"""The broker's users, access rules and tokens; changes are written to disk first.

Kafka's counterparts: `AclControlManager`, `ScramControlManager`, `DelegationTokenControlManager`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.principal import USER, Principal
from ottla.base.scram import MIN_ITERATIONS, SALT_SIZE, Credentials, ScramCredential, mac
from ottla.base.turns import freed_in_turns, in_turns, parts_in_turns
from ottla.broker.metadata.stored_state import StoredState
from ottla.broker.security.authorizer import Authorizer, sort_out
from ottla.broker.security.security_state import SecurityState
from ottla.broker.security.token_secrets import token_credential, token_hmac
from ottla.broker.storage_failures import storage_failures_answered
from ottla.config.security import SecurityConfig
from ottla.metadata.acls import Acl, AclFilter
from ottla.metadata.tokens import DelegationToken

if TYPE_CHECKING:
    from ottla.broker.security.sasl import ScramAccount
    from ottla.broker.security.users import ScramUpsertion

Tokens = Mapping[str, DelegationToken]

MAX_SALTED_TOKENS: Final = 1000
"""The size of the cache of tokens' salted secrets; a full cache is cleared."""


class Security:
    """`state` is the state on disk. `authorizer` is `None` if all clients may do everything."""

    def __init__(self, store: StoredState[SecurityState], config: SecurityConfig) -> None:
        state = store.state
        self._store = store
        self._config = config
        self._followed = state.acls
        self._nobodys_key = b""
        self._salted_tokens: dict[tuple[str, str], ScramCredential] = {}
        self.authorizer: Authorizer | None = None
        if config.has_authorizer:
            self.authorizer = Authorizer(
                state.acls,
                config.super_user_names,
                allows_without_acls=config.allow_everyone_if_no_acl_found,
            )

    @property
    def state(self) -> SecurityState:
        return self._store.state

    def _change(
        self,
        decide: Callable[[SecurityState], SecurityState],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises `ApiError` if no directory can be written, and then keeps the old state."""
        with storage_failures_answered():
            self._store.change(decide, then)

    def follow(self, state: SecurityState) -> None:
        """Applies the state in a cluster's registries."""
        self._store.follow(state)

    def adopt(self, credentials: Credentials, acls: Sequence[Acl], tokens: Tokens) -> None:
        """Adds another cluster's users, rules and tokens; existing passwords and tokens stay."""

        def with_theirs(state: SecurityState) -> SecurityState:
            return dataclasses.replace(
                state,
                credentials={**credentials, **state.credentials},
                acls=tuple(dict.fromkeys((*state.acls, *acls))),
                tokens={**tokens, **state.tokens},
            )

        self._change(with_theirs, self._follow_acls)

    # Access rules

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Adds rules; existing ones are not duplicated."""

        def with_new(known: tuple[Acl, ...]) -> tuple[Acl, ...]:
            all_of_them: dict[Acl, None] = freed_in_turns({})
            for part in parts_in_turns(chain(known, acls)):
                all_of_them.update(dict.fromkeys(part))
            return known if len(all_of_them) == len(known) else tuple(all_of_them)

        self._change_acls(with_new)

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Removes the rules that match the filters; returns the removed rules of each filter."""
        matched: list[list[Acl]] = []

        def without_matched(known: tuple[Acl, ...]) -> tuple[Acl, ...]:
            nonlocal matched
            matched = freed_in_turns(
                [freed_in_turns(one.select(in_turns(known))) for one in in_turns(filters)]
            )
            gone = freed_in_turns(
                dict.fromkeys(acl for acls in in_turns(matched) for acl in in_turns(acls))
            )
            return tuple(one for one in in_turns(known) if one not in gone) if gone else known

        self._change_acls(without_matched)
        return matched

    def _change_acls(self, decide: Callable[[tuple[Acl, ...]], tuple[Acl, ...]]) -> None:
        def changed(state: SecurityState) -> SecurityState:
            acls = decide(state.acls)
            return state if acls is state.acls else dataclasses.replace(state, acls=acls)

        self._change(changed, self._follow_acls)

    def _follow_acls(self) -> None:
        while self.authorizer is not None and self._followed is not self.state.acls:
            acls = self.state.acls
            rules = sort_out(acls)
            if acls is self.state.acls:  # the rules have not changed during the turns
                self._followed = acls
                self.authorizer.follow(rules)

    # Users

    def alter_users(self, wanted: "Sequence[ScramUpsertion]") -> dict[str, ApiError | None]:
        from ottla.broker.security.users import with_upsertions

        results: dict[str, ApiError | None] = {}

        def altered(state: SecurityState) -> SecurityState:
            nonlocal results
            credentials, results = with_upsertions(state.credentials, wanted)
            if credentials == state.credentials:
                return state
            return dataclasses.replace(state, credentials=credentials)

        self._change(altered)
        return results

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
            credential = self.state.credentials.get((name, mechanism))
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

        for token in in_turns(list(self.state.tokens.values())):
            if compare_digest(self.hmac_of(token), hmac):
                return token
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def put_token(self, token: DelegationToken) -> None:
        self._change_tokens(lambda tokens: {**tokens, token.token_id: token})

    def change_token(self, token: DelegationToken) -> None:
        """Raises `ApiError` if the token no longer exists."""

        def changed(tokens: Tokens) -> Tokens:
            if token.token_id not in tokens:
                raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            return {**tokens, token.token_id: token}

        self._change_tokens(changed)

    def drop_token(self, token: DelegationToken) -> None:
        self._change_tokens(
            lambda tokens: {key: one for key, one in tokens.items() if key != token.token_id}
        )

    def drop_expired_tokens(self, now_ms: int) -> None:
        """Removes expired tokens from memory; the next change removes them from the disks. Expired
        tokens are refused anyway.
        """
        alive = {key: one for key, one in self.state.tokens.items() if one.expires_ms >= now_ms}
        if len(alive) < len(self.state.tokens):
            self._store.leave_out(dataclasses.replace(self.state, tokens=alive))

    def _change_tokens(self, decide: Callable[[Tokens], Tokens]) -> None:
        self._change(lambda state: dataclasses.replace(state, tokens=decide(state.tokens)))

    def _token_account(
        self, mechanism: str, token_id: str, now_ms: int, new_salt: Callable[[], bytes]
    ) -> "ScramAccount | None":
        from ottla.broker.security.sasl import Login, ScramAccount

        token, secret = self.state.tokens.get(token_id), self._config.token_secret
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
