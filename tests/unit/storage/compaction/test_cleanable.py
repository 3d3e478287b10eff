"""How much of a log could be compacted, and when it is due: a table of (log, settings, answer)."""

from dataclasses import replace

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.compaction.cleanable import (
    Bound,
    Cleanable,
    LogToClean,
    SegmentToClean,
    cleanable,
)

NOW_MS = 1_000_000
CONFIG = TopicConfig(cleanup_policy=("compact",))


def segment(
    base_offset: int, *, size: int = 100, largest: int = 500, first: int = 400
) -> SegmentToClean:
    return SegmentToClean(
        base_offset=base_offset,
        size=size,
        largest_timestamp_ms=largest,
        first_timestamp_ms=first,
    )


LOG = LogToClean(
    segments=[segment(0), segment(10), segment(20), segment(30, size=7)],
    log_start_offset=0,
    log_end_offset=33,
    last_stable_offset=33,
    flushed_until=33,
    cleaned_until=None,
)


def of(log: LogToClean, config: TopicConfig = CONFIG) -> Cleanable:
    return cleanable(log, config, NOW_MS)


@pytest.mark.parametrize(
    ("log", "first_dirty", "end", "bound", "clean", "dirty"),
    [
        (LOG, 0, 30, Bound.ACTIVE_SEGMENT, 0, 300),
        (replace(LOG, cleaned_until=20), 20, 30, Bound.ACTIVE_SEGMENT, 200, 100),
        (replace(LOG, cleaned_until=30), 30, 30, Bound.ACTIVE_SEGMENT, 300, 0),
        (replace(LOG, cleaned_until=15), 15, 30, Bound.ACTIVE_SEGMENT, 100, 200),
        (replace(LOG, last_stable_offset=20), 0, 20, Bound.LAST_STABLE_OFFSET, 0, 200),
        (replace(LOG, last_stable_offset=19), 0, 10, Bound.LAST_STABLE_OFFSET, 0, 100),
        (replace(LOG, last_stable_offset=3), 0, 0, Bound.LAST_STABLE_OFFSET, 0, 0),
        (replace(LOG, flushed_until=29), 0, 20, Bound.NOT_FLUSHED, 0, 200),
        (replace(LOG, flushed_until=30), 0, 30, Bound.ACTIVE_SEGMENT, 0, 300),
        (replace(LOG, log_start_offset=12), 12, 30, Bound.ACTIVE_SEGMENT, 100, 200),
    ],
    ids=[
        "all but the active segment",
        "from where it was compacted",
        "nothing since",
        "from the middle of a segment, all of it",
        "up to an open transaction",
        "an open transaction keeps its whole segment",
        "an open transaction in the first segment keeps all",
        "up to a segment whose flush is under way",
        "all that is flushed",
        "from the log's start",
    ],
)
def test_what_could_be_compacted(
    log: LogToClean, first_dirty: int, end: int, bound: Bound, clean: int, dirty: int
) -> None:
    found = of(log)
    assert (found.first_dirty_offset, found.end_offset) == (first_dirty, end)
    assert found.bound is bound
    assert (found.clean_bytes, found.cleanable_bytes) == (clean, dirty)
    assert not found.is_checkpoint_wrong


@pytest.mark.parametrize("cleaned_until", [34, 10**9])
def test_a_checkpoint_after_the_logs_end_makes_all_dirty(cleaned_until: int) -> None:
    found = of(replace(LOG, cleaned_until=cleaned_until))
    assert found.is_checkpoint_wrong
    assert (found.first_dirty_offset, found.cleanable_bytes) == (0, 300)


def test_a_checkpoint_before_the_logs_start_is_moved_there() -> None:
    found = of(replace(LOG, cleaned_until=5, log_start_offset=10))
    assert found.is_checkpoint_wrong
    assert found.first_dirty_offset == 10


def test_a_segment_stays_until_its_youngest_record_is_old_enough() -> None:
    config = replace(CONFIG, min_compaction_lag_ms=100)
    young = replace(LOG, segments=[segment(0), segment(10, largest=NOW_MS - 99), *LOG.segments[2:]])
    found = of(young, config)
    assert (found.end_offset, found.bound) == (10, Bound.MIN_COMPACTION_LAG)
    old = replace(LOG, segments=[segment(0), segment(10, largest=NOW_MS - 100), *LOG.segments[2:]])
    assert of(old, config).end_offset == 30


def test_the_lag_is_not_asked_of_what_is_compacted_already() -> None:
    config = replace(CONFIG, min_compaction_lag_ms=100)
    young = replace(LOG, segments=[segment(0, largest=NOW_MS), *LOG.segments[1:]], cleaned_until=10)
    assert of(young, config).end_offset == 30


@pytest.mark.parametrize(
    ("ratio", "is_due"), [(0.0, True), (0.33, True), (0.34, False), (0.5, False), (1.0, False)]
)
def test_a_log_is_due_when_more_than_the_ratio_is_dirty(ratio: float, is_due: bool) -> None:
    found = of(replace(LOG, cleaned_until=20))
    assert found.is_due(replace(CONFIG, min_cleanable_dirty_ratio=ratio)) == is_due


def test_a_record_that_has_waited_too_long_makes_its_log_due() -> None:
    log = replace(LOG, cleaned_until=20)
    config = replace(CONFIG, max_compaction_lag_ms=NOW_MS - 400)
    assert of(log, config).overdue_ms == 0
    config = replace(CONFIG, max_compaction_lag_ms=NOW_MS - 401)
    assert of(log, config).overdue_ms == 1
    assert of(log, config).is_due(config)


def test_nothing_to_compact_is_never_due() -> None:
    config = replace(CONFIG, max_compaction_lag_ms=1, min_cleanable_dirty_ratio=0.0)
    found = of(replace(LOG, cleaned_until=30), config)
    assert found.ratio == 0
    assert not found.is_due(config)
