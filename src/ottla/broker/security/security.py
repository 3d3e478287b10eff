"""What the broker knows of security: users, access rules, tokens; changed on the disks first.

Kafka's counterparts: `AclControlManager`, `ScramControlManager`, `DelegationTokenControlManager`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from hmac import compare_digest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem
from ottla.base.principal import USER, Principal
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.revised_state import StateStore
from ottla.broker.security.acls import Acl, AclFilter
from ottla.broker.security.authorizer import Authorizer
from ottla.broker.security.sasl import Login, ScramAccount
from ottla.broker.security.security_file import SECURITY_FILE, SecurityState
from ottla.broker.security.tokens import DelegationToken, token_credential, token_hmac
from ottla.broker.security.users import ScramUpsertion, with_upsertions
from ottla.broker.topics.topic_store import storage_failures_answered
from ottla.config.security import SecurityConfig
from ottla.storage.directory.log_directories import LogDirectories


class Security:
    """`state` is what is on the disks. `authorizer` is `None` where everybody may do everything."""

    def __init__(
        self,
        state: SecurityState,
        directories: LogDirectories,
        file_system: FileSystem,
        config: SecurityConfig,
    ) -> None:
        self._store = StateStore(SECURITY_FILE, state, directories, file_system)
        self._config = config
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

    def _replace(self, state: SecurityState) -> None:
        """Raises `ApiError` when no directory takes it, and then keeps the old state."""
        with storage_failures_answered():
            self._store.replace(state)

    def save(self) -> None:
        """Writes down what was found elsewhere; raises `StorageError`."""
        self._store.replace(self.state)

    # Access rules

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Those that are there already stay once."""
        self._change_acls(tuple(dict.fromkeys((*self.state.acls, *acls))))

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Removes what the filters match; for each filter what that was."""
        while True:
            known = self.state.acls
            matched = freed_in_turns([one.select(in_turns(known)) for one in in_turns(filters)])
            gone = freed_in_turns(
                dict.fromkeys(acl for acls in in_turns(matched) for acl in in_turns(acls))
            )
            left = tuple(one for one in in_turns(known) if one not in gone)
            if self.state.acls is known:
                break  # nobody has changed any, while others had their turn
        self._change_acls(left)
        return matched

    def _change_acls(self, acls: tuple[Acl, ...]) -> None:
        if acls == self.state.acls:
            return
        self._replace(dataclasses.replace(self.state, acls=acls))
        if self.authorizer is not None:
            self.authorizer.change(acls)

    # Users

    def alter_users(self, wanted: Sequence[ScramUpsertion]) -> dict[str, ApiError | None]:
        while True:
            known = self.state.credentials
            credentials, results = with_upsertions(known, wanted)
            if self.state.credentials is known:
                break  # nobody has changed any, while others had their turn
        if credentials != known:
            self._replace(dataclasses.replace(self.state, credentials=credentials))
        return results

    def find_account(
        self, mechanism: str, now_ms: int, new_salt: Callable[[], bytes]
    ) -> Callable[[str, bool], ScramAccount | None]:
        """Finds whom a name in a SCRAM login stands for."""

        def find(name: str, is_token: bool) -> ScramAccount | None:
            if is_token:
                return self._token_account(mechanism, name, now_ms, new_salt())
            credential = self.state.credentials.get((name, mechanism))
            if credential is None:
                return None
            return ScramAccount(login=Login(principal=Principal(USER, name)), credential=credential)

        return find

    # Delegation tokens

    @property
    def token_secret(self) -> str:
        """Raises `ApiError` where the settings give none."""
        secret = self._config.token_secret
        if not secret:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return secret

    def hmac_of(self, token: DelegationToken) -> bytes:
        return token_hmac(self.token_secret, token.token_id)

    def token_by_hmac(self, hmac: bytes) -> DelegationToken:
        """Raises `ApiError`."""
        for token in self.state.tokens.values():
            if compare_digest(self.hmac_of(token), hmac):
                return token
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def put_token(self, token: DelegationToken) -> None:
        tokens = {**self.state.tokens, token.token_id: token}
        self._replace(dataclasses.replace(self.state, tokens=tokens))

    def drop_token(self, token: DelegationToken) -> None:
        tokens = {key: one for key, one in self.state.tokens.items() if key != token.token_id}
        self._replace(dataclasses.replace(self.state, tokens=tokens))

    def drop_expired_tokens(self, now_ms: int) -> None:
        alive = {key: one for key, one in self.state.tokens.items() if one.expires_ms >= now_ms}
        if len(alive) < len(self.state.tokens):
            self._replace(dataclasses.replace(self.state, tokens=alive))

    def _token_account(
        self, mechanism: str, token_id: str, now_ms: int, salt: bytes
    ) -> ScramAccount | None:
        token, secret = self.state.tokens.get(token_id), self._config.token_secret
        if token is None or not secret or token.expires_ms < now_ms:
            return None
        lifetime_ms = token.expires_ms - now_ms
        return ScramAccount(
            login=Login(principal=token.owner, lifetime_ms=lifetime_ms, is_token=True),
            credential=token_credential(mechanism, secret, token_id, salt),
        )
