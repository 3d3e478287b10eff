"""What a log of epochs says of others."""

from ottla.quorum.lineage import Lineage
from ottla.quorum.messages import EpochEnd, SnapshotId


def lineage(start: int = 0, snapshots: tuple[SnapshotId, ...] = ()) -> Lineage:
    """Epoch 1 from the start, 2 from 8, 5 from 9, to 12."""
    return Lineage(start, 12, [(1, start), (2, 8), (5, 9)], list(snapshots))


def test_an_epoch_ends_where_the_next_begins() -> None:
    log = lineage()
    assert log.end == EpochEnd(5, 12)
    assert log.end_of(5) == EpochEnd(5, 12)
    assert log.end_of(4) == EpochEnd(2, 9)
    assert log.end_of(1) == EpochEnd(1, 8)
    assert log.end_of(0) == EpochEnd(0, 0)


def test_a_log_that_is_a_beginning_goes_on() -> None:
    for offset, epoch in ((0, 0), (3, 1), (8, 1), (9, 2), (12, 5)):
        assert lineage().check_fetch(offset, epoch) is None


def test_a_log_with_other_records_diverges() -> None:
    assert lineage().check_fetch(9, 1) == EpochEnd(1, 8)
    assert lineage().check_fetch(10, 3) == EpochEnd(2, 9)
    assert lineage().check_fetch(13, 5) == EpochEnd(5, 12)


def test_an_empty_log_begins_with_the_newest_snapshot() -> None:
    snapshots = (SnapshotId(0, 0), SnapshotId(4, 1), SnapshotId(9, 2))
    assert lineage(snapshots=snapshots).check_fetch(0, 0) == SnapshotId(9, 2)
    assert lineage(snapshots=snapshots[:1]).check_fetch(0, 0) is None
    assert lineage(snapshots=snapshots).check_fetch(3, 1) is None


def test_a_log_that_ends_before_the_start_begins_with_a_snapshot() -> None:
    log = lineage(6, (SnapshotId(6, 1),))
    assert log.check_fetch(5, 1) == SnapshotId(6, 1)
    assert log.check_fetch(6, 0) == SnapshotId(6, 1)
    assert log.check_fetch(6, 2) == SnapshotId(6, 1)
    assert log.check_fetch(6, 1) is None


def test_what_is_cut_off_is_not_durable_any_more() -> None:
    log = lineage()
    log.synced_offset = 12
    log.truncated(8)
    assert (log.end, log.synced_offset, log.history) == (EpochEnd(1, 8), 8, 1)
    log.appended(6, 8, 11)
    assert (log.end, log.synced_end) == (EpochEnd(6, 11), EpochEnd(1, 8))


def test_a_snapshot_replaces_the_log_or_its_beginning() -> None:
    log = lineage(snapshots=(SnapshotId(4, 1), SnapshotId(9, 2)))
    assert log.reaches(SnapshotId(9, 2))
    assert not log.reaches(SnapshotId(9, 3))
    log.deleted_before(SnapshotId(9, 2))
    assert (log.start_offset, log.end, log.snapshots) == (9, EpochEnd(5, 12), [SnapshotId(9, 2)])
    assert log.check_fetch(9, 2) is None
    log.started_at(SnapshotId(20, 7))
    assert (log.start_offset, log.end) == (20, EpochEnd(7, 20))
    assert log.check_fetch(20, 7) is None
