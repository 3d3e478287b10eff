"""Delegation tokens: a name and a secret that authenticate a principal (KIP-48, KIP-373).

A token is valid for a limited time. Kafka's counterparts: `TokenInformation`,
`DelegationTokenControlManager`.
"""

from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.principal import Principal
from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """The token expires at this time even if it is renewed."""

    def concerns(self, principal: Principal) -> bool:
        """Whether a principal may renew, expire and describe the token."""
        return principal in self.principals

    @property
    def principals(self) -> tuple[Principal, ...]:
        return (self.owner, self.requester, *self.renewers)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLifetimes:
    """The settings of tokens' lifetimes, in milliseconds."""

    max_ms: int
    expiry_ms: int

    def new(
        self,
        token_id: str,
        owners: tuple[Principal, Principal],
        renewers: tuple[Principal, ...],
        wanted_ms: int,
        now_ms: int,
    ) -> DelegationToken:
        """Returns a token of `owners`, the owner and the requester; `wanted_ms` <= 0 means the
        maximum lifetime.
        """
        lifetime_ms = self.max_ms if wanted_ms <= 0 else min(wanted_ms, self.max_ms)
        max_ms = now_ms + lifetime_ms
        return DelegationToken(
            token_id=token_id,
            owner=owners[0],
            requester=owners[1],
            renewers=renewers,
            issued_ms=now_ms,
            expires_ms=min(max_ms, now_ms + self.expiry_ms),
            max_ms=max_ms,
        )

    def renewed(self, token: DelegationToken, period_ms: int, now_ms: int) -> DelegationToken:
        """Returns the token with a later expiry; raises `ApiError` for an expired token."""
        _check_alive(token, now_ms)
        period_ms = self.expiry_ms if period_ms < 0 else period_ms
        return replace(token, expires_ms=min(token.max_ms, now_ms + period_ms))

    def expired(
        self, token: DelegationToken, period_ms: int, now_ms: int
    ) -> tuple[DelegationToken | None, int]:
        """Returns the token, or `None` if it is to be deleted immediately, and its expiry.

        Raises `ApiError` for an expired token.
        """
        if period_ms < 0:
            return None, now_ms
        _check_alive(token, now_ms)
        expires_ms = min(token.max_ms, now_ms + period_ms)
        return replace(token, expires_ms=expires_ms), expires_ms


def _check_alive(token: DelegationToken, now_ms: int) -> None:
    if token.max_ms < now_ms or token.expires_ms < now_ms:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
