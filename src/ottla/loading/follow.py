"""Loads continuously: commits new records of each topic by size or age.

Frequent commits make small files, rare commits late rows. So a commit waits until it fills a file
of the target size, or until the oldest new record has waited `max_age_s`. Tables are checked in
turn. A table that fails is paused, longer each time, and then opened again, while the others
continue; a missing topic is waited for. When the follower is stopped, a last commit of each table
loads all remaining records. In a cluster each table has several followers, of which one at a time
holds the table's claim (`Wanted.is_ours`).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import OttlaError
from ottla.base.values import dataclass
from ottla.loading.job import LoadJob, LoadPlan, LoadRoute, LoadState
from ottla.loading.load import LoadReport, claimed, load_planned, plan_new, with_newest_schema
from ottla.tables import TARGET_SIZE

FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 60.0
"""The longest pause of a table that fails."""

SEARCH_S = 10.0
"""How often the topics are listed again to find those that match a pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRule:
    """When to check for records and when to commit; times in seconds, size in bytes of Parquet."""

    interval_s: float = 1.0
    max_age_s: float = 60.0
    target_size: int = TARGET_SIZE

    def is_due(self, size: float, waited_s: float) -> bool:
        return size >= self.target_size or waited_s >= self.max_age_s


class Stop(Protocol):
    """The request to stop a follower."""

    def is_set(self) -> bool:
        """Whether to stop."""

    def wait(self, seconds: float) -> object:
        """Waits for the stop request, at most `seconds`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A table that follows a topic; `open` is called at the first check, and after a failure."""

    route: LoadRoute
    open: Callable[[], LoadJob]
    is_ours: Callable[[], bool] = lambda: True
    """Whether this follower, and no other, may load the table; called before each check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowStatus:
    """The state of a table after a check of its topic."""

    topic: str
    into: str
    lag_records: int = 0
    """Offsets in the log, but not in the table, as of the last check."""
    complete_ms: int
    """When the table last had all records of the log; initially the time of the last load."""
    commits: int = 0
    rows: int = 0
    errors: int = 0
    """Commits, rows and failed checks since the follower began."""
    error: str | None = None
    """Why the last check failed, or what the table waits for."""
    is_elsewhere: bool = False
    """Whether another follower has the table, as far as this one knows."""

    def lag_s(self, now_ms: int) -> float:
        """The maximum age of a record that is in the log but not in the table."""
        if self.lag_records or self.error is not None:
            return max(0, now_ms - self.complete_ms) / 1000
        return 0.0


OnStatus = Callable[[FollowStatus], None]
"""Called after each check of a table."""


@dataclass(slots=True, kw_only=True)
class _Followed:
    """A table, its claim while it is open, and its state."""

    wanted: Wanted
    rule: FollowRule
    claim: ExitStack | None = None
    job: LoadJob | None = None
    state: LoadState | None = None
    waiting_since: float | None = None
    """The monotonic time since when records wait for a commit."""
    complete_ms: int = 0
    lag_records: int = 0
    commits: int = 0
    rows: int = 0
    errors: int = 0
    pause_s: float = 0.0
    """The current pause after failures; 0 after a success."""
    retry_at: float = 0.0
    error: OttlaError | OSError | str | None = None
    is_elsewhere: bool = False

    def look(self, now: float, *, at_once: bool = False) -> LoadReport | None:
        """Loads records that are due, or all if `at_once`; keeps the error of a failure."""
        if now < self.retry_at:
            return None
        try:
            report = self._load(now, at_once=at_once or self.job is None)
            self.pause_s = 0.0
        except (OttlaError, OSError) as error:
            self.close()
            self.error = error
            self.errors += 1
            self.pause_s = min(2 * self.pause_s or FIRST_PAUSE_S, LAST_PAUSE_S)
            self.retry_at = now + self.pause_s
            return None
        return report

    def _load(self, now: float, *, at_once: bool) -> LoadReport | None:
        self.is_elsewhere = not self.wanted.is_ours()
        if self.is_elsewhere:
            self.close()
            self.error, self.waiting_since, self.lag_records = None, None, 0
            return None
        if self.job is None and not self._open():
            return None
        assert self.job is not None
        assert self.state is not None
        plan = plan_new(self.job, self.state)
        self.error = None
        self.lag_records = plan.offset_count
        if not at_once and not self._is_due(plan, now):
            return None
        # The schema is looked up after the plan: planned records use versions that exist by now.
        report, self.state = load_planned(self.job, with_newest_schema(self.job, plan))
        self.waiting_since = None
        self.lag_records, self.complete_ms = 0, plan.asked_ms
        if report.nothing_new:
            return None
        self.commits += 1
        self.rows += report.row_count
        return report

    def _is_due(self, plan: LoadPlan, now: float) -> bool:
        if not plan.offset_count:
            self.waiting_since = None
            # A commit may be due without new records: for an allowed gap, or an hour that has
            # ended.
            return True
        if self.waiting_since is None:
            self.waiting_since = now
        return self.rule.is_due(plan.expected_size, now - self.waiting_since)

    def _open(self) -> bool:
        """Opens and claims the table if its topic exists."""
        job = self.wanted.open()
        if not job.log.partitions(allow_missing=True):
            self.error = f"there is no topic {job.route.topic} yet"
            return False
        with ExitStack() as stack:
            self.state = stack.enter_context(claimed(job))
            self.claim = stack.pop_all()
        self.job = job
        self.complete_ms = self.state.asked_ms or self.complete_ms
        return True

    def close(self) -> None:
        claim, self.claim, self.job, self.state = self.claim, None, None, None
        if claim is not None:
            claim.close()

    def status(self) -> FollowStatus:
        return FollowStatus(
            topic=self.wanted.route.topic,
            into=self.wanted.route.into,
            lag_records=self.lag_records,
            complete_ms=self.complete_ms,
            commits=self.commits,
            rows=self.rows,
            errors=self.errors,
            error=None if self.error is None else _words(self.error),
            is_elsewhere=self.is_elsewhere,
        )


def _words(error: OttlaError | OSError | str) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class Follower:
    """Follows the tables that `find` returns; `find` is called again to add new tables."""

    def __init__(
        self,
        find: Callable[[], Iterable[Wanted]],
        rule: FollowRule,
        *,
        on_status: OnStatus = lambda _: None,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._rule = rule
        self._on_status = on_status
        self._clock = clock or SystemClock()
        self._now = monotonic
        self._tables: dict[LoadRoute, _Followed] = {}
        self._search_at = 0.0

    def run(self, stop: Stop) -> Iterator[LoadReport]:
        """Yields each commit until `stop` is set.

        Existing records are loaded immediately. If every table fails then, raises the first error
        as `load` does; later errors are only kept. After the end, tables that lack records have an
        error in `statuses`.
        """
        with ExitStack() as stack:
            stack.callback(self._close)
            yield from self._round(at_once=True)
            self._refuse_if_all_fail()
            while not stop.is_set():
                stop.wait(self._rule.interval_s)
                yield from self._round()
            yield from self._round(at_once=True)

    def statuses(self) -> list[FollowStatus]:
        """The states of the tables that this follower loads."""
        return [one.status() for one in self._tables.values() if not one.is_elsewhere]

    def _round(self, *, at_once: bool = False) -> Iterator[LoadReport]:
        self._search()
        for table in list(self._tables.values()):
            report = table.look(self._now(), at_once=at_once)
            self._on_status(table.status())
            if report is not None:
                yield report

    def _search(self) -> None:
        """Looks for new tables; an error is ignored if tables are known, whose own checks report
        it.
        """
        now = self._now()
        if self._tables and now < self._search_at:
            return
        self._search_at = now + SEARCH_S
        try:
            wanted = list(self._find())
        except (OttlaError, OSError):
            if not self._tables:
                raise
            return
        for one in wanted:
            if one.route not in self._tables:
                self._tables[one.route] = _Followed(
                    wanted=one,
                    rule=self._rule,
                    complete_ms=self._clock.now_ms(),
                )

    def _refuse_if_all_fail(self) -> None:
        errors = [one.error for one in self._tables.values()]
        faults = [one for one in errors if isinstance(one, Exception)]
        if faults and len(faults) == len(errors):
            raise faults[0]

    def _close(self) -> None:
        for table in self._tables.values():
            table.close()


def follow(
    jobs: Sequence[LoadJob],
    rule: FollowRule,
    stop: Stop,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[LoadReport]:
    """Follows topics with opened jobs; yields each commit until `stop` is set."""
    wanted = [Wanted(one.route, lambda one=one: one) for one in jobs]  # type: ignore[misc]
    return Follower(lambda: wanted, rule, monotonic=clock).run(stop)
