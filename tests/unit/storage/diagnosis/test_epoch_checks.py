"""The leader-epoch checkpoint against the batches: which of the two is wrong."""

from ottla.record.batch import Batch, batch_at
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from ottla.storage.diagnosis.epoch_checks import EpochCheck
from ottla.storage.findings import Finding, FindingKind
from ottla.testing import FakeFileSystem

LOG = "t-0/00000000000000000000.log"
CHECKPOINT = "leader-epoch-checkpoint"
ENTRIES = "0\n2\n0 0\n3 4\n"
"""Epoch 0 from offset 0, epoch 3 from offset 4."""


def stored(offset: int, epoch: int) -> Batch:
    builder = RecordBatchBuilder()
    builder.append(None, b"a", 0)
    builder.append(None, b"b", 0)
    content = bytearray(builder.build())
    content[:8] = offset.to_bytes(8, "big")
    content[12:16] = epoch.to_bytes(4, "big", signed=True)
    return batch_at(bytes(content))


def check_of(*epochs: int) -> EpochCheck:
    """Batches of two records, one after the other."""
    check = EpochCheck()
    for number, epoch in enumerate(epochs):
        check.take(stored(2 * number, epoch), LOG, 200 * number)
    return check


def findings(
    check: EpochCheck, content: str | None, *, log_start: int = 0, is_growing: bool = False
) -> list[Finding]:
    disk = FakeFileSystem()
    if content is not None:
        file = disk.open(CHECKPOINT, create=True)
        file.pwrite(content.encode(), 0)
        file.close()
    offsets = (log_start, 2 * sum(run.batch_count for run in check.values))
    return list(check.findings(disk, CHECKPOINT, offsets=offsets, is_growing=is_growing))


def test_a_checkpoint_that_says_what_the_batches_say_is_sound() -> None:
    assert findings(check_of(0, 0, 3, 3), ENTRIES) == []


def test_neighbouring_batches_of_one_epoch_are_one_run() -> None:
    first, second = check_of(0, 0, 3).values
    assert (first.epoch, first.first_offset, first.last_offset, first.batch_count) == (0, 0, 3, 2)
    assert (second.epoch, second.position, second.path) == (3, 400, LOG)


def test_a_log_of_old_batches_forgets_the_epochs_before_them() -> None:
    check = check_of(0, 0)
    check.take(batch_at(build_message(None, b"v", magic=1, offset=4)), LOG, 400)
    assert check.values == []
    assert findings(check, None) == []


def test_a_missing_checkpoint_is_missed_where_batches_have_epochs() -> None:
    (found,) = findings(check_of(0, 3), None)
    assert (found.kind, found.path) == (FindingKind.LEADER_EPOCHS, CHECKPOINT)
    assert findings(check_of(-1, -1), None) == []


def test_one_batch_against_the_checkpoint_and_its_neighbours_is_what_is_wrong() -> None:
    (found,) = findings(check_of(0, 0, 3, 9, 3), ENTRIES)
    assert (found.kind, found.path, found.position) == (FindingKind.BATCH_EPOCH, LOG, 600)
    assert found.epoch == 3
    assert "and should be 3" in found.reason


def test_several_batches_that_agree_against_the_checkpoint_make_that_wrong() -> None:
    (found,) = findings(check_of(0, 0, 0, 0, 3, 3), ENTRIES)
    assert (found.kind, found.path) == (FindingKind.LEADER_EPOCHS, CHECKPOINT)
    assert "has epoch 3 for offset 7, but its batches have epoch 0" in found.reason


def test_where_batches_go_back_and_no_checkpoint_is_there_nobody_knows_the_right_epoch() -> None:
    found = findings(check_of(3, 3, 0, 0), None)
    assert [one.kind for one in found] == [FindingKind.LEADER_EPOCHS, FindingKind.BATCH_EPOCH]
    assert (found[1].position, found[1].epoch) == (400, None)


def test_an_epoch_after_the_end_is_wrong_unless_the_log_grows() -> None:
    content = "0\n3\n0 0\n3 4\n5 90\n"
    (found,) = findings(check_of(0, 0, 3), content)
    assert "epoch 5 begins at offset 90, after the log's end at 6" in found.reason
    assert findings(check_of(0, 0, 3), content, is_growing=True) == []


def test_records_before_the_first_entry_may_have_that_epoch_or_an_earlier_one() -> None:
    """Retention moves the first entry to the log's start, in the midst of a segment."""
    content = "0\n1\n3 4\n"
    assert findings(check_of(3, 3, 3), content, log_start=4) == []
    assert findings(check_of(0, 0, 3), content, log_start=4) == []
