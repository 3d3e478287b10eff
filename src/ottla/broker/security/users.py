"""Creates, changes and describes SCRAM credentials: all changes of a user, or none (KIP-554).

Kafka's counterparts: `ScramControlManager`, `ScramImage`.
"""

from collections.abc import Mapping, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.scram import (
    CODES_OF_MECHANISMS,
    MAX_ITERATIONS,
    MECHANISM_CODES,
    MIN_ITERATIONS,
    Credentials,
    ScramCredential,
    credential_of_salted,
)
from ottla.base.turns import sorted_in_turns, turn_dict
from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A credential to set, or one to remove, with `salted_password=None`."""

    user: str
    mechanism_code: int
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes | None = None

    def check(self, known: Credentials) -> None:
        """Raises `ApiError` if the credential cannot be set or removed."""
        if not self.user:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        mechanism = MECHANISM_CODES.get(self.mechanism_code)
        if mechanism is None:
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if self.salted_password is None:
            if (self.user, mechanism) not in known:
                raise ApiError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    "Attempt to delete a user credential that does not exist",
                )
        elif self.iterations < MIN_ITERATIONS:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        elif self.iterations > MAX_ITERATIONS:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        elif not self.salted_password or not self.salt:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Empty salt or salted password")

    def credential(self) -> ScramCredential | None:
        if self.salted_password is None:
            return None
        mechanism = MECHANISM_CODES[self.mechanism_code]
        return credential_of_salted(mechanism, self.salted_password, self.salt, self.iterations)


Altered = Mapping[tuple[str, str], ScramCredential | None]
"""New credentials by user and mechanism; `None` removes one."""


def altered_credentials(
    known: Credentials, wanted: Sequence[ScramUpsertion]
) -> tuple[Altered, dict[str, ApiError | None]]:
    """Returns what changes, and for each named user the error, or `None`."""
    results: dict[str, ApiError | None] = turn_dict()
    named: dict[tuple[str, int], None] = turn_dict()
    for one in wanted:
        key = (one.user, one.mechanism_code)
        try:
            if key in named:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            one.check(known)
            results.setdefault(one.user, None)
        except ApiError as error:
            if results.get(one.user) is None:
                results[one.user] = error.without_traceback()
        named[key] = None
    changed: dict[tuple[str, str], ScramCredential | None] = turn_dict()
    for one in wanted:
        if results[one.user] is None:
            changed[one.user, MECHANISM_CODES[one.mechanism_code]] = one.credential()
    return changed, results


def describe_users(known: Credentials) -> dict[str, list[tuple[int, int]]]:
    """Returns mechanism numbers and iterations by user; no other part of a credential is ever
    shown.
    """
    users: dict[str, list[tuple[int, int]]] = turn_dict()
    for user, mechanism in sorted_in_turns(known):
        one = known[user, mechanism]
        users.setdefault(user, []).append((CODES_OF_MECHANISMS[mechanism], one.iterations))
    return users
