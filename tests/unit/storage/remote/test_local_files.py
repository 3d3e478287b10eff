"""The files of a segment that is copied are those on the disk, byte for byte, without room."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join, read_file
from ottla.storage.files.filenames import FileKind, FileName
from ottla.storage.index.producer_snapshot import parse_snapshot
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.remote.copy_plan import Candidate
from ottla.storage.remote.local_files import local_files, may_be_copied
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import IndexType
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.logs import NOW_MS, append, open_log


def filled_log(file_system: FakeFileSystem) -> PartitionLog:
    """Three segments of ten batches by one producer."""
    log = open_log(file_system)
    for number in range(30):
        if number and not number % 10:
            log.writer.roll(NOW_MS)
        append(log, b"%d" % number, producer_id=7, producer_epoch=0, base_sequence=number)
    return log


def candidate(log: PartitionLog, number: int) -> Candidate:
    segments = log.segments.values
    return Candidate(segments[number], segments[number + 1].base_offset)


def read(log: PartitionLog, number: int) -> SegmentFiles:
    return local_files(log, candidate(log, number)).read(log.file_system)


def on_disk(log: PartitionLog, offset: int, kind: FileKind) -> bytes:
    return read_file(log.file_system, join(log.directory, FileName(offset=offset, kind=kind).text))


def test_all_files_are_those_on_the_disk() -> None:
    log = filled_log(FakeFileSystem())
    files = read(log, 1)
    base = log.segments.values[1].base_offset
    following = log.segments.values[2].base_offset
    assert b"".join(files.log_parts(100)) == on_disk(log, base, FileKind.LOG)
    assert files.indexes[IndexType.OFFSET] == on_disk(log, base, FileKind.OFFSET_INDEX)
    assert files.indexes[IndexType.TIMESTAMP] == on_disk(log, base, FileKind.TIME_INDEX)
    snapshot = on_disk(log, following, FileKind.PRODUCER_SNAPSHOT)
    assert files.indexes[IndexType.PRODUCER_SNAPSHOT] == snapshot
    assert files.indexes[IndexType.LEADER_EPOCH] == b"0\n1\n0 0\n"
    assert IndexType.TRANSACTION not in files.indexes


def test_the_log_stays_readable_when_its_file_is_removed() -> None:
    log = filled_log(FakeFileSystem())
    found = local_files(log, candidate(log, 0))
    files = found.read(log.file_system)
    whole = b"".join(files.log_parts())
    log.file_system.remove(log.segments.values[0].log.path)
    assert b"".join(files.log_parts()) == whole
    found.close()


def test_zeros_that_a_kill_left_after_an_index_are_not_copied() -> None:
    log = filled_log(FakeFileSystem())
    base = log.segments.values[0].base_offset
    before = read(log, 0).indexes
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        path = join(log.directory, FileName(offset=base, kind=kind).text)
        file = log.file_system.open(path, writable=True)
        file.truncate(file.size() + 240)
    assert read(log, 0).indexes == before


@pytest.mark.parametrize("kept", [(), (0,)], ids=["no snapshot", "an earlier snapshot"])
def test_a_missing_snapshot_is_made_from_the_log(kept: tuple[int, ...]) -> None:
    log = filled_log(FakeFileSystem())
    expected = read(log, 1).indexes[IndexType.PRODUCER_SNAPSHOT]
    bases = [one.base_offset for one in log.segments.values]
    for offset in list(log.snapshots.offsets):
        if offset not in [bases[1]][: len(kept)]:
            log.snapshots.remove(offset)
    made = read(log, 1).indexes[IndexType.PRODUCER_SNAPSHOT]
    assert made == expected
    (producer,) = parse_snapshot("made", made)
    assert (producer.producer_id, producer.last_offset) == (7, bases[2] - 1)


def test_damage_in_a_log_is_named_where_a_snapshot_is_made_from_it() -> None:
    file_system = FakeFileSystem()
    log = filled_log(file_system)
    for offset in list(log.snapshots.offsets):
        log.snapshots.remove(offset)
    file = file_system.open(log.segments.values[0].log.path, writable=True)
    file.pwrite(b"\xff" * 4, 8)
    with pytest.raises(CorruptionError, match=r"00000000000000000000\.log"):
        read(log, 0)


def test_the_index_of_aborted_transactions_is_copied() -> None:
    log = open_log(FakeFileSystem())
    transactions = Transactions(log)
    transactions.write(1)
    transactions.end(1, is_commit=False)
    log.writer.roll(NOW_MS)
    append(log, b"later")
    files = read(log, 0)
    assert files.indexes[IndexType.TRANSACTION] == on_disk(log, 0, FileKind.TRANSACTION_INDEX)
    assert may_be_copied(log, candidate(log, 0))
