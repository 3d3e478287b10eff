"""Which hours are complete, and how those are told who read no ledger."""

import json

from ottla.base.files import join, read_file
from ottla.tables.entries import Action, LedgerEntry, LoadedPartition
from ottla.tables.ledger.announcements import announce_hours
from ottla.tables.ledger.completeness import (
    HOUR_MS,
    begins_a_new_hour,
    complete_hours,
)
from ottla.tables.stores.local_store import LocalStore
from ottla.testing import FakeFileSystem

NOON = 1_700_000_000_000 // HOUR_MS * HOUR_MS
MINUTE = 60_000


def entry(
    number: int,
    asked_ms: int | None,
    *until_and_end: tuple[int, int | None],
    action: Action = Action.LOAD,
) -> LedgerEntry:
    return LedgerEntry(
        commit_id=number,
        committed_ms=0,
        source="",
        partitions=tuple(
            LoadedPartition(
                topic="orders",
                topic_id=None,
                partition=partition,
                from_offset=0,
                until_offset=until,
                row_count=0,
                log_end_offset=end,
            )
            for partition, (until, end) in enumerate(until_and_end)
        ),
        files=(),
        action=action,
        asked_ms=asked_ms,
    )


def told(*entries: LedgerEntry) -> list[tuple[int, dict[int, int], int]]:
    return [
        ((hour.start_ms - NOON) // HOUR_MS, dict(hour.until_offsets), hour.commit_id)
        for hour in complete_hours(entries)
    ]


def test_a_load_completes_the_hours_that_were_over_when_it_asked() -> None:
    first = entry(0, NOON + MINUTE, (5, 5), (7, 7))
    assert told(first) == [(-1, {0: 5, 1: 7}, 0)]
    same_hour = entry(1, NOON + 59 * MINUTE, (9, 9), (7, 7))
    assert told(first, same_hour) == told(first)
    later = entry(2, NOON + 3 * HOUR_MS + MINUTE, (12, 12), (8, 8))
    assert told(first, same_hour, later)[1:] == [(n, {0: 12, 1: 8}, 2) for n in (0, 1, 2)]


def test_an_open_transaction_holds_its_hour_back_until_it_is_loaded() -> None:
    held = entry(0, NOON + MINUTE, (5, 6), (7, 7))
    assert told(held) == []
    still = entry(1, NOON + 2 * HOUR_MS, (5, 9), (9, 9))
    assert told(held, still) == []
    ended = entry(2, NOON + 2 * HOUR_MS + MINUTE, (8, 10), (9, 9))
    assert told(held, still, ended) == [(-1, {0: 6, 1: 7}, 2)]


def test_reruns_and_loads_that_knew_no_end_complete_nothing() -> None:
    assert told(entry(0, NOON, (5, 5), action=Action.RERUN)) == []
    assert told(entry(0, None, (5, 5))) == []
    assert told(entry(0, NOON, (5, None))) == []


def test_an_hour_is_news_once() -> None:
    entries = [entry(0, NOON + MINUTE, (5, 5))]
    assert not begins_a_new_hour(None, NOON)
    assert not begins_a_new_hour(entries[-1].asked_ms, NOON + 59 * MINUTE)
    assert begins_a_new_hour(entries[-1].asked_ms, NOON + 60 * MINUTE)


def test_each_complete_hour_has_a_marker() -> None:
    file_system = FakeFileSystem()
    file_system.make_directory("/t/_ottla")
    found = entry(3, NOON + MINUTE, (5, 5))
    announce_hours(LocalStore("/t", file_system), found, lambda: [found])
    (name,) = file_system.list("/t/_ottla/hours")
    assert name == "2023-11-14T21.json"
    marker = json.loads(read_file(file_system, join("/t/_ottla/hours", name)))
    assert marker["hour"] == "2023-11-14T21:00:00Z"
    assert (marker["until_offsets"], marker["commit_id"]) == ({"0": 5}, 3)
