"""Delayed operations, and among them fetches that found too little and wait.

The room of fetches is a machine without a clock: its caller calls `advance` when the first deadline
is reached, and `wake` when a partition has grown. Deadlines are on the monotonic clock, so that
setting the wall clock back delays nobody. Kafka's counterparts: `DelayedFetch` and its purgatory.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.timers import AllTimers, Timers

Query = TypeVar("Query")
Result = TypeVar("Result")


class Waiting(Generic[Result]):
    """A waiting client; when the broker returns this (`take_answered`), `result` is set."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: Result | None = None


class DelayedOperation(Waiting[dict[Hashable, ErrorCode]]):
    """A request that waits for other replicas: a produce with acks=all until those in sync have its
    records, a DeleteRecords until all have deleted.

    Each of its partitions is awaited under a key and answered once; the errors are the result, when
    the last one is answered and `all_awaited` was called.
    """

    __slots__ = ("deadline_ms", "errors", "keys")

    def __init__(self, deadline_ms: float) -> None:
        super().__init__()
        self.deadline_ms = deadline_ms
        self.keys: set[Hashable] = {None}
        self.errors: dict[Hashable, ErrorCode] = {}

    def all_awaited(self) -> bool:
        """No further partition comes; whether all are answered already."""
        return self.answer(None, ErrorCode.NONE)

    def answer(self, key: Hashable, error: ErrorCode) -> bool:
        """Whether this was the last partition."""
        if key not in self.keys:
            return False
        self.keys.discard(key)
        if error is not ErrorCode.NONE:
            self.errors[key] = error
        if self.keys:
            return False
        self.result = self.errors
        return True


class WaitingFetch(Waiting[Result], Generic[Query, Result]):
    """One fetch that waits: what it asks for, and what it gets once it is over.

    `keys` are the partitions whose growth may end it; it `reads_ahead` of what is committed, as a
    follower does. While it `is_held` it is being looked at: it is handed to nobody else.
    """

    __slots__ = ("deadline_ms", "is_held", "is_over", "is_woken", "keys", "query", "reads_ahead")

    def __init__(
        self,
        query: Query,
        keys: Sequence[Hashable],
        deadline_ms: float,
        *,
        reads_ahead: bool = False,
    ) -> None:
        super().__init__()
        self.query = query
        self.keys = keys
        self.deadline_ms = deadline_ms
        self.reads_ahead = reads_ahead
        self.is_held = False
        self.is_woken = False
        self.is_over = False


class LongFetch(WaitingFetch[Query, Result], Generic[Query, Result]):
    """A fetch of so many partitions that it is returned without a result: it is read in turns by
    the one who asked for it."""

    __slots__ = ()


class WaitingRoom(Generic[Query, Result]):
    """All waiting fetches, found by partition and by deadline."""

    def __init__(self, timers: AllTimers) -> None:
        self._by_key: dict[Hashable, dict[WaitingFetch[Query, Result], None]] = {}
        self._deadlines: Timers[WaitingFetch[Query, Result]] = timers.new_room()
        self._woken: list[WaitingFetch[Query, Result]] = []
        self._waiting_count = 0

    def __len__(self) -> int:
        return self._waiting_count

    def add(self, fetch: WaitingFetch[Query, Result]) -> None:
        self.hold(fetch)
        for key in fetch.keys:
            self.watch(fetch, key)
        self.release(fetch)

    def hold(self, fetch: WaitingFetch[Query, Result]) -> None:
        """Notes from now on whether the partitions grow that are watched for it."""
        fetch.is_held = True
        self._waiting_count += 1

    def watch(self, fetch: WaitingFetch[Query, Result], key: Hashable) -> None:
        """`key` is one of the fetch's, or about to be."""
        self._by_key.setdefault(key, {})[fetch] = None

    def release(self, fetch: WaitingFetch[Query, Result]) -> None:
        """What has been seen of it is not enough: it waits."""
        fetch.is_held = False
        self._deadlines.set(fetch, fetch.deadline_ms)
        if fetch.is_woken:
            self._woken.append(fetch)

    def wake(self, key: Hashable) -> None:
        """A partition has grown, or is gone: its fetches look again."""
        if not self._by_key:
            return
        for fetch in self._by_key.get(key, ()):
            if not fetch.is_woken:
                self._wake(fetch)

    def wake_committed(self, key: Hashable) -> None:
        """More of a partition is committed than before, which followers have read already."""
        for fetch in self._by_key.get(key, ()):
            if not (fetch.is_woken or fetch.reads_ahead):
                self._wake(fetch)

    def _wake(self, fetch: WaitingFetch[Query, Result]) -> None:
        fetch.is_woken = True
        if not fetch.is_held:
            self._woken.append(fetch)

    def hurry(self, key: Hashable) -> None:
        """There is news of a partition that no growth brings: its fetches are over at once."""
        for fetch in self._by_key.get(key, ()):
            fetch.deadline_ms = 0.0
            if not fetch.is_held:
                self._deadlines.set(fetch, fetch.deadline_ms)

    @property
    def has_woken(self) -> bool:
        return bool(self._woken)

    def take_woken(self) -> Iterable[WaitingFetch[Query, Result]]:
        """Those whose partitions have grown since the last call; they wait on until `end`."""
        woken, self._woken = self._woken, []
        for fetch in woken:
            fetch.is_woken = False
        return [fetch for fetch in woken if not fetch.is_over]

    def advance(self, now_ms: float) -> list[WaitingFetch[Query, Result]]:
        """Those whose time is up at `now_ms`; the caller gives each its result and ends it."""
        return self._deadlines.take_all_due(now_ms)

    def end(self, fetch: WaitingFetch[Query, Result]) -> None:
        """Takes a fetch out: it has its answer, or nobody wants it any more."""
        if fetch.is_over:
            return
        fetch.is_over = True
        self._waiting_count -= 1
        self._deadlines.cancel(fetch)
        for key in fetch.keys:
            fetches = self._by_key.get(key)
            if fetches is not None:
                fetches.pop(fetch, None)
                if not fetches:
                    del self._by_key[key]
