"""What the cleaner would make of a log, segment by segment, and what it waits for."""

from dataclasses import replace

import pytest

from ottla.storage.compaction.cleanable import LogToClean, SegmentToClean
from ottla.storage.diagnosis.compaction_explanation import (
    SegmentState,
    Waits,
    explain,
    read_view,
)
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import FakeFileSystem
from tests.support.compacting import COMPACTED, Roll, Write, keeper_of
from tests.support.logs import DIRECTORY, NOW_MS

SIZE = 100
CONFIG = replace(COMPACTED, min_cleanable_dirty_ratio=0.5)


def view(count: int = 5, cleaned_until: int | None = 20, **changes: int) -> LogToClean:
    """Segments of ten offsets and 100 bytes each, a second apart, of which the last is active."""
    found = LogToClean(
        segments=[
            SegmentToClean(
                base_offset=10 * number,
                size=SIZE,
                largest_timestamp_ms=NOW_MS + 1000 * number,
                first_timestamp_ms=NOW_MS + 1000 * number,
            )
            for number in range(count)
        ],
        log_start_offset=0,
        log_end_offset=10 * count,
        last_stable_offset=10 * count,
        flushed_until=10 * count,
        cleaned_until=cleaned_until,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def states(log: LogToClean, **settings: object) -> list[SegmentState]:
    config = replace(CONFIG, **settings)  # type: ignore[arg-type]
    return [one.state for one in explain(log, config, NOW_MS + 5000).segments]


CLEAN, DIRTY = SegmentState.CLEAN, SegmentState.DIRTY
UNCLEANABLE, ACTIVE = SegmentState.UNCLEANABLE, SegmentState.ACTIVE


def test_segments_are_clean_up_to_the_checkpoint_and_dirty_up_to_the_active_one() -> None:
    assert states(view()) == [CLEAN, CLEAN, DIRTY, DIRTY, ACTIVE]
    assert states(view(cleaned_until=None)) == [DIRTY, DIRTY, DIRTY, DIRTY, ACTIVE]


def test_what_a_pass_may_not_touch_yet_is_not_cleanable_and_says_until_when() -> None:
    log = view()
    assert states(log, min_compaction_lag_ms=2500) == [CLEAN, CLEAN, DIRTY, UNCLEANABLE, ACTIVE]
    explanation = explain(log, replace(CONFIG, min_compaction_lag_ms=2500), NOW_MS + 5000)
    waits = [one.waits_until_ms for one in explanation.segments]
    assert waits == [None, None, None, NOW_MS + 3000 + 2500, None]


def test_an_open_transaction_bounds_a_pass_without_a_time() -> None:
    explanation = explain(view(last_stable_offset=33), CONFIG, NOW_MS + 5000)
    assert [one.state for one in explanation.segments][2:] == [DIRTY, UNCLEANABLE, ACTIVE]
    assert [one.waits_until_ms for one in explanation.segments] == [None] * 5


@pytest.mark.parametrize(
    ("log", "settings", "waits"),
    [
        (view(), {}, Waits.RATIO),
        (view(), {"min_cleanable_dirty_ratio": 0.4}, None),
        (view(cleaned_until=40), {}, Waits.NOTHING_DIRTY),
        (view(), {"cleanup_policy": ("delete",)}, Waits.POLICY),
        (view(), {"max_compaction_lag_ms": 1000}, None),
    ],
)
def test_a_pass_begins_or_it_is_said_why_not(
    log: LogToClean, settings: dict[str, object], waits: Waits | None
) -> None:
    config = replace(CONFIG, **settings)  # type: ignore[arg-type]
    assert explain(log, config, NOW_MS + 5000).waits is waits


@pytest.mark.parametrize("ratio", [0.5, 0.6, 0.9])
def test_with_the_bytes_that_are_missing_the_ratio_lets_a_pass_begin(ratio: float) -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=ratio)
    log = view()
    missing = explain(log, config, NOW_MS + 5000).bytes_missing
    assert missing > 0

    def grown(size: int) -> LogToClean:
        segments = list(log.segments)
        segments[3] = replace(segments[3], size=SIZE + size)
        return replace(log, segments=segments)

    assert explain(grown(missing), config, NOW_MS + 5000).waits is None
    assert explain(grown(missing - 1), config, NOW_MS + 5000).waits is Waits.RATIO


def test_a_log_is_seen_in_its_files_as_its_broker_sees_it() -> None:
    disk = FakeFileSystem()
    keeper = keeper_of(disk)
    for number in range(3):
        keeper.carry_out(Write(((b"k", b"%d" % number),)), NOW_MS + number)
        keeper.carry_out(Roll())
    found = read_view(open_for_reading(DIRECTORY, disk).partition("t", 0), 1, disk)
    assert [one.base_offset for one in found.segments] == [0, 1, 2, 3]
    assert [one.largest_timestamp_ms for one in found.segments[:3]] == [
        NOW_MS,
        NOW_MS + 1,
        NOW_MS + 2,
    ]
    assert [one.size for one in found.segments] == [one.size for one in keeper.log.segments.values]
    assert (found.log_end_offset, found.cleaned_until) == (3, 1)
    # No other broker has replicas of what only Ottla has loaded, without the mark that says so.
    assert found.last_stable_offset == 3
