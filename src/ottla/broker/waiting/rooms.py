"""Delayed operations, and among them fetches that wait for records.

The room of fetches is a machine without a clock: its caller calls `advance` at the first deadline,
and `wake` when a partition has grown. Deadlines are on the monotonic clock, so that setting the
wall clock back delays no fetch. Kafka's counterparts: `DelayedFetch` and its purgatory.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from math import inf
from typing import Any, Generic, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.timers import AllTimers, Timers

Query = TypeVar("Query")
Result = TypeVar("Result")
Made = TypeVar("Made", covariant=True)
Other = TypeVar("Other")


class Waiting(Generic[Result]):
    """A waiting client; `result` is set when the broker returns this (`Answers.take_answered`)."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: Result | None = None


class Later(Generic[Made]):
    """A result that `make` makes of what `waiting` brings; `make` may return another `Later`.

    The maker runs in turns.
    """

    __slots__ = ("make", "waiting")

    def __init__(self, waiting: Waiting[Any], make: "Callable[[Any], Made | Later[Made]]") -> None:
        self.waiting = waiting
        self.make = make

    def then(self, change: "Callable[[Made], Other | Later[Other]]") -> "Later[Other]":
        """A later result that `change` makes of this one."""

        def made(brought: Any) -> "Other | Later[Other]":
            result = self.make(brought)
            return result.then(change) if isinstance(result, Later) else change(result)

        return Later(self.waiting, made)


