"""Leader epochs out of batches."""

import pytest

from ottla.base.files import parent_directory, replace_file
from ottla.config.topic import TopicConfig
from ottla.record.batch import Batch, iter_batches
from ottla.record.legacy import build_message
from ottla.storage.diagnosis.partition_check import CheckOptions, check_partition
from ottla.storage.log.epoch_replay import take_epochs
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, TOPIC_ID, batch, open_directory, open_log


def batches(*epochs: int) -> list[Batch]:
    """One record each, from offset 0 on."""
    found: list[Batch] = []
    for offset, epoch in enumerate(epochs):
        (one,) = iter_batches(batch(b"v"))
        one.stamp(offset, epoch)
        found.append(one)
    return found


def stored(disk: FakeFileSystem, *epochs: int) -> PartitionLog:
    """A closed log of one batch of two records in each of these epochs, in one segment."""
    directory = open_directory(disk, TopicConfig())
    log = directory.create_log("t", 0, TOPIC_ID)
    for epoch in epochs:
        log.writer.append_as_leader(batch(b"a", b"b"), leader_epoch=epoch, now_ms=NOW_MS)
        log.writer.write_out()
    directory.close()
    return log


CONTRADICTIONS = {
    "the last batch": ((0, 0, 2, 2, 2), {4: 7}, None, ["leader epoch 7 of offset 8"]),
    "the first batch of an epoch": ((0, 0, 2, 2, 2), {2: 0}, None, ["leader epoch 0 of offset 4"]),
    "the only batch": ((0,), {0: 5}, None, ["leader epoch 5 of offset 0"]),
    "an entry after the end": (
        (0, 0), {}, b"0\n2\n0 0\n3 90\n", ["epoch 3 begins at offset 90, after the log's end at 4"],
    ),
    "no file": ((0, 0, 2), {}, b"", ["is missing, though batches have leader epochs"]),
    "an entry before its batches": ((0, 0, 0, 2, 2), {}, b"0\n2\n0 0\n2 2\n", ["has epoch 2 for"]),
    "an entry one batch too early": (
        (0, 0, 0, 2, 2), {}, b"0\n2\n0 0\n2 4\n", ["leader epoch 0 of offset 4"],
    ),
    "an entry and a batch": (
        (0, 0, 2, 2, 2), {3: 7}, b"0\n2\n0 0\n2 6\n",
        ["has epoch 0 for offset 4", "leader epoch 7 of offset 6"],
    ),
}  # fmt: skip
"""The epochs that were written, those that damage changes, the file, and what is found.

Batches in the midst of an epoch are no part of a start, but of the read that comes to them.
"""


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_start_says_of_the_epoch_file_and_the_batches_what_a_check_says(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    epochs, changes, file, reasons = CONTRADICTIONS[case]
    disk = FakeFileSystem()
    log = stored(disk, *epochs)
    path = log.segments.first.log.path
    size = disk.open(path).size() // len(epochs)
    for number, epoch in changes.items():
        disk.open(path, writable=True).pwrite(epoch.to_bytes(4, "big"), number * size + 12)
    if file == b"":
        disk.remove(log.epochs.path)
    elif file is not None:
        replace_file(disk, log.epochs.path, file)
    report = check_partition(disk, parent_directory(path), CheckOptions())
    found = [one for one in report.findings if not one.is_note]
    assert len(found) == len(reasons)
    assert all(any(reason in one.reason for one in found) for reason in reasons)
    open_log(disk)
    for one in found:
        assert f"{one.text}; " in caplog.text


def test_appended_batches_add_each_new_epoch_once() -> None:
    epochs = LeaderEpochs(FakeFileSystem(), "leader-epoch-checkpoint")
    take_epochs(epochs, batches(0, 0, 1, 1, 4))
    take_epochs(epochs, batches(*[4] * 7))
    assert epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 2), EpochEntry(4, 4))


def test_a_message_of_an_old_format_makes_all_epochs_be_forgotten() -> None:
    epochs = LeaderEpochs(FakeFileSystem(), "leader-epoch-checkpoint")
    take_epochs(epochs, batches(0, 1))
    take_epochs(epochs, list(iter_batches(build_message(None, b"v", magic=1, offset=2))))
    assert epochs.entries == ()
