"""What is known of a log before its files are read, and the segments that are opened since."""

from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.recovery.opening import open_segments
from tests.support.compacting import COMPACTED
from tests.support.recovering import killed, live, opened


def test_a_compacted_log_may_have_gaps_anywhere_and_another_where_the_cleaner_has_been() -> None:
    disk = killed()
    assert opened(disk, cleaned_until=7).request.gaps_before == 7
    assert opened(disk, cleaned_until=7, config=COMPACTED).request.gaps_before == MAX_OFFSET


def test_only_a_clean_stop_says_where_a_log_ended_at_least() -> None:
    disk = killed()
    known = {"recovery_point": 10, "high_watermark": 8}
    assert opened(disk, **known).request.least_end == 0
    assert opened(disk, was_clean_stop=True, **known).request.least_end == 8
    assert opened(disk, was_clean_stop=True, recovery_point=10).request.least_end == 10
    assert opened(disk, was_clean_stop=True, reached=12, **known).request.least_end == 12
    assert opened(disk, reached=12, **known).request.known_end == 12


def test_what_lies_below_the_recovery_point_was_flushed_and_all_of_it_at_a_clean_stop() -> None:
    disk = killed()
    request = opened(disk, recovery_point=10).request
    assert (request.was_flushed(9), request.was_flushed(10)) == (True, False)
    assert opened(disk, was_clean_stop=True).request.was_flushed(1000)
    # The start was moved there, which says nothing of what was written.
    assert not opened(disk, recovery_point=10, log_start_offset=10).request.was_flushed(5)


def test_a_log_starts_where_it_is_recorded_or_where_retention_has_got_to() -> None:
    disk = killed()
    log = opened(disk, log_start_offset=3)
    open_segments(log)
    assert log.log_start_offset == 3
    log.drop(log.segments.values[:1])
    assert log.log_start_offset == log.segments.first.base_offset > 3


def test_dropped_segments_are_gone_from_the_disk_with_their_indexes_the_last_first() -> None:
    disk = killed()
    log = opened(disk)
    open_segments(log)
    kept, *dropped = log.segments.values
    removed: list[str] = []
    original = disk.remove
    disk.remove = lambda path: (removed.append(path), original(path))[1]  # type: ignore[method-assign]
    log.drop(dropped)
    assert list(log.segments.values) == [kept]
    assert live(disk, ".log") == [kept.log.path]
    logs = [one for one in removed if one.endswith(".log")]
    assert logs == [one.log.path for one in reversed(dropped)]


def test_a_log_continues_in_a_new_segment() -> None:
    log = opened(killed())
    open_segments(log)
    log.continue_at(100)
    assert (log.segments.active.base_offset, log.segments.active.size) == (100, 0)


def test_segments_that_are_forgotten_can_be_opened_again() -> None:
    log = opened(killed())
    open_segments(log)
    before = [one.base_offset for one in log.segments.values]
    log.forget_segments()
    assert log.all_files == []
    open_segments(log)
    assert [one.base_offset for one in log.all_files] == before
