"""The offsets of a log keep their order, whatever becomes of the log."""

import pytest

from ottla.storage.log.offsets import LogOffsets


@pytest.fixture
def offsets() -> LogOffsets:
    made = LogOffsets(log_start_offset=10, log_end_offset=50, recovery_point=30)
    made.move_high_watermark(40)
    return made


def test_the_high_watermark_moves_forward_and_never_beyond_the_end(offsets: LogOffsets) -> None:
    offsets.move_high_watermark(20)
    assert offsets.high_watermark == 40
    offsets.move_high_watermark(99)
    assert offsets.high_watermark == 50
    offsets.appended(60)
    assert (offsets.log_end_offset, offsets.high_watermark) == (60, 50)


def test_an_open_transaction_holds_the_last_stable_offset(offsets: LogOffsets) -> None:
    assert offsets.last_stable_offset == 40
    offsets.first_unstable_offset = 25
    assert offsets.last_stable_offset == 25
    offsets.first_unstable_offset = 45
    assert offsets.last_stable_offset == 40
    offsets.first_unstable_offset = 5
    assert offsets.last_stable_offset == 10, "below the log's start nothing is left to wait for"


def test_a_start_beyond_what_was_flushed_takes_the_recovery_point_along(
    offsets: LogOffsets,
) -> None:
    offsets.move_log_start(20)
    assert offsets.recovery_point == 30
    offsets.move_log_start(35)
    assert (offsets.log_start_offset, offsets.recovery_point) == (35, 35)
    with pytest.raises(AssertionError):
        offsets.move_log_start(41)


def test_a_flush_moves_the_recovery_point_forward_only(offsets: LogOffsets) -> None:
    offsets.flushed(20)
    assert offsets.recovery_point == 30
    offsets.flushed(50)
    assert offsets.recovery_point == 50
    with pytest.raises(AssertionError):
        offsets.flushed(51)


@pytest.mark.parametrize("end", [45, 35, 20, 5])
def test_after_a_cut_nothing_points_beyond_the_new_end(offsets: LogOffsets, end: int) -> None:
    offsets.truncated(end)
    offsets.check()
    assert offsets.log_end_offset == end
    assert offsets.high_watermark == min(40, end)
    assert offsets.recovery_point == min(30, end)
    assert offsets.log_start_offset == min(10, end)
    assert offsets.cut_count == 1


def test_a_log_that_continues_elsewhere_is_empty_there(offsets: LogOffsets) -> None:
    offsets.first_unstable_offset = 25
    offsets.restarted(70)
    assert offsets.log_start_offset == offsets.last_stable_offset == offsets.log_end_offset == 70
    assert offsets.recovery_point == 30


@pytest.fixture
def tiered() -> LogOffsets:
    made = LogOffsets(
        log_start_offset=10, local_start_offset=20, log_end_offset=50, recovery_point=30
    )
    made.move_high_watermark(40)
    return made


def test_without_a_tier_the_local_segments_begin_at_the_log_start(offsets: LogOffsets) -> None:
    assert offsets.local_start_offset == 10
    offsets.move_log_start(20)
    assert offsets.local_start_offset == 20
    offsets.truncated(15)
    assert (offsets.log_start_offset, offsets.local_start_offset) == (15, 15)
    offsets.restarted(60)
    assert (offsets.log_start_offset, offsets.local_start_offset) == (60, 60)


def test_a_log_start_beyond_the_local_start_takes_it_along(tiered: LogOffsets) -> None:
    tiered.move_log_start(15)
    assert (tiered.log_start_offset, tiered.local_start_offset) == (15, 20)
    tiered.move_log_start(25)
    assert (tiered.log_start_offset, tiered.local_start_offset) == (25, 25)


def test_the_local_start_moves_alone_up_to_the_high_watermark(tiered: LogOffsets) -> None:
    tiered.move_local_start(35)
    assert (tiered.log_start_offset, tiered.local_start_offset) == (10, 35)
    assert tiered.recovery_point == 30, "a crash may bring the segments back, unflushed as they are"
    for wrong in (34, 41):
        with pytest.raises(AssertionError):
            tiered.move_local_start(wrong)


def test_the_high_watermark_is_at_least_the_local_start() -> None:
    made = LogOffsets(
        log_start_offset=10, local_start_offset=20, log_end_offset=50, recovery_point=30
    )
    assert made.high_watermark == 20


def test_after_a_cut_the_tier_has_nothing_of_what_comes(tiered: LogOffsets) -> None:
    tiered.highest_remote_offset = 39
    tiered.truncated(30)
    assert (tiered.highest_remote_offset, tiered.local_start_offset) == (29, 20)
    tiered.truncated(15)
    assert (tiered.log_start_offset, tiered.local_start_offset) == (10, 15)
    assert tiered.highest_remote_offset == 14


def test_a_log_that_starts_again_may_keep_its_start(tiered: LogOffsets) -> None:
    tiered.highest_remote_offset = 39
    tiered.restarted(70, 10)
    assert (tiered.log_start_offset, tiered.local_start_offset) == (10, 70)
    assert tiered.high_watermark == tiered.log_end_offset == 70
    assert tiered.highest_remote_offset == 39
    tiered.restarted(30, 10)
    assert tiered.highest_remote_offset == 29
