"""Quotas: whose counts, what rate is measured, and how long who exceeds it is held back."""

import pytest

from ottla.broker.quotas.client_quotas import (
    ANONYMOUS,
    MAX_CLIENT_ID_SIZE,
    RATES_TO_KEEP,
    ClientQuotas,
    Limit,
    QuotaKind,
    WindowedRate,
    find_limit,
)
from ottla.metadata.quotas import QuotaEntity, quota_entity

BY_CLIENT = quota_entity({"client-id": "c"})
ANY_CLIENT = quota_entity({"client-id": None})
BY_USER = quota_entity({"user": ANONYMOUS})
ANY_USER = quota_entity({"user": None})
PRODUCE = QuotaKind.PRODUCE


def both(user: str | None, client_id: str | None) -> QuotaEntity:
    return quota_entity({"user": user, "client-id": client_id})


def quotas(entity: QuotaEntity = ANY_CLIENT, **limits: float) -> ClientQuotas:
    machine = ClientQuotas(11, 1000)
    machine.change({entity: limits})
    return machine


# The rate


def test_each_user_has_a_limit_of_its_own() -> None:
    machine = ClientQuotas(11, 1000)
    machine.change({(("user", "ana"),): {"producer_byte_rate": 1000.0}})
    assert machine.produced("c", 11_000, 0.0, "ana") > 0
    assert machine.produced("c", 11_000, 0.0, "bob") == 0
    assert machine.produced("other", 1, 0.0, "ana") > 0
    assert machine.max_fetch_size("c", "ana") is None


def test_a_rate_is_over_all_windows_even_if_the_first_was_just_begun() -> None:
    rate = WindowedRate(11, 1000)
    rate.record(500, 0.0)
    assert rate.measured_ms(0.0) == 10_000
    assert rate.per_second(0.0) == 50
    assert rate.measured_ms(2500.0) == 10_500
    assert rate.measured_ms(10_900.0) == 10_900


def test_windows_that_are_over_are_forgotten() -> None:
    rate = WindowedRate(3, 1000)
    for time_ms in (0.0, 1000.0, 2000.0):
        rate.record(100, time_ms)
    assert rate.per_second(2500.0) == pytest.approx(300 / 2.5)
    assert rate.per_second(3000.0) == pytest.approx(200 / 2.0)
    assert not rate.is_at_rest(4999.0)
    assert rate.is_at_rest(5000.0)
    assert rate.per_second(9000.0) == 0


def test_a_single_window_that_has_just_begun_measures_a_millisecond() -> None:
    rate = WindowedRate(1, 1000)
    rate.record(1, 0.0)
    assert rate.measured_ms(0.0) == 1


# Whose quota counts

IN_ORDER = [
    both(ANONYMOUS, "c"),
    both(ANONYMOUS, None),
    BY_USER,
    both(None, "c"),
    both(None, None),
    ANY_USER,
    BY_CLIENT,
    ANY_CLIENT,
]
SHARED_BY = [both(ANONYMOUS, "c")] * 2 + [BY_USER] + [both(ANONYMOUS, "c")] * 2
SHARED_BY += [BY_USER, BY_CLIENT, BY_CLIENT]


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_quota_that_names_a_client_most_closely_counts(first: int) -> None:
    limits = {entity: {PRODUCE.value: float(n)} for n, entity in enumerate(IN_ORDER)}
    known = {entity: limits[entity] for entity in IN_ORDER[first:]}
    found = find_limit(known, PRODUCE, ANONYMOUS, "c")
    assert found == Limit(float(first), SHARED_BY[first])


def test_a_quota_of_something_else_does_not_hide_the_next() -> None:
    known = {BY_USER: {"request_percentage": 1.0}, ANY_CLIENT: {PRODUCE.value: 2.0}}
    assert find_limit(known, PRODUCE, ANONYMOUS, "c") == Limit(2.0, BY_CLIENT)
    assert find_limit(known, QuotaKind.FETCH, ANONYMOUS, "c") is None
    assert find_limit(known, PRODUCE, ANONYMOUS, "d") == Limit(
        2.0, quota_entity({"client-id": "d"})
    )


def test_a_quota_of_another_is_none_of_ours() -> None:
    known = {quota_entity({"user": "alice"}): {PRODUCE.value: 1.0}}
    assert find_limit(known, PRODUCE, ANONYMOUS, "c") is None


# Holding back


def test_without_quotas_nobody_is_held_back_and_nothing_is_kept() -> None:
    machine = ClientQuotas(11, 1000)
    assert not machine.is_active
    assert machine.produced("c", 1 << 40, 0.0) == 0
    assert machine.max_fetch_size("c") is None


def test_a_client_is_held_back_until_its_rate_is_what_it_may_be() -> None:
    machine = quotas(producer_byte_rate=1000.0)
    assert machine.is_active
    assert machine.produced("c", 10_000, 0.0) == 0
    assert machine.produced("c", 5000, 0.0) == 5000
    assert machine.produced("other", 10_000, 0.0) == 0
    assert machine.produced("c", 0, 9000.0) == 5000
    assert machine.produced("c", 0, 11_000.0) == 0


