"""Who is let in, and who is told of as lost."""

from ottla.config.broker import broker_config
from ottla.server.arrivals import REMEMBERED_HOSTS, AdvertisedAddressHint, HostLimits

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


def test_a_host_is_told_of_once() -> None:
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
