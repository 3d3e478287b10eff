"""Changing quotas and asking for them."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.quotas.quota_changes import (
    Component,
    MatchType,
    QuotaAlteration,
    QuotaFilter,
)
from ottla.metadata.image import merged
from ottla.metadata.quotas import QuotaEntity, Quotas, quota_entity

ALICE = quota_entity({"user": "alice"})
ANYBODY = quota_entity({"user": None})
BOTH = quota_entity({"user": "alice", "client-id": "c"})
CLIENT = quota_entity({"client-id": "c"})
ADDRESS = quota_entity({"ip": "1.2.3.4"})
LIMITS = {"producer_byte_rate": 1.0}
QUOTAS = dict.fromkeys((ALICE, ANYBODY, BOTH, CLIENT), LIMITS)


def alteration(names: QuotaEntity, **limits: float | None) -> QuotaAlteration:
    return QuotaAlteration(names=names, limits=limits)


def after(quotas: Quotas, wanted: QuotaAlteration) -> Quotas:
    return merged(quotas, dict([wanted.apply(quotas)]))


def test_limits_are_set_and_taken_away_one_by_one() -> None:
    quotas = after({}, alteration(ALICE, producer_byte_rate=5.0, request_percentage=0.5))
    assert quotas == {ALICE: {"producer_byte_rate": 5.0, "request_percentage": 0.5}}
    quotas = after(quotas, alteration(ALICE, producer_byte_rate=None, consumer_byte_rate=None))
    assert quotas == {ALICE: {"request_percentage": 0.5}}
    assert after(quotas, alteration(ALICE, request_percentage=None)) == {}


@pytest.mark.parametrize("names", [ADDRESS, quota_entity({"ip": None})])
def test_an_address_and_all_others_have_a_rate_of_connections(names: QuotaEntity) -> None:
    limits = {"connection_creation_rate": 5.0}
    assert after({}, alteration(names, **limits)) == {names: limits}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (alteration((), producer_byte_rate=1.0), "Invalid empty client quota entity"),
        (alteration((("user", ""),), producer_byte_rate=1.0), "Empty user not supported"),
        (alteration((("user", "a"), ("user", "b")), producer_byte_rate=1.0), "a type twice"),
        (alteration((("port", "1"),), producer_byte_rate=1.0), "Unhandled .* type: port"),
        (alteration(ADDRESS, producer_byte_rate=1.0), "Invalid configuration key producer"),
        (alteration(ALICE, connection_creation_rate=1.0), "Invalid configuration key connection"),
        (alteration(ADDRESS, connection_creation_rate=1.5), "must be a Integer value"),
        (alteration((("ip", "nowhere"),), connection_creation_rate=1.0), "not a valid IP"),
        (alteration((*ADDRESS, *ALICE), connection_creation_rate=1.0), "an ip stands alone"),
        (alteration(ALICE, no_such=1.0), "Invalid configuration key no_such"),
        (alteration(ALICE, no_such=None), "Invalid configuration key no_such"),
        (alteration(ALICE, producer_byte_rate=0.0), "must be greater than 0"),
        (alteration(ALICE, request_percentage=-1.0), "must be greater than 0"),
        (alteration(ALICE, request_percentage=float("nan")), "must be greater than 0"),
        (alteration(ALICE, consumer_byte_rate=1.5), "must be a Long value"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(wanted: QuotaAlteration, told: str) -> None:
    with pytest.raises(ApiError, match=told) as caught:
        wanted.apply(QUOTAS)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def component(kind: str, match_type: int, match: str | None = None) -> Component:
    return Component(entity_type=kind, match_type=match_type, match=match)


EXACT, DEFAULT, SPECIFIED = MatchType


@pytest.mark.parametrize(
    ("components", "is_strict", "expected"),
    [
        ([], False, [ALICE, ANYBODY, BOTH, CLIENT]),
        ([], True, []),
        ([component("user", EXACT, "alice")], False, [ALICE, BOTH]),
        ([component("user", EXACT, "alice")], True, [ALICE]),
        ([component("user", DEFAULT)], False, [ANYBODY]),
        ([component("user", SPECIFIED)], False, [ALICE, ANYBODY, BOTH]),
        ([component("user", SPECIFIED), component("client-id", EXACT, "c")], True, [BOTH]),
        ([component("client-id", EXACT, "d")], False, []),
    ],
)
def test_a_filter_selects_entities(
    components: list[Component], is_strict: bool, expected: list[QuotaEntity]
) -> None:
    wanted = QuotaFilter(components=components, is_strict=is_strict)
    wanted.check()
    assert [entity for entity, _ in wanted.select(QUOTAS)] == expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([component("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([component("user", SPECIFIED)] * 2, ErrorCode.INVALID_REQUEST),
        ([component("port", SPECIFIED)], ErrorCode.UNSUPPORTED_VERSION),
        ([component("ip", SPECIFIED), component("user", SPECIFIED)], ErrorCode.INVALID_REQUEST),
        ([component("user", 7)], ErrorCode.INVALID_REQUEST),
        ([component("user", EXACT)], ErrorCode.INVALID_REQUEST),
        ([component("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([component("user", SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    components: list[Component], code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as caught:
        QuotaFilter(components=components, is_strict=False).check()
    assert caught.value.code is code
