"""Flushed batches stay on the disk, whatever is damaged before them; what is refused is named."""

import pytest

from ottla.base.errors import CorruptionError, StorageError
from ottla.base.files import join
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from tests.crash.checking import PARTITION, all_files
from tests.crash.test_bit_flips import disk_of, stopped_log
from tests.crash.workload import KEY, TINY
from tests.support.logs import append, open_directory, read_all

FIRST = join(PARTITION, f"{0:020d}")
SECOND = join(PARTITION, f"{5:020d}")
LAST = join(PARTITION, f"{17:020d}")


def reopened(files: dict[str, bytes]) -> tuple[PartitionLog, dict[str, bytes]]:
    """The log, and the logs on the disk after its start."""
    disk = disk_of(files)
    log = open_directory(disk, TINY).logs[KEY]
    return log, {path: one for path, one in all_files(disk).items() if path.endswith(".log")}


def changed(content: bytes, position: int, mask: int = 1) -> bytes:
    damaged = bytearray(content)
    damaged[position] ^= mask
    return bytes(damaged)


def logs_of(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: one for path, one in files.items() if path.endswith(".log")}


@pytest.mark.parametrize("position", [6, 11, 16, 70], ids=["offset", "length", "magic", "record"])
def test_a_rebuilt_index_cuts_nothing_off(position: int) -> None:
    files, _ = stopped_log()
    files[SECOND + ".log"] = changed(files[SECOND + ".log"], position)
    del files[SECOND + ".index"], files[SECOND + ".timeindex"]
    log, logs = reopened(files)
    assert logs == logs_of(files)
    assert log.log_end_offset == 20
    assert [one.offset for one in read_all(log, 12)] == list(range(12, 20))


def test_what_lies_before_damage_is_served_and_the_rest_is_named() -> None:
    files, _ = stopped_log()
    files[FIRST + ".log"] = changed(files[FIRST + ".log"], 182 + 6)
    log, _ = reopened(files)
    found = log.reader.read(0, 1000, Isolation.HIGH_WATERMARK).records
    assert found is not None
    assert found.size == 182
    with pytest.raises(CorruptionError, match=f"{FIRST}.log at byte 182: a batch of offset 259"):
        log.reader.read(3, 1000, Isolation.HIGH_WATERMARK)


@pytest.mark.parametrize("position", [6, 11, 16], ids=["offset", "length", "magic"])
def test_a_log_whose_end_is_damaged_continues_after_it(position: int) -> None:
    files, _ = stopped_log()
    files[LAST + ".log"] = changed(files[LAST + ".log"], position, 4)
    log, logs = reopened(files)
    assert log.log_end_offset == 20
    append(log, b"more")
    assert [one.value for one in read_all(log, 20)] == [b"more"]
    assert logs[LAST + ".log"] == files[LAST + ".log"]
    with pytest.raises(CorruptionError, match=f"{LAST}.log at byte"):
        log.reader.read(17, 1000, Isolation.HIGH_WATERMARK)


def test_below_the_recovery_point_a_crash_cuts_nothing_off() -> None:
    files, _ = stopped_log()
    del files["data/.kafka_cleanshutdown"]
    files["data/recovery-point-offset-checkpoint"] = b"0\n1\nt 0 19\n"
    files[LAST + ".log"] = changed(files[LAST + ".log"], 70)
    log, logs = reopened(files)
    assert logs == logs_of(files)
    assert log.log_end_offset == 20


def test_an_epoch_that_one_batch_alone_has_is_not_served() -> None:
    files, _ = stopped_log()
    files[SECOND + ".log"] = changed(files[SECOND + ".log"], 121 + 13)
    log, _ = reopened(files)
    with pytest.raises(CorruptionError, match="its leader epoch 65537 contradicts"):
        log.reader.read(8, 1000, Isolation.HIGH_WATERMARK)
    assert [one.epoch for one in log.epochs.entries] == [0, 1, 2]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"0\n1\n0 0\n", b"0\n2\n0 0\n7 3\n"])
def test_leader_epochs_are_rebuilt_from_the_log(content: bytes) -> None:
    files, expected = stopped_log()
    files[join(PARTITION, "leader-epoch-checkpoint")] = content
    log, _ = reopened(files)
    assert log.epochs.entries == expected.epochs(0, log.log_end_offset)


def test_a_partition_without_a_readable_id_leaves_the_others_alone() -> None:
    files, _ = stopped_log()
    other = {path.replace("t-0", "u-0"): one for path, one in files.items()}
    files[join(PARTITION, "partition.metadata")] = b"version: 0\ntopic_id: ?"
    del files[join(PARTITION, INTEGRITY)]
    directory = open_directory(disk_of({**other, **files}), TINY)
    assert len(read_all(directory.logs["u", 0])) == 20
    with pytest.raises(StorageError, match=r"partition\.metadata at byte 21"):
        directory.logs[KEY].reader.read(0, 100, Isolation.HIGH_WATERMARK)
    directory.close()
    assert not directory.is_offline
