"""Loads without an end: each table gets what is new when that is enough, or old enough.

Small commits make small files, rare ones late rows: so a commit waits until it would fill a file
of the target's size, or until the oldest record seen has waited `max_age_s`. When it is
stopped, a last commit takes all that is there.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from ottla.loading.job import LoadJob, LoadPlan, TableState
from ottla.loading.load import LoadReport, claimed, load_planned, plan_new, with_newest_schema
from ottla.tables.parquet_files import TARGET_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRule:
    """When to look, and when to commit; times in seconds, the size in bytes of Parquet."""

    interval_s: float = 1.0
    max_age_s: float = 60.0
    target_size: int = TARGET_SIZE

    def is_due(self, size: float, waited_s: float) -> bool:
        return size >= self.target_size or waited_s >= self.max_age_s


class Stop(Protocol):
    """How a follower is asked to end."""

    def is_set(self) -> bool:
        """Whether it shall end."""

    def wait(self, seconds: float) -> object:
        """Returns when it shall end, or the time is over."""


@dataclass(slots=True)
class _Followed:
    """A table that is claimed, and since when records have waited for it (monotonic clock)."""

    job: LoadJob
    state: TableState
    waiting_since: float | None = None

    def due(self, rule: FollowRule, now: float) -> LoadPlan | None:
        """What to load now, if it is time."""
        plan = plan_new(self.job, self.state)
        if not plan.offset_count:
            self.waiting_since = None
            # Nothing new may still be news: a gap that is allowed, an hour that is over.
            return plan
        if self.waiting_since is None:
            self.waiting_since = now
        waited_s = now - self.waiting_since
        return plan if rule.is_due(plan.expected_size, waited_s) else None

    def load(self, plan: LoadPlan) -> Iterator[LoadReport]:
        """Gives the commit that came of it, if any did."""
        # Asked after the plan: all that it reads was written with versions that are there now.
        report, self.state = load_planned(self.job, with_newest_schema(self.job, plan))
        if not report.nothing_new:
            yield report
        self.waiting_since = None


def follow(
    jobs: Sequence[LoadJob],
    rule: FollowRule,
    stop: Stop,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[LoadReport]:
    """Claims the tables and gives each commit as it is made, until `stop` is set.

    What is there at the beginning is loaded at once. Raises as `load` does.
    """
    with ExitStack() as stack:
        followed = [_Followed(one, stack.enter_context(claimed(one))) for one in jobs]
        yield from _load_all(followed)
        while not stop.is_set():
            stop.wait(rule.interval_s)
            for table in followed:
                plan = table.due(rule, clock())
                if plan is not None:
                    yield from table.load(plan)
        yield from _load_all(followed)


def _load_all(followed: Sequence[_Followed]) -> Iterator[LoadReport]:
    for table in followed:
        yield from table.load(plan_new(table.job, table.state))
