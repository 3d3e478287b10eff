"""Transaction indexes beside what compaction left of their transactions."""

from dataclasses import replace

import pytest

from ottla.base.files import read_file, replace_file
from ottla.record.batch import iter_batches
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.files.integrity import integrity_text, read_integrity
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, NOW_MS, TOPIC_ID, batch, open_directory

PRODUCER = {"producer_id": 9, "producer_epoch": 0}


def abort(log: PartitionLog) -> None:
    marker = EndTransactionMarker(is_commit=False, coordinator_epoch=0)
    content = build_end_transaction_marker(marker, **PRODUCER, timestamp_ms=NOW_MS)
    origin = AppendOrigin.COORDINATOR
    log.writer.append_as_leader(bytearray(content), leader_epoch=0, now_ms=NOW_MS, origin=origin)


@pytest.fixture
def disk() -> FakeFileSystem:
    """A log whose aborted transaction began in a batch that is gone, two segments before its end.

    The first segment has lost its first batch, as a compacted one may; the marker came later.
    """
    disk = FakeFileSystem()
    directory = open_directory(disk)
    log = directory.create_log("t", 0, TOPIC_ID)
    first = batch(b"v", base_sequence=0, is_transactional=True, **PRODUCER)
    log.writer.append_as_leader(first, leader_epoch=0, now_ms=NOW_MS)
    while len(log.segments.values) < 3:
        log.writer.append_as_leader(batch(b"v" * 100), leader_epoch=0, now_ms=NOW_MS)
        log.writer.write_out()
    abort(log)
    directory.close()
    path = f"{DIRECTORY}/t-0/{0:020d}"
    content = read_file(disk, f"{path}.log")
    second = list(iter_batches(content))[1]
    replace_file(disk, f"{path}.log", content[second.position :])
    # Compaction would have forgotten what the file says of the segment, and noted it again.
    known = read_integrity(disk, f"{DIRECTORY}/t-0")
    assert known is not None
    facts = known.segments[0]._replace(first_checksum=second.crc)
    text = integrity_text(replace(known, segments={**known.segments, 0: facts}))
    replace_file(disk, f"{DIRECTORY}/t-0/{INTEGRITY}", text)
    for suffix in (".index", ".timeindex"):
        disk.remove(path + suffix)
    return disk


def reopened(disk: FakeFileSystem, cleaned_until: int | None) -> PartitionLog:
    if cleaned_until is not None:
        OffsetCheckpoint(disk, f"{DIRECTORY}/cleaner-offset-checkpoint").write(
            {("t", 0): cleaned_until}
        )
    return open_directory(disk).logs["t", 0]


def test_a_transaction_that_began_where_the_cleaner_was_is_no_lie(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    log = reopened(disk, 3)
    assert log.segments.active.base_offset > 3
    assert "has no batch" not in caplog.text
    found = log.reader.aborted_transactions(0, log.log_end_offset)
    assert [(one.producer_id, one.first_offset) for one in found] == [(9, 0)]


def test_where_no_cleaner_was_it_is_named(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    reopened(disk, None)
    assert "producer 9 has no batch at offset 0" in caplog.text
