"""Who is let in, and who is told of as lost."""

from ottla.broker.quotas.client_quotas import RATES_TO_KEEP
from ottla.config.broker import broker_config
from ottla.server.network.arrivals import (
    REMEMBERED_HOSTS,
    AdvertisedAddressHint,
    CreationRates,
    HostLimits,
    HostRates,
)

HERE, ELSEWHERE = ("10.0.0.1", 9092), ("broker.example", 9093)


def test_a_host_is_let_in_again_when_one_of_its_connections_has_gone() -> None:
    limits = HostLimits(broker_config({"max.connections.per.ip": "1"}))
    assert [limits.enter(host) for host in ("a", "a", "b")] == [True, False, True]
    limits.leave("a")
    assert limits.enter("a")


def test_nothing_is_kept_of_hosts_that_have_gone() -> None:
    limits = HostLimits(broker_config({}))
    for number in range(100):
        assert limits.enter(str(number))
        limits.leave(str(number))
    assert limits._counts == {}


def test_a_host_is_reported_once() -> None:
    lost = AdvertisedAddressHint()
    assert "broker.example:9093" in (lost.hint("h", HERE, ELSEWHERE) or "")
    assert lost.hint("h", HERE, ELSEWHERE) is None
    assert lost.hint("another", HERE, HERE) is not None, "behind a translated address"


def test_a_host_that_has_found_us_and_one_on_the_same_machine_are_not_lost() -> None:
    lost = AdvertisedAddressHint()
    lost.found_us("h")
    assert lost.hint("h", HERE, ELSEWHERE) is None
    assert lost.hint(HERE[0], HERE, HERE) is None


def test_only_so_many_hosts_are_remembered() -> None:
    lost = AdvertisedAddressHint()
    for number in range(2 * REMEMBERED_HOSTS):
        lost.found_us(str(number))
    assert len(lost._known_hosts) == REMEMBERED_HOSTS
    assert lost.hint("0", HERE, ELSEWHERE) is not None


def test_connections_that_come_too_fast_have_the_next_ones_wait() -> None:
    rates = CreationRates(broker_config({"max.connection.creation.rate": "2"}))
    # 2 per second over ten full windows: the 21st in a moment is one too many, for half a second.
    assert [rates.enter("PLAINTEXT", 0.0) for _ in range(20)] == [0.0] * 20
    assert rates.enter("PLAINTEXT", 0.0) == 500.0
    assert rates.enter("PLAINTEXT", 500.0) == 500.0
    assert rates.enter("PLAINTEXT", 12_000.0) == 0.0


def test_no_listener_waits_for_longer_than_a_window() -> None:
    rates = CreationRates(broker_config({"max.connection.creation.rate": "0"}))
    assert rates.enter("PLAINTEXT", 0.0) == 1000.0


def test_a_listener_may_have_a_rate_of_its_own() -> None:
    name = "listener.name.slow.max.connection.creation.rate"
    rates = CreationRates(broker_config({name: "1", "quota.window.num": "2"}))
    assert [rates.enter("SLOW", 0.0) for _ in range(2)] == [0.0, 1000.0]
    assert [rates.enter("QUICK", 0.0) for _ in range(20)] == [0.0] * 20


def test_who_came_before_a_limit_was_set_counts() -> None:
    rates = CreationRates(broker_config({}))
    for _ in range(30):
        assert rates.enter("PLAINTEXT", 0.0) == 0.0
    rates.follow(broker_config({"max.connection.creation.rate": "2"}))
    assert rates.enter("PLAINTEXT", 0.0) == 1000.0


def test_an_address_that_is_too_fast_is_refused_until_it_was_slow_enough() -> None:
    limits = {"a": 2.0}
    rates = HostRates(broker_config({}), limits.get)
    # 2 per second over ten full windows, as for a listener; what is refused does not count.
    assert [rates.enter("a", 0.0) for _ in range(20)] == [0.0] * 20
    assert [rates.enter("a", 0.0) for _ in range(3)] == [500.0] * 3
    assert rates.enter("a", 500.0) == 0.0
    assert [rates.enter("b", 0.0) for _ in range(40)] == [0.0] * 40
    limits["a"] = 0.0
    assert rates.enter("a", 60_000.0) == 1000.0
    del limits["a"]
    assert rates.enter("a", 60_000.0) == 0.0


def test_only_so_many_rates_of_addresses_are_kept() -> None:
    rates = HostRates(broker_config({}), lambda _: 1.0)
    for number in range(2 * RATES_TO_KEEP):
        rates.enter(str(number), 20_000.0 * (number // RATES_TO_KEEP))
    assert len(rates._rates) <= RATES_TO_KEEP
