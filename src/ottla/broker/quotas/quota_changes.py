"""Validation of quotas, changes by clients, and filters of queries.

Kafka's counterparts: `ClientQuotaControlManager`, `ClientQuotasImage` (KIP-546).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import in_turns, turn_dict, turn_list
from ottla.base.values import dataclass
from ottla.broker.metadata.image_store import Decision
from ottla.broker.quotas.client_quotas import CLIENT_ID, CONNECTION_RATE, IP, USER, QuotaKind
from ottla.config.setting import INT32_MAX, INT64_MAX
from ottla.metadata.image import MetadataImage, merged
from ottla.metadata.quotas import QuotaEntity, Quotas, quota_entity

T = TypeVar("T")

ENTITY_TYPES = (USER, CLIENT_ID, IP)
WHOLE_NUMBERS = {
    QuotaKind.PRODUCE.value: "Long",
    QuotaKind.FETCH.value: "Long",
    CONNECTION_RATE: "Integer",
}
LARGEST = {"Integer": float(INT32_MAX), "Long": float(INT64_MAX)}
ROUNDING = 1e-6
"""A client that computes a whole number may be off by so much, as in Kafka."""

KEYS_OF_CLIENTS = tuple(kind.value for kind in QuotaKind)
KEYS = (*KEYS_OF_CLIENTS, CONNECTION_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlteration:
    """New limits of one entity by name; `None` removes a limit."""

    names: Sequence[tuple[str, str | None]]
    limits: Mapping[str, float | None]

    def apply(self, quotas: Quotas) -> tuple[QuotaEntity, Mapping[str, float]]:
        """Returns the entity and its new limits, which are empty if none is left; raises
        `ApiError`.
        """
        entity = self.entity()
        limits = dict(quotas.get(entity, {}))
        keys = (CONNECTION_RATE,) if entity[0][0] == IP else KEYS_OF_CLIENTS
        for key, value in self.limits.items():
            if key not in keys:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
            if value is None:
                limits.pop(key, None)
            else:
                _check_limit(key, value)
                limits[key] = value
        return entity, limits

    def entity(self) -> QuotaEntity:
        """Raises `ApiError` for an invalid entity."""
        names = dict(self.names)
        if not names:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
        if len(names) < len(self.names):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid client quota entity: a type twice")
        for kind, name in names.items():
            if kind not in ENTITY_TYPES:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}"
                )
            if name == "":
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
        if IP in names:
            _check_address(names)
        return quota_entity(names)


def _check_limit(key: str, value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    if key not in WHOLE_NUMBERS:
        return
    kind = WHOLE_NUMBERS[key]
    if value > LARGEST[kind]:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large for a {kind}"
        )
    if abs(value - round(value)) > ROUNDING:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {kind} value")


def _check_address(names: Mapping[str, str | None]) -> None:
    """Kafka also accepts host names, which each broker resolves."""
    if len(names) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid client quota entity: an ip stands alone, without user or client-id",
        )
    from ipaddress import ip_address

    try:
        ip_address(names[IP] or "0.0.0.0")
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{names[IP]} is not a valid IP") from error


class MatchType(IntEnum):
    """How a filter matches an entity's name, by Kafka's numbers."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One condition of a filter; `match_type` may be invalid, since clients send it."""

    entity_type: str
    match_type: int
    match: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilter:
    """All components must match; `is_strict`: the entity must have no other types."""

    components: Sequence[Component]
    is_strict: bool

    def check(self) -> None:
        """Raises `ApiError` for an invalid filter."""
        types: set[str] = set()
        for one in self.components:
            if not one.entity_type:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
            if one.entity_type in types:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "An entity type cannot appear more than once in the filter.",
                )
            types.add(one.entity_type)
            if one.entity_type not in ENTITY_TYPES:
                raise ApiError(
                    ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}."
                )
            if one.match_type not in tuple(MatchType):
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {one.match_type}.")
            if (one.match is None) is (one.match_type == MatchType.EXACT):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "A name belongs to an exact match, and to no other.",
                )
        if IP in types and len(types) > 1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Invalid entity filter component combination: ip goes with no other type.",
            )

    def select(self, quotas: Quotas) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
        """Yields the matching entities with their limits, in turns; the quotas do not change."""
        for entity, limits in in_turns(quotas.items()):
            names = dict(entity)
            if self.is_strict and len(names) != len(self.components):
                continue
            if all(_matches(one, names) for one in self.components):
                yield entity, limits


def _matches(component: Component, names: Mapping[str, str | None]) -> bool:
    if component.entity_type not in names:
        return False
    name = names[component.entity_type]
    match component.match_type:
        case MatchType.EXACT:
            return name == component.match
        case MatchType.DEFAULT:
            return name is None
    return True


def altered_quotas(
    quotas: Quotas, entries: Sequence[T], alteration_of: Callable[[T], QuotaAlteration]
) -> tuple[Quotas, list[ApiError | None]]:
    """Returns the new limits of entities, and the outcome of each entry: an error, or `None`."""
    of_entities: dict[QuotaEntity, Mapping[str, float]] = turn_dict()
    outcomes: list[ApiError | None] = turn_list()
    for entry in entries:
        try:
            entity, limits = alteration_of(entry).apply(quotas)
            of_entities[entity] = limits
            outcomes.append(None)
        except ApiError as error:
            outcomes.append(error.without_traceback())
    return of_entities, outcomes


def with_quotas(image: MetadataImage, changed: Quotas) -> Decision:
    """The image with other quotas of some entities, and the records that make it."""
    from ottla.metadata.image_changes import quota_records  # Lazy: as above.

    records = (
        record
        for entity, limits in changed.items()
        for record in quota_records(entity, image.quotas.get(entity, {}), limits)
    )
    return replace(image, quotas=merged(image.quotas, changed)), records
