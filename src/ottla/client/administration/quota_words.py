"""What people write about quotas, in commands and forms, and which quota a client is under."""

from collections.abc import Iterable, Iterator, Mapping

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.texts import setting_value
from ottla.base.values import dataclass
from ottla.client.administration.quota_values import Entity, Quota

LIMITS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
DEFAULT = "(default)"
OPTIONS = {"user": "--user", "client-id": "--client-id", "ip": "--ip"}
_NUMBER = lazy_pattern(r"\d+(\.\d+)?")


def entity_of(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    """Raises `UserError` for an address beside a user or a client id."""
    given = {"user": user, "client-id": client_id, "ip": ip}
    if ip is not None and (user is not None or client_id is not None):
        raise UserError("--ip stands alone: addresses have limits of their own")
    return {
        kind: None if name == DEFAULT else name for kind, name in given.items() if name is not None
    }


def required(entity: dict[str, str | None]) -> dict[str, str | None]:
    if not entity:
        raise UserError("name what is limited: --user NAME, --client-id ID or --ip ADDRESS")
    return entity


def entity_options(entity: Entity) -> Iterator[str]:
    """The options that name an entity, each with its value in one word."""
    for kind, option in OPTIONS.items():
        if kind in entity:
            yield f"{option}={name_text(entity[kind])}"


def name_text(name: str | None) -> str:
    return DEFAULT if name is None else name


def check_limit(name: str) -> None:
    if name not in LIMITS:
        raise UnknownNameError("limit", name, LIMITS)


def limit_number(name: str, text: str) -> float:
    """Bytes may be written as 10M; raises `UserError`."""
    check_limit(name)
    plain = setting_value(".bytes" if name.endswith("byte_rate") else name, text)
    if not _NUMBER.fullmatch(plain):
        example = "10M" if name.endswith("byte_rate") else "50"
        raise UserError(f"{name}={text}: a limit is a number, such as {example}")
    return float(plain)


def plain_number(value: float) -> str:
    """The digits of a limit, as commands take them."""
    return f"{value:.0f}" if value == int(value) else repr(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedQuota:
    """A limit that a client is under; `shared_by` are the clients whose rates count together."""

    limit: str
    value: float
    entity: Entity
    shared_by: Entity
    overridden: tuple[tuple[Entity, float], ...] = ()
    """Less specific quotas, which have no effect on this client."""


def applied_quotas(
    quotas: Iterable[Quota], user: str = "", client_id: str = ""
) -> list[AppliedQuota]:
    """What brokers enforce for a client; without a user for those that have not logged in."""
    # Lazy import: the other commands about quotas ask a broker, and contain none.
    from ottla.broker.quotas.client_quotas import ANONYMOUS, QuotaKind, applying
    from ottla.metadata.quotas import quota_entity

    known: dict[tuple[tuple[str, str | None], ...], Mapping[str, float]] = {
        quota_entity(one.entity): one.limits for one in quotas
    }
    found = []
    for kind in QuotaKind:
        there = [*applying(known, kind, user or ANONYMOUS, client_id)]
        if not there:
            continue
        (entity, limit), *others = there
        found.append(
            AppliedQuota(
                limit=kind.value,
                value=limit.per_second,
                entity=dict(entity),
                shared_by=dict(limit.entity),
                overridden=tuple((dict(other), one.per_second) for other, one in others),
            )
        )
    return found
