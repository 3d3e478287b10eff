"""Which segments are copied, and as what, compared with logs as lists of records."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.copy_plan import (
    Candidate,
    CopyLag,
    Upload,
    candidates,
    epoch_checkpoint,
    epochs_between,
    only_local,
    upload_of,
)
from tests.support.histories import END, cut, entries, epoch_of, offsets, some_epochs
from tests.support.remote_segments import PARTITION, STARTED, number_id

NOW_MS = 1_000_000


@dataclass(frozen=True)
class Local:
    base_offset: int
    size: int = 100
    timestamp_ms: int = 0

    def largest_timestamp_ms(self) -> int:
        return self.timestamp_ms


LOG = [Local(5, 40), Local(10, 30), Local(15, 20)]
UPLOAD = Upload(partition=PARTITION, segment_id=number_id(1), broker_id=7)


def chosen(
    log: Sequence[Local], lag: CopyLag, from_offset: int = 0, stable: int = 1000
) -> list[tuple[int, int]]:
    found = candidates(log, from_offset, stable, lag, NOW_MS)
    return [(one.segment.base_offset, one.next_offset) for one in found]


def test_all_but_the_active_segment_are_copied_up_to_the_last_stable_offset() -> None:
    assert chosen(LOG, CopyLag()) == [(5, 10), (10, 15)]
    assert chosen(LOG, CopyLag(), stable=14) == [(5, 10)]
    assert chosen(LOG, CopyLag(), from_offset=10) == [(10, 15)]
    assert chosen(LOG, CopyLag(), from_offset=12) == [(10, 15)]
    assert chosen([], CopyLag()) == []


@pytest.mark.parametrize(
    ("lag", "expected"),
    [
        # As in Kafka's `RemoteLogManagerTest`: sizes 40, 30 and 20.
        (CopyLag(ms=None, size=60), []),
        (CopyLag(ms=None, size=50), [(5, 10)]),
        (CopyLag(ms=None, size=20), [(5, 10), (10, 15)]),
        (CopyLag(ms=None, size=None), []),
        (CopyLag(ms=0, size=60), [(5, 10), (10, 15)]),
        (CopyLag(ms=1 << 50, size=0), [(5, 10), (10, 15)]),
    ],
)
def test_a_segment_waits_until_enough_is_newer(
    lag: CopyLag, expected: list[tuple[int, int]]
) -> None:
    assert chosen(LOG, lag) == expected


@pytest.mark.parametrize(
    ("age_ms", "is_copied"), [(50, False), (99, False), (100, True), (-1, True), (-10_000, True)]
)
def test_a_segment_waits_until_it_is_old_enough_unless_its_time_is_in_the_future(
    age_ms: int, is_copied: bool
) -> None:
    log = [Local(0, timestamp_ms=NOW_MS - age_ms), Local(5)]
    assert bool(chosen(log, CopyLag(ms=100))) == is_copied
    assert chosen(log, CopyLag(ms=100, size=100)) == [(0, 5)]


def test_a_later_segment_does_not_overtake_one_that_waits() -> None:
    log = [Local(0, timestamp_ms=NOW_MS), Local(5, timestamp_ms=0), Local(9)]
    assert chosen(log, CopyLag(ms=100)) == []


def test_a_lag_of_minus_one_is_the_limit_of_local_retention() -> None:
    assert CopyLag.of(ms=-1, size=-1, local_ms=7, local_size=9) == CopyLag(ms=7, size=9)
    assert CopyLag.of(ms=-1, size=-1, local_ms=-1, local_size=-1) == CopyLag(ms=None, size=None)
    assert CopyLag.of(ms=0, size=-1, local_ms=7, local_size=-1) == CopyLag()
    assert CopyLag.of(ms=3, size=4, local_ms=7, local_size=9) == CopyLag(ms=3, size=4)


def test_an_upload_has_the_offsets_up_to_the_next_segment() -> None:
    epochs = entries({0: 0, 3: 7, 4: 12})
    segment = Local(5, size=77, timestamp_ms=50)
    found = upload_of(Candidate(segment, 10), epochs, UPLOAD, NOW_MS)
    assert (found.partition, found.segment_id, found.broker_id) == (PARTITION, number_id(1), 7)
    assert (found.start_offset, found.end_offset, found.leader_epochs) == (5, 9, ((0, 5), (3, 7)))
    assert (found.size, found.max_timestamp_ms, found.event_timestamp_ms) == (77, 50, NOW_MS)
    assert (found.state, found.custom_metadata) == (STARTED, None)


def test_records_without_leader_epochs_are_no_upload() -> None:
    with pytest.raises(ValueError, match="offsets 5 to 9 have no leader epoch"):
        upload_of(Candidate(Local(5), 10), entries({4: 10}), UPLOAD, NOW_MS)


def test_the_uploaded_epochs_are_those_of_the_log_up_to_the_next_segment() -> None:
    epochs = entries({0: 0, 3: 7, 4: 12})
    assert epoch_checkpoint(epochs, 12) == b"0\n2\n0 0\n3 7\n"
    assert epoch_checkpoint(epochs, 13) == b"0\n3\n0 0\n3 7\n4 12\n"
    assert epoch_checkpoint([EpochEntry(0, 0)], 9) == b"0\n1\n0 0\n"


@pytest.mark.parametrize(
    ("start", "highest", "count"),
    [
        (0, -1, 3),
        (0, 8, 3),
        (0, 9, 2),
        (0, 14, 1),
        (0, 15, 1),
        (9, -1, 3),
        (10, -1, 2),
        (99, 99, 1),
    ],
)
def test_what_the_tier_does_not_have_to_its_end_is_only_local(
    start: int, highest: int, count: int
) -> None:
    assert only_local(LOG, start, highest) == LOG[3 - count :]


bases = st.lists(offsets, min_size=1, unique=True).map(sorted)


@pytest.mark.slow
@given(bases, offsets, offsets, some_epochs)
def test_candidates_are_whole_segments_of_records_that_may_be_copied(
    starts: list[int], from_offset: int, stable: int, epochs: dict[int, int]
) -> None:
    epochs[min(epochs)] = 0
    log = [Local(start) for start in starts]
    records = [
        (offset, start)
        for start, until in zip(starts, [*starts[1:], END], strict=True)
        for offset in range(start, until)
    ]
    # A segment is copied if all of its records may be, and one is wanted.
    expected = [
        start
        for start in starts[:-1]
        if max(offset for offset, at in records if at == start) in range(from_offset, stable)
    ]
    found = list(candidates(log, from_offset, stable, CopyLag(), NOW_MS))
    assert [one.segment.base_offset for one in found] == expected
    for one in found:
        made = upload_of(one, entries(epochs), UPLOAD, NOW_MS)
        own = [offset for offset, at in records if at == one.segment.base_offset]
        assert (made.start_offset, made.end_offset) == (own[0], own[-1])
        by_offset = {
            offset: epoch
            for epoch, first, last in made.epoch_ranges()
            for offset in range(first, last + 1)
        }
        assert by_offset == {offset: epoch_of(epochs, offset) for offset in own}


@pytest.mark.slow
@given(some_epochs, offsets, offsets)
def test_the_epochs_of_a_range_are_those_of_its_records(
    log: dict[int, int], one: int, other: int
) -> None:
    start, end = min(one, other), max(one, other)
    assert dict(epochs_between(entries(log), start, end + 1)) == cut(log, start, end)