def test_clients_of_one_user_share_its_quota() -> None:
    machine = quotas(BY_USER, producer_byte_rate=1000.0)
    assert machine.produced("a", 10_000, 0.0) == 0
    assert machine.produced("b", 1000, 0.0) == 1000


def test_producing_fetching_and_keeping_busy_are_measured_apart() -> None:
    machine = quotas(producer_byte_rate=1000.0, consumer_byte_rate=2000.0, request_percentage=50.0)
    assert machine.produced("c", 10_000, 0.0) == 0
    assert machine.fetched("c", 20_000, 0.0) == 0
    assert machine.kept_busy("c", 5000.0, 0.0) == 0
    assert machine.fetched("c", 2000, 0.0) == 1000
    assert machine.kept_busy("c", 100.0, 0.0) == 200


def test_a_busy_client_is_held_back_for_a_window_at_most() -> None:
    assert quotas(request_percentage=1.0).kept_busy("c", 10_000.0, 0.0) == 1000


def test_a_fetch_brings_at_most_what_the_quota_allows_in_all_whole_windows() -> None:
    assert quotas(consumer_byte_rate=1000.0).max_fetch_size("c") == 10_000
    assert quotas(producer_byte_rate=1000.0).max_fetch_size("c") is None


def test_a_new_quota_counts_what_came_before_it() -> None:
    machine = quotas(producer_byte_rate=1000.0)
    machine.produced("c", 10_000, 0.0)
    machine.change({ANY_CLIENT: {"producer_byte_rate": 500.0}})
    assert machine.produced("c", 0, 0.0) == 10_000
    machine.change({})
    assert not machine.is_active
    assert machine.produced("c", 10_000, 0.0) == 0


def test_rates_that_have_come_to_rest_are_forgotten() -> None:
    machine = quotas(producer_byte_rate=1.0)
    for number in range(RATES_TO_KEEP):
        machine.produced(f"old {number}", 1, 0.0)
    assert machine.produced("busy", 100, 11_000.0) > 0
    assert machine.produced("busy", 0, 11_000.0) > 0
    assert machine.produced("old 1", 1, 11_000.0) == 0


@pytest.mark.slow
def test_ten_thousand_users_at_work_cost_each_newcomer_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look at all rates for each newcomer would cost the square of their number."""
    machine, looks = quotas(ANY_USER, producer_byte_rate=1000.0), 0

    def at_work(rate: WindowedRate, now_ms: float) -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(WindowedRate, "is_at_rest", at_work)
    for number in range(10_000):
        machine.produced("c", 11_000, 0.0, f"user {number}")
    assert looks <= 20_000
    assert machine.produced("c", 1, 0.0, "user 0") > 0, "who is at work is not forgotten"


def test_no_more_than_so_many_rates_and_limits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("RATES_TO_KEEP", 10), ("MAX_RATES", 40), ("MAX_LIMITS", 20)):
        monkeypatch.setattr(f"ottla.broker.quotas.client_quotas.{name}", most)
    limited, unlimited = quotas(producer_byte_rate=1000.0), quotas(BY_USER, request_percentage=1.0)
    for number in range(100):
        limited.produced(f"client {number}", 1, 0.0)
        unlimited.produced(f"client {number}", 1, 0.0)
    assert len(limited._rates) == 40
    assert len(limited._limits) <= 20
    assert len(unlimited._limits) <= 20, "of those who have no limit, too"


def test_a_client_id_of_any_length_costs_as_much_as_a_short_one() -> None:
    machine = quotas(producer_byte_rate=1000.0)
    for end in ("a", "b"):
        machine.produced("x" * 30_000 + end, 8000, 0.0)
    ((_, entity, per_second),) = machine.rates(0.0)
    assert dict(entity) == {"client-id": "x" * MAX_CLIENT_ID_SIZE}
    assert per_second == 1600


def rate_of_an_eager_client(size: int, pause_ms: float) -> float:
    """Bytes per second, over ten minutes, of a client that sends as soon as it may."""
    machine = quotas(producer_byte_rate=1000.0)
    now_ms, total = 0.0, 0
    while now_ms < 600_000:
        total += size
        now_ms += pause_ms + machine.produced("c", size, now_ms)
    return total * 1000 / now_ms


@pytest.mark.parametrize("size", [100, 1000, 5000])
@pytest.mark.parametrize("pause_ms", [1.0, 10.0])
def test_who_waits_as_asked_comes_to_the_rate_of_its_quota(size: int, pause_ms: float) -> None:
    assert rate_of_an_eager_client(size, pause_ms) == pytest.approx(1000, rel=0.02)


@pytest.mark.parametrize("size", [11_000, 30_000, 100_000])
def test_requests_beyond_all_windows_are_held_back_too(size: int) -> None:
    """Windows that are over are forgotten, as in Kafka, and with them some of the excess."""
    assert rate_of_an_eager_client(size, 1.0) < 2000


def test_who_sends_less_than_its_quota_is_never_held_back() -> None:
    machine = quotas(producer_byte_rate=1000.0)
    assert not any(machine.produced("c", 100, 200.0 * number) for number in range(1000))
