"""One flipped byte each, and what else on the disk contradicts it: that is refused, or named."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join
from ottla.config.topic import TopicConfig
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from tests.crash.checking import PARTITION
from tests.crash.small_directories import Policy, Stop, small_directory
from tests.crash.test_bit_flips import disk_of
from tests.crash.test_kept_damage import changed
from tests.crash.workload import KEY
from tests.support.logs import NOW_MS, append, open_directory

PLAIN = Policy.DELETE, Stop.CLEAN
PLAIN_KILLED = Policy.DELETE, Stop.KILL
COMPACTED = Policy.COMPACT, Stop.CLEAN
COMPACTED_KILLED = Policy.COMPACT, Stop.KILL


def opened(kind: tuple[Policy, Stop], name: str, position: int, mask: int) -> PartitionLog:
    """The log of a small directory, one byte of a file of which has changed."""
    small = small_directory(*kind)
    return opened_with(small.files, small.config, (name, position, mask))


def opened_as_kafkas(name: str, position: int, mask: int) -> PartitionLog:
    """As `opened`, of the compacted one, without what Kafka removes when it loads a log."""
    small = small_directory(*COMPACTED)
    files = {path: one for path, one in small.files.items() if not path.endswith(INTEGRITY)}
    return opened_with(files, small.config, (name, position, mask))


def opened_with(
    files: dict[str, bytes], config: TopicConfig, change: tuple[str, int, int]
) -> PartitionLog:
    name, position, mask = change
    path = join(PARTITION, name)
    files = {**files, path: changed(files[path], position, mask)}
    return open_directory(disk_of(files), config).logs[KEY]


def segment(base_offset: int, kind: str = "log") -> str:
    return f"{base_offset:020d}.{kind}"


@pytest.mark.parametrize(
    ("position", "mask"),
    [(0, 1), (7, 2), (8, 64), (101 + 7, 2), (182, 1)],
    ids=["offset", "nearby offset", "length", "smaller offset", "offset after it"],
)
def test_a_search_by_time_refuses_batches_that_are_out_of_place(position: int, mask: int) -> None:
    log = opened(PLAIN, segment(0), position, mask)
    with pytest.raises(CorruptionError, match=segment(0)):
        log.reader.find_timestamp(NOW_MS + 40)


def test_a_search_by_time_refuses_a_batch_whose_largest_timestamp_has_changed() -> None:
    log = opened(PLAIN, segment(12), 78 + 42, 64)
    with pytest.raises(CorruptionError, match=r"at byte 78: CRC mismatch"):
        log.reader.find_timestamp(NOW_MS + 140)


def test_a_read_of_an_offset_is_refused_where_a_batch_moved_below_it() -> None:
    log = opened(PLAIN, segment(0), 101 + 7, 2)
    with pytest.raises(CorruptionError, match="at byte 101: a batch of offset 0 is"):
        log.reader.read(2, 1, Isolation.HIGH_WATERMARK)
    assert log.reader.read(3, 1, Isolation.HIGH_WATERMARK).records is not None


def test_a_changed_magic_below_the_recovery_point_does_not_end_the_start() -> None:
    for mask in (1, 2, 3):
        log = opened(PLAIN_KILLED, segment(5), 304 + 16, mask)
        assert log.log_end_offset == 20


def test_the_time_of_what_lies_after_damage_is_known() -> None:
    log = opened(PLAIN, segment(0), 101 + 7, 2)
    assert log.segments.first.largest.timestamp_ms == NOW_MS + 50


def test_an_epoch_before_a_lower_one_is_not_believed() -> None:
    log = opened(PLAIN_KILLED, segment(17), 12, 4)
    assert log.epochs.latest_epoch == 2
    with pytest.raises(CorruptionError, match=r"17\.log at byte 0.*its leader epoch 67108866"):
        log.reader.read(17, 1, Isolation.HIGH_WATERMARK)
    assert log.reader.read(19, 1, Isolation.HIGH_WATERMARK).records is not None


def test_a_log_continues_after_a_damaged_first_batch_of_its_active_segment() -> None:
    log = opened(COMPACTED, segment(26), 16, 34)
    append(log, b"more")
    assert log.reader.read(log.log_end_offset - 1, 1, Isolation.HIGH_WATERMARK).records is not None


def test_a_gap_at_the_end_of_a_compacted_log_is_named_after_a_kill(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING")
    opened(COMPACTED_KILLED, segment(26), 71 + 6, 3)
    assert f"{segment(26)} at byte 71: offsets 27 to 794 are missing" in caplog.text


def test_an_index_entry_in_a_gap_of_a_compacted_log_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING")
    log = opened_as_kafkas(segment(0), 70 + 7, 1)
    log.reader.read(0, 1000, Isolation.HIGH_WATERMARK)
    assert f"{segment(0)} at byte 140: offsets 5 to 5 are missing, but" in caplog.text
    assert f"{segment(0, 'timeindex')} has an entry for 5" in caplog.text


def test_gaps_that_compaction_left_are_not_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING")
    small = small_directory(*COMPACTED)
    log = open_directory(disk_of(small.files), small.config).logs[KEY]
    for offset in range(log.log_end_offset):
        log.reader.read(offset, 1, Isolation.HIGH_WATERMARK)
    assert not caplog.text


def test_an_aborted_transaction_that_a_compacted_log_contradicts_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING")
    log = opened_as_kafkas(segment(11, "txnindex"), 9, 1)
    assert "producer 9 has no abort marker at offset 13" in caplog.text
    assert [one.producer_id for one in log.reader.aborted_transactions(0, 20)] == [9]
