"""Measures how fast clients produce, fetch and use the broker's time, and computes throttle times.

A machine without a clock: the caller passes in activity with its time, and gets how long to mute
the client's connection. The rate is measured over `quota.window.num` windows of
`quota.window.size.seconds`, including the current one. Kafka's counterparts: `ClientQuotaManager`,
`ClientRequestQuotaManager`, `Rate`, `SampledStat` (KIP-13, KIP-124, KIP-219, KIP-546).
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from typing import Final, Generic, TypeVar

from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX
from ottla.metadata.quotas import QuotaEntity, Quotas

USER, CLIENT_ID, IP = "user", "client-id", "ip"

CONNECTION_RATE = "connection_creation_rate"
"""The limit of an address: how many connections it may create per second (KIP-612)."""

ANONYMOUS = "ANONYMOUS"
"""The principal of clients that have not authenticated (`KafkaPrincipal.ANONYMOUS`)."""

RATES_TO_KEEP: Final = 4096
"""Above this number of rates, rates without recent activity are removed."""

MAX_RATES: Final = 16 * RATES_TO_KEEP
"""The maximum: above it the least recently used rate is removed, even if it is active."""

MAX_LIMITS: Final = 16_384
"""The size of the cache of limits by client; a full cache is cleared."""

MAX_CLIENT_ID_SIZE: Final = 256
"""Longer ids are truncated: clients choose them, and they stay in memory."""

Key = TypeVar("Key", bound=Hashable)


class QuotaKind(Enum):
    """The kind of a limit; the value is Kafka's name of it."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    """In percent of one thread's time: 200 is all the time of two threads."""


class WindowedRate:
    """The amount per second over the last windows."""

    __slots__ = ("_count", "_size_ms", "_windows")

    def __init__(self, count: int, size_ms: int) -> None:
        self._count = count
        self._size_ms = size_ms
        self._windows: deque[list[float]] = deque()  # the start of each, and its amount

    def record(self, amount: float, now_ms: float) -> None:
        self._forget_old(now_ms)
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self._size_ms:
            windows[-1][1] += amount
        else:
            windows.append([now_ms, amount])

    def measured_ms(self, now_ms: float) -> float:
        """The duration that the rate is computed over: as if all past windows were complete."""
        self._forget_old(now_ms)
        elapsed_ms = now_ms - self._windows[0][0] if self._windows else 0.0
        missing = self._count - 1 - int(elapsed_ms // self._size_ms)
        return max(elapsed_ms + max(missing, 0) * self._size_ms, 1.0)

    def per_second(self, now_ms: float) -> float:
        measured_ms = self.measured_ms(now_ms)
        return sum(amount for _, amount in self._windows) * 1000.0 / measured_ms

    def is_at_rest(self, now_ms: float) -> bool:
        self._forget_old(now_ms)
        return not self._windows

    def _forget_old(self, now_ms: float) -> None:
        oldest_ms = now_ms - self._count * self._size_ms
        windows = self._windows
        while windows and windows[0][0] <= oldest_ms:
            windows.popleft()


class Rates(Generic[Key]):
    """Rates by client or entity. Clients choose the names, so the number of rates is bounded."""

    def __init__(self, window_count: int, window_size_ms: int) -> None:
        self._window_count = window_count
        self._window_size_ms = window_size_ms
        self._rates: OrderedDict[Key, WindowedRate] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rates)

    def of(self, key: Key, now_ms: float) -> WindowedRate:
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= RATES_TO_KEEP:
                self._forget_some(now_ms)
            rate = self._rates[key] = WindowedRate(self._window_count, self._window_size_ms)
        else:
            self._rates.move_to_end(key)
        return rate

    def items(self) -> list[tuple[Key, WindowedRate]]:
        return list(self._rates.items())

    def _forget_some(self, now_ms: float) -> None:
        """Checks two rates for each new one: a check of all would block other clients."""
        for _ in range(2):
            key, rate = self._rates.popitem(last=False)
            if not rate.is_at_rest(now_ms) and len(self._rates) < MAX_RATES - 1:
                self._rates[key] = rate


@dataclass(frozen=True, slots=True)
class Limit:
    """A client's limit, and the entity whose rate it applies to: several clients may share it."""

    per_second: float
    entity: QuotaEntity


