"""What is rebuilt from the logs is, to the byte, what a broker had made."""

from collections.abc import Callable

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file, replace_file
from ottla.storage.diagnosis import rebuild
from ottla.storage.diagnosis.producer_checks import Knowledge
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.segment.segment_recovery import recover
from ottla.testing import FakeFileSystem
from tests.support.damaged_logs import PARTITION, Files, sound_files
from tests.support.logs import append, open_log


@pytest.fixture
def files() -> Files:
    return sound_files()


def replayed(disk: FileSystem) -> rebuild.Replayed:
    return rebuild.replay_partition(disk, PARTITION)


def test_an_index_is_as_a_recovery_makes_it_with_default_spacing() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, rebuild.TopicConfig())
    for number in range(20):
        append(log, b"x" * 2000, timestamp_ms=1000 + (7 * number) % 13)
    log.writer.flush()
    segment = log.segments.active
    recover(segment, lambda batch: None, 1 << 40, 1 << 40, 0)
    segment.become_inactive()
    paths = [segment.offset_index.path, segment.time_index.path]
    made = [read_file(disk, one) for one in paths]
    assert len(made[0]) > 8
    for path in paths:
        replace_file(disk, path, b"nonsense")
    rebuild.rebuild_indexes(disk, segment.log.path, 0)
    assert [read_file(disk, one) for one in paths] == made


def test_damage_in_a_log_is_not_skipped(files: Files) -> None:
    files[files.log(0)][70] ^= 1
    with pytest.raises(CorruptionError) as caught:
        list(rebuild.batches(files.disk(), files.log(0), 0))
    assert (caught.value.path, caught.value.position) == (files.log(0), 0)


def test_segments_are_those_that_are_in_use(files: Files) -> None:
    for suffix in (".deleted", ".cleaned", ".swap"):
        files.content[files.log(0).replace("000.log", "999.log") + suffix] = bytearray()
    assert rebuild.log_offsets(files.disk(), PARTITION) == files.bases


@pytest.mark.parametrize("damage", [bytearray.clear, lambda content: content.reverse()])
def test_a_transaction_index_is_as_it_was(
    files: Files, damage: Callable[[bytearray], None]
) -> None:
    path = files.transaction_index
    base_offset = int(path.rpartition("/")[2].partition(".")[0])
    before = bytes(files[path])
    damage(files[path])
    disk = files.disk()
    rebuild.rebuild_transactions(disk, path, base_offset, replayed(disk))
    assert read_file(disk, path) == before


def test_a_segment_without_aborts_has_no_transaction_index(files: Files) -> None:
    disk = files.disk()
    path = files.transaction_index.replace(".txnindex", ".other")
    file = disk.open(path, create=True)
    file.close()
    found = replayed(disk)
    empty = next(one for one, aborted in found.aborted.items() if not aborted)
    rebuild.rebuild_transactions(disk, path, empty, found)
    assert disk.status(path) is None


def test_where_the_log_no_longer_holds_all_entries_stay_that_can_be_read(files: Files) -> None:
    path = files.transaction_index
    base_offset = int(path.rpartition("/")[2].partition(".")[0])
    before = bytes(files[path])
    disk = files.disk()
    found = replayed(disk)
    found.replay.knowledge = Knowledge.PART
    found.aborted[base_offset] = []
    rebuild.rebuild_transactions(disk, path, base_offset, found)
    assert read_file(disk, path) == before
    # Beyond the segment's end an entry is of nothing.
    found.ends[base_offset] = base_offset
    rebuild.rebuild_transactions(disk, path, base_offset, found)
    assert disk.status(path) is None


def test_a_snapshot_is_as_it_was(files: Files) -> None:
    path = files.newest_snapshot
    before = bytes(files[path])
    del files.content[path]
    disk = files.disk()
    rebuild.take_snapshot(disk, PARTITION, replayed(disk))
    assert read_file(disk, path) == before


def test_a_replay_begins_with_the_snapshot_at_the_first_segment(files: Files) -> None:
    for _ in range(2):
        del files.content[files.log(0)]
    base_offset = files.bases[0]
    snapshot = f"{PARTITION}/{base_offset:020d}.snapshot"
    assert snapshot in files.content
    assert replayed(files.disk()).replay.knowledge is Knowledge.ALL
    files[snapshot][0] ^= 1
    assert replayed(files.disk()).replay.knowledge is Knowledge.PART


def test_the_leader_epochs_are_as_they_were(files: Files) -> None:
    before = bytes(files[files.epochs])
    files[files.epochs][:] = b"0\n1\n7 0\n"
    disk = files.disk()
    rebuild.rebuild_epochs(disk, files.epochs, replayed(disk))
    assert read_file(disk, files.epochs) == before


def test_a_log_without_epochs_has_no_checkpoint_of_them(files: Files) -> None:
    disk = files.disk()
    found = replayed(disk)
    found.epochs.values.clear()
    rebuild.rebuild_epochs(disk, files.epochs, found)
    assert disk.status(files.epochs) is None


def test_rebuilt_epochs_keep_those_of_what_only_a_tier_has(files: Files) -> None:
    disk = files.disk()
    found = replayed(disk)
    for run in found.epochs.values:
        run.epoch += 5
        run.first_offset += 100
    files_epochs = LeaderEpochs(disk, files.epochs, [EpochEntry(1, 3), EpochEntry(2, 50)])
    files_epochs.replace(files_epochs.entries)
    rebuild.rebuild_epochs(disk, files.epochs, found)
    entries = LeaderEpochs.read(disk, files.epochs).entries
    assert entries[:2] == (EpochEntry(1, 3), EpochEntry(2, 50))
    assert entries[2:] == tuple(found.epochs.entries)
