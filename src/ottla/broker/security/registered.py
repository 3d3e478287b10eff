"""Passwords and quotas as settings of users, client ids and addresses, which ZooKeeper has.

Kafka's counterpart: `ZkConfigManager`.
"""

from collections.abc import Mapping
from math import isfinite
from sys import float_info
from typing import Final

from ottla.base.scram import HASHES, Credentials, ScramCredential
from ottla.broker.quotas.client_quotas import CLIENT_ID, CONNECTION_RATE, IP, USER
from ottla.metadata.quotas import QuotaEntity, quota_entity
from ottla.zookeeper.entities import SCRAM_PREFIX, decode_scram, encode_scram
from ottla.zookeeper.paths import desanitized, sanitized

USERS: Final = "users"
CLIENTS: Final = "clients"
ADDRESSES: Final = "ips"
MORE_THAN_ZERO: Final = float_info.min


def entity_of(path: str) -> QuotaEntity | None:
    """Parses `users/alice`, `clients/app`, `users/alice/clients/app` or `ips/10.0.0.7`.

    Returns `None` for any other path.
    """
    match path.split("/"):
        case ["users", user]:
            return quota_entity({USER: desanitized(user)})
        case ["clients", client]:
            return quota_entity({CLIENT_ID: desanitized(client)})
        case ["users", user, "clients", client]:
            return quota_entity({USER: desanitized(user), CLIENT_ID: desanitized(client)})
        case ["ips", address]:
            return quota_entity({IP: desanitized(address)})
    return None


def entity_path(entity: QuotaEntity) -> str:
    """The inverse of `entity_of`."""
    names = dict(entity)
    folders = ((USER, USERS), (CLIENT_ID, CLIENTS), (IP, ADDRESSES))
    return "/".join(
        f"{folder}/{sanitized(names[kind])}" for kind, folder in folders if kind in names
    )


def user_path(user: str) -> str:
    return f"{USERS}/{sanitized(user)}"


def limits_of(entity: QuotaEntity, settings: Mapping[str, str]) -> dict[str, float]:
    """Returns the quotas in an entity's settings; raises `ValueError`."""
    try:
        limits = {name: float(text) for name, text in settings.items() if not _is_scram(name)}
    except ValueError as error:
        raise ValueError(f"the quotas of {dict(entity)} are not numbers ({error})") from error
    for name, limit in limits.items():
        least = 0.0 if name == CONNECTION_RATE else MORE_THAN_ZERO
        if not (isfinite(limit) and limit >= least):
            raise ValueError(f"the quota {name} of {dict(entity)} is {limit}, which is too low")
    return limits


def with_limits(settings: Mapping[str, str], limits: Mapping[str, float | None]) -> dict[str, str]:
    """Returns an entity's settings with changed limits: `None` removes a limit, others stay.

    Java parses rates of bytes and of connections as integers.
    """
    left = {name: text for name, text in settings.items() if name not in limits}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return left | {name: _number(name, limit) for name, limit in given.items()}


def _number(name: str, limit: float) -> str:
    is_whole = name == CONNECTION_RATE or name.endswith("_byte_rate")
    return str(int(limit)) if is_whole else str(float(limit))


def _is_scram(name: str) -> bool:
    return name.startswith(SCRAM_PREFIX)


def credentials_of(entity: QuotaEntity, settings: Mapping[str, str]) -> Credentials:
    """Returns a user's passwords by name and mechanism; raises `ValueError`."""
    match entity:
        case ((kind, user),) if kind == USER and user is not None:
            return {
                (user, mechanism): _credential(user, text)
                for mechanism, text in settings.items()
                if mechanism in HASHES
            }
    return {}


def _credential(user: str, text: str) -> ScramCredential:
    try:
        return decode_scram(text)
    except ValueError as error:
        raise ValueError(f"the password of {user} is {error}") from error


def with_credentials(settings: Mapping[str, str], credentials: Credentials) -> dict[str, str]:
    """Returns a user's settings with all its passwords replaced."""
    others = {name: text for name, text in settings.items() if name not in HASHES}
    return others | {mechanism: encode_scram(one) for (_, mechanism), one in credentials.items()}