class ClientQuotas:
    """All quotas, and the rates of the clients that have one.

    If not `is_active`, there are no quotas, and no other method need be called.
    """

    def __init__(self, window_count: int, window_size_ms: int) -> None:
        self._window_count = window_count
        self._window_size_ms = window_size_ms
        self._quotas: Quotas = {}
        self.is_active = False
        self._limits: dict[tuple[QuotaKind, tuple[str, str]], Limit | None] = {}
        self._rates: Rates[tuple[QuotaKind, QuotaEntity]] = Rates(window_count, window_size_ms)

    def change(self, quotas: Quotas) -> None:
        """Applies other quotas; recorded activity still counts."""
        self._quotas = quotas
        self.is_active = bool(quotas)
        self._limits.clear()

    def produced(self, client_id: str, size: int, now_ms: float, user: str = ANONYMOUS) -> int:
        """Records produced bytes; returns how long to throttle the client, in milliseconds."""
        return self._record(QuotaKind.PRODUCE, (user, client_id), size, now_ms)

    def fetched(self, client_id: str, size: int, now_ms: float, user: str = ANONYMOUS) -> int:
        """Records fetched bytes, as `produced`."""
        return self._record(QuotaKind.FETCH, (user, client_id), size, now_ms)

    def fetch_pause_ms(self, client_id: str, now_ms: float, user: str = ANONYMOUS) -> int:
        """Returns how long a client is still throttled for its earlier fetches.

        The connection of those fetches is muted for that long; this is for the client's other
        connections.
        """
        limit = self._limit(QuotaKind.FETCH, (user, client_id))
        if limit is None:
            return 0
        return _pause_ms(self._rates.of((QuotaKind.FETCH, limit.entity), now_ms), limit, now_ms)

    def kept_busy(
        self, client_id: str, busy_ms: float, now_ms: float, user: str = ANONYMOUS
    ) -> int:
        """As `produced`, for the time that a request took; at most one window."""
        throttle_ms = self._record(QuotaKind.REQUEST, (user, client_id), busy_ms / 10, now_ms)
        return min(throttle_ms, self._window_size_ms)

    def rates(self, now_ms: float) -> Iterator[tuple[QuotaKind, QuotaEntity, float]]:
        """Yields the current rate per second of each client under a quota."""
        for (kind, entity), rate in self._rates.items():
            yield kind, entity, rate.per_second(now_ms)

    def connection_rate_of(self, host: str) -> float | None:
        """Returns how many connections an address may create per second; `None` without a limit."""
        limits = self._quotas.get(((IP, host),)) or self._quotas.get(((IP, None),)) or {}
        return limits.get(CONNECTION_RATE)

    def max_fetch_size(self, client_id: str, user: str = ANONYMOUS) -> int | None:
        """Returns the largest size of one fetch: what the quota allows in all complete windows.

        A larger response would always exceed the quota (`getMaxValueInQuotaWindow`).
        """
        limit = self._limit(QuotaKind.FETCH, (user, client_id))
        if limit is None:
            return None
        return int(limit.per_second * max(self._window_count - 1, 1) * self._window_size_ms / 1000)

    def _record(
        self, kind: QuotaKind, client: tuple[str, str], amount: float, now_ms: float
    ) -> int:
        limit = self._limit(kind, client)
        if limit is None:
            return 0
        rate = self._rates.of((kind, limit.entity), now_ms)
        rate.record(amount, now_ms)
        return _pause_ms(rate, limit, now_ms)

    def _limit(self, kind: QuotaKind, client: tuple[str, str]) -> Limit | None:
        """Returns the limit of `client`, the user and the client id."""
        user, client_id = client
        key = (kind, (user, client_id[:MAX_CLIENT_ID_SIZE]))
        if key not in self._limits:
            if len(self._limits) >= MAX_LIMITS:
                self._limits.clear()
            self._limits[key] = find_limit(self._quotas, kind, *key[1])
        return self._limits[key]


def _pause_ms(rate: WindowedRate, limit: Limit, now_ms: float) -> int:
    """Returns after which time the rate is within the limit; at most the INT32 of a response."""
    excess = rate.per_second(now_ms) - limit.per_second
    if excess <= 0:
        return 0
    return min(round(excess / limit.per_second * rate.measured_ms(now_ms)), INT32_MAX)


def find_limit(quotas: Quotas, kind: QuotaKind, user: str, client_id: str) -> Limit | None:
    """Returns the most specific quota for a client."""
    return next((limit for _, limit in applying(quotas, kind, user, client_id)), None)


def applying(
    quotas: Quotas, kind: QuotaKind, user: str, client_id: str
) -> Iterator[tuple[QuotaEntity, Limit]]:
    """Yields the quotas for a client, each with its limit; the first one is enforced."""
    for entity, shared_by in precedence(user, client_id):
        limits: Mapping[str, float] = quotas.get(entity, {})
        if kind.value in limits:
            yield entity, Limit(limits[kind.value], shared_by)


def precedence(user: str, client_id: str) -> tuple[tuple[QuotaEntity, QuotaEntity], ...]:
    """The quotas that a client may be under, the most specific first, each with who shares it.

    A user takes precedence over a client id, a name over the default. Clients share a user's quota;
    under a quota of a user and a client id, or of a client id, each has its own rate.
    """
    by_both: QuotaEntity = ((CLIENT_ID, client_id), (USER, user))
    by_user: QuotaEntity = ((USER, user),)
    by_client: QuotaEntity = ((CLIENT_ID, client_id),)
    return (
        (by_both, by_both),
        (((CLIENT_ID, None), (USER, user)), by_both),
        (by_user, by_user),
        (((CLIENT_ID, client_id), (USER, None)), by_both),
        (((CLIENT_ID, None), (USER, None)), by_both),
        (((USER, None),), by_user),
        (by_client, by_client),
        (((CLIENT_ID, None),), by_client),
    )
