"""Measures how fast clients produce, fetch and keep the broker busy, and how long to throttle them.

A machine without a clock: what a client did is passed in with the time, and the result is how long
to mute its connection. The rate is measured over `quota.window.num` windows of
`quota.window.size.seconds`, including the current one. Kafka's counterparts: `ClientQuotaManager`,
`ClientRequestQuotaManager`, `Rate`, `SampledStat` (KIP-13, KIP-124, KIP-219, KIP-546).
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from typing import Final, Generic, TypeVar

from ottla.base.values import dataclass
from ottla.broker.configs.cluster_file import QuotaEntity, Quotas
from ottla.config.setting import INT32_MAX

USER, CLIENT_ID, IP = "user", "client-id", "ip"

CONNECTION_RATE = "connection_creation_rate"
"""The one limit of an address: how many connections it may make in a second (KIP-612)."""

ANONYMOUS = "ANONYMOUS"
"""The principal of clients that have not authenticated (`KafkaPrincipal.ANONYMOUS`)."""

RATES_TO_KEEP: Final = 4096
"""From so many measured rates on, those that have come to rest are forgotten."""

MAX_RATES: Final = 16 * RATES_TO_KEEP
"""There are no more: then the one that was looked at longest ago goes, though it is at work."""

MAX_LIMITS: Final = 16_384
"""Limits that are kept once they are found; beyond, all are forgotten and found again."""

MAX_CLIENT_ID_SIZE: Final = 256
"""Longer ids count as their beginning: clients choose them, and they are kept."""

Key = TypeVar("Key", bound=Hashable)


class QuotaKind(Enum):
    """What is limited; the value is Kafka's name of the limit."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    """Of one thread's time: 200 is all the time of two."""


class WindowedRate:
    """How much per second, over the last windows."""

    __slots__ = ("_count", "_size_ms", "_windows")

    def __init__(self, count: int, size_ms: int) -> None:
        self._count = count
        self._size_ms = size_ms
        self._windows: deque[list[float]] = deque()  # when each began, and how much came in it

    def record(self, amount: float, now_ms: float) -> None:
        self._forget_old(now_ms)
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self._size_ms:
            windows[-1][1] += amount
        else:
            windows.append([now_ms, amount])

    def measured_ms(self, now_ms: float) -> float:
        """The time that the rate is over: as if all windows but the running one were full."""
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
    """Rates by whom they are of. Names are the clients' choice, so they are bounded in number."""

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
        """Checks two for each new one: checking all would block other clients."""
        for _ in range(2):
            key, rate = self._rates.popitem(last=False)
            if not rate.is_at_rest(now_ms) and len(self._rates) < MAX_RATES - 1:
                self._rates[key] = rate


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that a client is under, and with whom it shares the rate that is measured."""

    per_second: float
    entity: QuotaEntity


class ClientQuotas:
    """All quotas, and the rates of the clients that are under one.

    Unless it `is_active` there is no quota at all, and the machine needs no calls.
    """

    def __init__(self, window_count: int, window_size_ms: int) -> None:
        self._window_count = window_count
        self._window_size_ms = window_size_ms
        self._quotas: Quotas = {}
        self.is_active = False
        self._limits: dict[tuple[QuotaKind, tuple[str, str]], Limit | None] = {}
        self._rates: Rates[tuple[QuotaKind, QuotaEntity]] = Rates(window_count, window_size_ms)

    def change(self, quotas: Quotas) -> None:
        """Applies other quotas; earlier activity still counts."""
        self._quotas = quotas
        self.is_active = bool(quotas)
        self._limits.clear()

    def produced(self, client_id: str, size: int, now_ms: float, user: str = ANONYMOUS) -> int:
        """Records bytes; returns for how many milliseconds to throttle the client."""
        return self._record(QuotaKind.PRODUCE, (user, client_id), size, now_ms)

    def fetched(self, client_id: str, size: int, now_ms: float, user: str = ANONYMOUS) -> int:
        """As `produced`."""
        return self._record(QuotaKind.FETCH, (user, client_id), size, now_ms)

    def fetch_pause_ms(self, client_id: str, now_ms: float, user: str = ANONYMOUS) -> int:
        """How long a client is still throttled for what it has fetched before.

        One connection waits for that long; this is for the client's other connections.
        """
        limit = self._limit(QuotaKind.FETCH, (user, client_id))
        if limit is None:
            return 0
        return _pause_ms(self._rates.of((QuotaKind.FETCH, limit.entity), now_ms), limit, now_ms)

    def kept_busy(
        self, client_id: str, busy_ms: float, now_ms: float, user: str = ANONYMOUS
    ) -> int:
        """As `produced`, for the time that a request took; never more than a window."""
        throttle_ms = self._record(QuotaKind.REQUEST, (user, client_id), busy_ms / 10, now_ms)
        return min(throttle_ms, self._window_size_ms)

    def rates(self, now_ms: float) -> Iterator[tuple[QuotaKind, QuotaEntity, float]]:
        """How much per second each client under a quota does now; others may come meanwhile."""
        for (kind, entity), rate in self._rates.items():
            yield kind, entity, rate.per_second(now_ms)

    def connection_rate_of(self, host: str) -> float | None:
        """How many connections an address may make in a second; `None`: any number."""
        limits = self._quotas.get(((IP, host),)) or self._quotas.get(((IP, None),)) or {}
        return limits.get(CONNECTION_RATE)

    def max_fetch_size(self, client_id: str, user: str = ANONYMOUS) -> int | None:
        """The most that one fetch may bring: what the quota allows in all whole windows.

        A larger answer could never be within the quota (`getMaxValueInQuotaWindow`).
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
        """`client`: the user and the client id."""
        user, client_id = client
        key = (kind, (user, client_id[:MAX_CLIENT_ID_SIZE]))
        if key not in self._limits:
            if len(self._limits) >= MAX_LIMITS:
                self._limits.clear()
            self._limits[key] = find_limit(self._quotas, kind, *key[1])
        return self._limits[key]


def _pause_ms(rate: WindowedRate, limit: Limit, now_ms: float) -> int:
    """After which time the rate is what it may be; an answer has 32 bits for it."""
    excess = rate.per_second(now_ms) - limit.per_second
    if excess <= 0:
        return 0
    return min(round(excess / limit.per_second * rate.measured_ms(now_ms)), INT32_MAX)


def find_limit(quotas: Quotas, kind: QuotaKind, user: str, client_id: str) -> Limit | None:
    """The quota that applies to a client: the most specific one.

    A user takes precedence over a client id, a name over the default. Clients under the same quota
    of a user share it; under one of a user and a client id, or of a client id, each has its own.
    """
    by_both: QuotaEntity = ((CLIENT_ID, client_id), (USER, user))
    by_user: QuotaEntity = ((USER, user),)
    by_client: QuotaEntity = ((CLIENT_ID, client_id),)
    order: tuple[tuple[QuotaEntity, QuotaEntity], ...] = (
        (by_both, by_both),
        (((CLIENT_ID, None), (USER, user)), by_both),
        (by_user, by_user),
        (((CLIENT_ID, client_id), (USER, None)), by_both),
        (((CLIENT_ID, None), (USER, None)), by_both),
        (((USER, None),), by_user),
        (by_client, by_client),
        (((CLIENT_ID, None),), by_client),
    )
    for entity, shared_by in order:
        limits: Mapping[str, float] = quotas.get(entity, {})
        if kind.value in limits:
            return Limit(limits[kind.value], shared_by)
    return None
