"""Limits on connections, and a hint about clients that cannot reach the advertised address.

Kafka's counterpart: `ConnectionQuotas`; the hint has none.
"""

from collections.abc import Callable
from functools import partial
from math import inf

from ottla.broker.quotas.client_quotas import Rates, WindowedRate
from ottla.config.broker import BrokerConfig
from ottla.config.connections import connection_overrides
from ottla.config.setting import INT32_MAX
from ottla.protocol.api_keys import ApiKey

CREATION_RATE = "max.connection.creation.rate"

FIRST_STEPS = frozenset({ApiKey.API_VERSIONS, ApiKey.METADATA})
"""Requests that a client sends to a bootstrap address, before it connects to the address in
Metadata.
"""

REMEMBERED_HOSTS = 1024
"""Hosts that reached the broker, or for which a hint was logged."""


class HostLimits:
    """Counts connections by host, and checks their maximum."""

    def __init__(self, config: BrokerConfig) -> None:
        self._counts: dict[str, int] = {}
        self.follow(config)

    def follow(self, config: BrokerConfig) -> None:
        """Applies limits that a client has changed; open connections stay, as in Kafka."""
        self._limit = config.max_connections_per_ip
        self._limits = connection_overrides(config.max_connections_per_ip_overrides)

    def limit_of(self, host: str) -> int:
        return self._limits.get(host, self._limit)

    def enter(self, host: str) -> bool:
        """Counts a connection; returns `False`, without counting it, if the maximum is reached."""
        count = self._counts.get(host, 0)
        if count >= self.limit_of(host):
            return False
        self._counts[host] = count + 1
        return True

    def leave(self, host: str) -> None:
        left = self._counts[host] - 1
        if left:
            self._counts[host] = left
        else:
            del self._counts[host]


class CreationRates:
    """How fast connections come, to all listeners together and to each (KIP-612).

    In Kafka the connection that comes too soon waits, with those after it; here it is served, and
    those after it wait.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._window_size_ms = config.quota_window_size_seconds * 1000
        self._new_rate = partial(WindowedRate, config.quota_window_num, self._window_size_ms)
        self._rate = self._new_rate()
        self._rates: dict[str, WindowedRate] = {}
        self.follow(config)

    def follow(self, config: BrokerConfig) -> None:
        """Applies limits that a client has changed; earlier connections still count."""
        self._config = config
        self._limits: dict[str, int] = {}

    def _limit_of(self, listener: str) -> int:
        """The limit of one listener; without one only the limit of all together applies."""
        limit = self._limits.get(listener)
        if limit is None:
            text = self._config.given_to(listener).get(CREATION_RATE)
            limit = self._limits[listener] = INT32_MAX if text is None else int(text)
        return limit

    def enter(self, listener: str, now_ms: float) -> float:
        """Counts a connection; returns for how many milliseconds the listener must not accept
        another.
        """
        rate = self._rates.get(listener)
        if rate is None:
            rate = self._rates[listener] = self._new_rate()
        config = self._config
        wait_ms = max(
            _record(self._rate, config.max_connection_creation_rate, now_ms),
            _record(rate, self._limit_of(listener), now_ms),
        )
        return min(wait_ms, float(self._window_size_ms))


class HostRates:
    """How fast connections come from each address that has a quota; others are not measured.

    Kafka's counterpart: `ConnectionQuotas.recordIpConnectionMaybeThrottle` (KIP-612).
    """

    def __init__(self, config: BrokerConfig, limit_of: Callable[[str], float | None]) -> None:
        self._window_size_ms = config.quota_window_size_seconds * 1000
        self._limit_of = limit_of
        self._rates: Rates[str] = Rates(config.quota_window_num, self._window_size_ms)

    def enter(self, host: str, now_ms: float) -> float:
        """Counts a connection, unless it comes too soon: then returns for how many ms to keep
        it.
        """
        limit = self._limit_of(host)
        if limit is None:
            return 0.0
        rate = self._rates.of(host, now_ms)
        wait_ms = _record(rate, limit, now_ms)
        if wait_ms > 0:
            rate.record(-1, now_ms)
        return min(wait_ms, float(self._window_size_ms))


class AdvertisedAddressHint:
    """Distinguishes clients that reach the broker from clients sent to a wrong advertised address.

    A host is remembered once a client on it went beyond the first requests, or a hint was logged.
    """

    def __init__(self) -> None:
        self._known_hosts: dict[str, None] = {}

    def found_us(self, host: str) -> None:
        """A client on that host has reached the advertised address."""
        self._known_hosts.pop(host, None)
        self._known_hosts[host] = None
        if len(self._known_hosts) > REMEMBERED_HOSTS:
            del self._known_hosts[next(iter(self._known_hosts))]

    def hint(self, host: str, came_to: tuple[str, int], sent_to: tuple[str, int]) -> str | None:
        """The hint to log when a client went away after Metadata, once for each host.

        A client that came from the same machine to the address it was sent to is not lost.
        """
        if host in self._known_hosts or (came_to == sent_to and host == came_to[0]):
            return None
        self.found_us(host)
        return (
            f"a client on {host} asked for Metadata, was sent to {sent_to[0]}:{sent_to[1]}, and "
            "left without another request. If it cannot reach that address, set "
            f"advertised.listeners=PLAINTEXT://HOST:{sent_to[1]} with a HOST that it can reach"
        )


def _record(rate: WindowedRate, limit: float, now_ms: float) -> float:
    """Records a connection; returns for how many milliseconds it is too soon."""
    rate.record(1, now_ms)
    excess = rate.per_second(now_ms) - limit
    if excess <= 0:
        return 0.0
    return round(excess / limit * rate.measured_ms(now_ms)) if limit else inf