class DelayedOperation(Waiting[dict[Hashable, ErrorCode]]):
    """A request that waits for other replicas, such as a produce with acks=all or a DeleteRecords.

    The former waits until the in-sync replicas have its records, the latter until all live ones
    have deleted theirs. Each partition is awaited under a key and answered once. The result is the
    errors by key; it is set, and `then` is called, when all are answered and `all_awaited` was
    called.
    """

    __slots__ = ("deadline_ms", "errors", "keys", "then")

    def __init__(self, deadline_ms: float, then: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.deadline_ms = deadline_ms
        self.then = then
        self.keys: set[Hashable] = {None}
        self.errors: dict[Hashable, ErrorCode] = {}

    def all_awaited(self) -> bool:
        """Call it when all partitions are added; returns whether all are already answered."""
        return self.answer(None, ErrorCode.NONE)

    def answer(self, key: Hashable, error: ErrorCode) -> bool:
        """Returns whether this was the last awaited partition."""
        if key not in self.keys:
            return False
        self.keys.discard(key)
        if error is not ErrorCode.NONE:
            self.errors[key] = error
        if self.keys:
            return False
        self.result = self.errors
        if self.then is not None:
            self.then()
        return True


class WaitingFetch(Waiting[Result], Generic[Query, Result]):
    """One waiting fetch, with its query, and its result when it is over.

    Growth of the partitions in `keys` may end it. `reads_ahead`: it reads uncommitted records, as
    followers do; `awaits_commits`: it is to hear soon what is committed, too. While `is_held` its
    caller still reads, and the room does not return it. `has_news`: something that it watches has
    changed.
    """

    __slots__ = (
        "awaits_commits",
        "deadline_ms",
        "has_news",
        "is_held",
        "is_over",
        "is_woken",
        "keys",
        "query",
        "reads_ahead",
    )

    def __init__(
        self,
        query: Query,
        keys: Sequence[Hashable],
        deadline_ms: float,
        *,
        reads_ahead: bool = False,
        awaits_commits: bool = False,
    ) -> None:
        super().__init__()
        self.awaits_commits = awaits_commits
        self.query = query
        self.keys = keys
        self.deadline_ms = deadline_ms
        self.reads_ahead = reads_ahead
        self.has_news = False
        self.is_held = False
        self.is_woken = False
        self.is_over = False


class LongFetch(WaitingFetch[Query, Result], Generic[Query, Result]):
    """A fetch of so many partitions that it is returned without a result: its caller reads them in
    turns; unless they are as they were until the deadline, and the result is that of the reading
    before the wait.
    """

    __slots__ = ()


class WaitingRoom(Generic[Query, Result]):
    """All waiting fetches, by partition and by deadline."""

    def __init__(self, timers: AllTimers) -> None:
        self._by_key: dict[Hashable, dict[WaitingFetch[Query, Result], None]] = {}
        self._deadlines: Timers[WaitingFetch[Query, Result]] = timers.new_room()
        self._woken: deque[WaitingFetch[Query, Result]] = deque()
        self._waiting_count = 0

    def __len__(self) -> int:
        return self._waiting_count

    def add(self, fetch: WaitingFetch[Query, Result]) -> None:
        self.hold(fetch)
        for key in fetch.keys:
            self.watch(fetch, key)
        self.release(fetch)

    def hold(self, fetch: WaitingFetch[Query, Result]) -> None:
        """Records from now on whether watched partitions grow."""
        fetch.is_held = True
        self._waiting_count += 1

    def watch(self, fetch: WaitingFetch[Query, Result], key: Hashable) -> None:
        """`key` is in the fetch's `keys`, or will be."""
        self._by_key.setdefault(key, {})[fetch] = None

    def watch_also(self, fetch: WaitingFetch[Query, Result], keys: Sequence[Hashable]) -> None:
        """Has a waiting fetch wait for more than it did."""
        new = [key for key in keys if key not in fetch.keys]
        if new:
            fetch.keys = [*fetch.keys, *new]
        for key in new:
            self.watch(fetch, key)

    def release(self, fetch: WaitingFetch[Query, Result]) -> None:
        """Has a held fetch wait, since its result does not suffice yet."""
        fetch.is_held = False
        self._deadlines.set(fetch, fetch.deadline_ms)
        if fetch.is_woken:
            self._woken.append(fetch)

    def wake(self, key: Hashable) -> None:
        """Wakes the fetches of a partition that has grown, or was deleted."""
        if not self._by_key:
            return
        for fetch in self._by_key.get(key, ()):
            if not fetch.is_woken:
                self._wake(fetch)

    def wake_committed(self, key: Hashable, tell_by_ms: float = inf) -> None:
        """Wakes consumers' fetches: more is committed, which followers have already read. Those of
        followers that await it end by `tell_by_ms`.
        """
        for fetch in self._by_key.get(key, ()):
            fetch.has_news = True
            if not fetch.reads_ahead:
                if not fetch.is_woken:
                    self._wake(fetch)
            elif fetch.awaits_commits:
                self._end_by(fetch, tell_by_ms)

    def _wake(self, fetch: WaitingFetch[Query, Result]) -> None:
        fetch.is_woken = fetch.has_news = True
        if not fetch.is_held:
            self._woken.append(fetch)

    def hurry(self, key: Hashable) -> None:
        """Ends the fetches of a partition immediately: there is news other than records."""
        for fetch in self._by_key.get(key, ()):
            self._end_by(fetch, 0.0)

    def _end_by(self, fetch: WaitingFetch[Query, Result], deadline_ms: float) -> None:
        fetch.has_news = True
        if deadline_ms < fetch.deadline_ms:
            fetch.deadline_ms = deadline_ms
            if not fetch.is_held:
                self._deadlines.set(fetch, deadline_ms)

    @property
    def has_woken(self) -> bool:
        return bool(self._woken)

    def take_woken(self) -> Iterator[WaitingFetch[Query, Result]]:
        """Yields the fetches whose partitions have grown; they wait on until `end`.

        Those that are not taken are yielded by the next call.
        """
        while self._woken:
            fetch = self._woken.popleft()
            fetch.is_woken = False
            if not fetch.is_over:
                yield fetch

    def advance(self, now_ms: float) -> Iterator[WaitingFetch[Query, Result]]:
        """Yields the fetches that have timed out; the caller sets their results and ends them."""
        while (fetch := self._deadlines.take_due(now_ms)) is not None:
            yield fetch

    def end(self, fetch: WaitingFetch[Query, Result]) -> None:
        """Removes a fetch that has its result or was cancelled."""
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
