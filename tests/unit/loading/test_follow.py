"""A follower of many tables: what fails is tried again, and holds up no other table."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.base.events import pass_over
from ottla.loading.follow import FIRST_PAUSE_S, LAST_PAUSE_S, Follower, FollowRule, Wanted
from ottla.loading.job import LoadJob, LoadRoute
from ottla.loading.load import LoadReport, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.table import dataset
from ottla.tables.writing.progress import Progress, Step

pytest.importorskip("deltalake")
pytestmark = pytest.mark.slow

EAGER = FollowRule(interval_s=5.0, max_age_s=0.0)


class Rounds:
    """A stop that is set after some rounds, a clock that goes on by the time that is waited for,
    and what happens in between."""

    def __init__(self, count: int, act: Callable[[int], None] = lambda _: None) -> None:
        self._count = count
        self._act = act
        self.done = 0
        self.now = 1000.0

    def is_set(self) -> bool:
        return self.done >= self._count

    def wait(self, seconds: float) -> None:
        self._act(self.done)
        self.done += 1
        self.now += seconds

    def monotonic(self) -> float:
        return self.now


def append(path: Path, topic: str, count: int) -> None:
    with ottla.open(path / "log") as log:
        if topic not in log.topics():
            log.create_topic(topic)
        for number in range(count):
            log.append(topic, b"%d" % number)


def wanted(path: Path, topic: str, progress: Callable[[Progress], None] = pass_over) -> Wanted:
    route = LoadRoute(str(path / "log"), topic, str(path / "tables" / topic))
    return Wanted(route, lambda: load_job(route, LocalEngine(), progress))


def broken(path: Path, topic: str, fails: Callable[[], bool]) -> Wanted:
    """A table that cannot be opened for as long as `fails`."""
    sound = wanted(path, topic)

    def open_job() -> LoadJob:
        if fails():
            raise UserError(f"{topic}: no broker answers")
        return sound.open()

    return Wanted(sound.route, open_job)


def rows(path: Path, topic: str) -> int:
    count: int = dataset(str(path / "tables" / topic)).count_rows()
    return count


def followed(follower: Follower, stop: Rounds) -> list[LoadReport]:
    return list(follower.run(stop))


def test_a_table_that_fails_holds_up_no_other_and_is_tried_again(tmp_path: Path) -> None:
    for topic in ("a", "b"):
        append(tmp_path, topic, 3)
    stop = Rounds(12, lambda done: append(tmp_path, "a", 1) if done == 3 else None)
    attempts: list[float] = []

    def fails() -> bool:
        attempts.append(stop.now - 1000)
        return len(attempts) < 5

    tables = [broken(tmp_path, "b", fails), wanted(tmp_path, "a")]
    follower = Follower(lambda: tables, EAGER, monotonic=stop.monotonic)
    reports = followed(follower, stop)
    assert [(one.topic, one.row_count) for one in reports] == [("a", 3), ("a", 1), ("b", 3)]
    # Looks are 5 s apart, so pauses of 1, 2 and 4 s end at the next one.
    assert attempts == [0, 5, 10, 15, 25]
    (status,) = [one for one in follower.statuses() if one.topic == "b"]
    assert (status.errors, status.error, status.commits, status.rows) == (4, None, 1, 3)


def test_pauses_grow_and_have_a_bound(tmp_path: Path) -> None:
    append(tmp_path, "a", 1)
    stop = Rounds(124)
    attempts: list[float] = []

    def fails() -> bool:
        attempts.append(stop.now)
        return True

    tables = [wanted(tmp_path, "a"), broken(tmp_path, "b", fails)]
    rule = FollowRule(interval_s=FIRST_PAUSE_S, max_age_s=0.0)
    follower = Follower(lambda: tables, rule, monotonic=stop.monotonic)
    followed(follower, stop)
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses == [1, 2, 4, 8, 16, 32, LAST_PAUSE_S]
    (status,) = [one for one in follower.statuses() if one.error is not None]
    assert status.error == "b: no broker answers"


def test_a_file_that_is_not_accessible_is_said_as_elsewhere(tmp_path: Path) -> None:
    append(tmp_path, "a", 1)
    route = wanted(tmp_path, "b").route

    def open_job() -> LoadJob:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"{route.into}/data")

    tables = [wanted(tmp_path, "a"), Wanted(route, open_job)]
    follower = Follower(lambda: tables, EAGER, monotonic=(stop := Rounds(1)).monotonic)
    followed(follower, stop)
    (status,) = [one for one in follower.statuses() if one.error is not None]
    assert status.error == f"{route.into}/data: Permission denied"


def test_a_table_that_fails_for_days_is_still_tried_again(tmp_path: Path) -> None:
    append(tmp_path, "other", 1)
    stop = Rounds(1100)
    tables = [wanted(tmp_path, "late"), broken(tmp_path, "b", lambda: True)]
    rule = FollowRule(interval_s=LAST_PAUSE_S, max_age_s=0.0)
    follower = Follower(lambda: tables, rule, monotonic=stop.monotonic)
    followed(follower, stop)
    assert sum(one.errors for one in follower.statuses()) == 1101


def test_a_start_at_which_no_table_can_be_loaded_ends_with_the_first_error(
    tmp_path: Path,
) -> None:
    tables = [broken(tmp_path, "a", lambda: True), broken(tmp_path, "b", lambda: True)]
    with pytest.raises(UserError, match="a: no broker answers"):
        followed(Follower(lambda: tables, EAGER), Rounds(9))


def test_a_topic_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    append(tmp_path, "other", 1)
    seen: list[str | None] = []
    stop = Rounds(4, lambda done: append(tmp_path, "late", 7) if done == 1 else None)
    tables = [wanted(tmp_path, "late")]
    follower = Follower(
        lambda: tables,
        EAGER,
        on_status=lambda one: seen.append(one.error),
        monotonic=stop.monotonic,
    )
    assert [one.row_count for one in followed(follower, stop)] == [7]
    assert seen[:2] == ["there is no topic late yet"] * 2
    assert set(seen[2:]) == {None}
    assert rows(tmp_path, "late") == 7


def test_topics_that_are_made_later_are_found(tmp_path: Path) -> None:
    append(tmp_path, "a", 1)

    def find() -> list[Wanted]:
        with ottla.open(tmp_path / "log", read_only=True) as log:
            return [wanted(tmp_path, topic) for topic in log.topics()]

    stop = Rounds(6, lambda done: append(tmp_path, "b", 2) if done == 1 else None)
    reports = followed(Follower(find, EAGER, monotonic=stop.monotonic), stop)
    assert [(one.topic, one.row_count) for one in reports] == [("a", 1), ("b", 2)]


def test_the_lag_is_in_offsets_and_in_time_since_the_table_had_all(tmp_path: Path) -> None:
    append(tmp_path, "a", 4)
    stop = Rounds(3, lambda done: append(tmp_path, "a", 5) if done == 0 else None)
    lags: list[tuple[int, bool]] = []
    follower = Follower(
        lambda: [wanted(tmp_path, "a")],
        FollowRule(interval_s=5.0, max_age_s=3600.0),
        on_status=lambda one: lags.append(
            (one.lag_records, one.lag_s(one.complete_ms + 1500) == 1.5)
        ),
        monotonic=stop.monotonic,
    )
    followed(follower, stop)
    assert lags == [(0, False), (5, True), (5, True), (5, True), (0, False)]
    assert rows(tmp_path, "a") == 9


def test_a_stop_in_the_middle_of_a_load_ends_after_a_commit_of_all_that_is_there(
    tmp_path: Path,
) -> None:
    append(tmp_path, "a", 4)
    append(tmp_path, "b", 2)
    stop = Rounds(1)

    def interrupted(progress: Progress) -> None:
        if progress.step is Step.WRITING and not stop.is_set():
            stop.done = 1
            append(tmp_path, "a", 3)

    tables = [wanted(tmp_path, "a", interrupted), wanted(tmp_path, "b")]
    reports = followed(Follower(lambda: tables, EAGER, monotonic=stop.monotonic), stop)
    assert [(one.topic, one.row_count) for one in reports] == [("a", 4), ("b", 2), ("a", 3)]
    # And nothing is claimed any more.
    assert rows(tmp_path, "a") == 7
    again = Follower(lambda: [wanted(tmp_path, "a")], EAGER)
    assert followed(again, Rounds(0)) == []


def test_of_two_followers_one_has_the_table_and_the_other_continues_when_it_is_its_own(
    tmp_path: Path,
) -> None:
    append(tmp_path, "a", 3)
    leader = "first"
    own = wanted(tmp_path, "a")

    def follower(name: str, stop: Rounds) -> Follower:
        mine = replace(own, is_ours=lambda: leader == name)
        return Follower(lambda: [mine], EAGER, monotonic=stop.monotonic)

    first, second = Rounds(100), Rounds(2)
    ours, theirs = follower("first", first), follower("second", second)
    running = ours.run(first)
    assert next(running).row_count == 3
    # The first one has the claim: only a follower that leaves the table alone gets on.
    assert followed(theirs, second) == []
    assert theirs.statuses() == []

    def hand_over(done: int) -> None:
        nonlocal leader
        if done == 5:
            append(tmp_path, "a", 4)
            leader = "second"
        elif done == 7:
            assert ours.statuses() == []
            (report,) = followed(follower("second", third), third)
            assert report.row_count == 4
        elif done == 8:
            append(tmp_path, "a", 5)
            leader = "first"

    third = Rounds(1)
    first._act = hand_over
    assert [one.row_count for one in running] == [5]
    assert [one.rows for one in ours.statuses()] == [8]
    assert rows(tmp_path, "a") == 12
