"""The epochs of a log's batches, and whether its checkpoint agrees with them."""

import pytest

from ottla.record.batch import Batch, iter_batches
from ottla.record.legacy import build_message
from ottla.storage.log.epoch_runs import EpochRuns, agree
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.testing import FakeFileSystem
from tests.support.logs import batch


def runs_of(*epochs: int) -> EpochRuns:
    """One record each, from offset 0 on."""
    runs = EpochRuns()
    for offset, epoch in enumerate(epochs):
        (one,) = iter_batches(batch(b"v"))
        one.stamp(offset, epoch)
        runs.take(one, "log", offset * 70)
    return runs


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ((), []),
        ((0, 0, 2, 2, 5), [(0, 0), (2, 2), (5, 4)]),
        ((1, 1, 7, 1, 1), [(1, 0)]),
        ((9, 1, 1), [(1, 1)]),
        ((1, 1, 8), [(1, 0), (8, 2)]),
        ((-1, -1, 4, 4), [(4, 2)]),
        ((1, 7, 7, 2, 2), [(1, 0), (7, 1)]),
        # A batch without an epoch, as a message of an old format has none, begins nothing.
        ((1, -1, 1), [(1, 0)]),
    ],
)
def test_an_epoch_begins_where_more_than_one_damaged_batch_says_so(
    epochs: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    entries = runs_of(*epochs).entries
    assert [(one.epoch, one.start_offset) for one in entries] == expected


def test_runs_name_their_first_batch_and_those_that_go_back() -> None:
    runs = runs_of(1, 1, 4, 2)
    (back,) = runs.backward
    assert (back.epoch, back.first_offset, back.path, back.position) == (2, 3, "log", 210)
    assert [one.batch_count for one in runs.values] == [2, 1, 1]
    assert runs_of(1, 1, 4).backward == []


def test_a_message_of_an_old_format_clears_the_epochs_before_it() -> None:
    runs = runs_of(1, 1)
    messages: list[Batch] = list(iter_batches(build_message(None, b"v", magic=1, offset=2)))
    runs.take(messages[0])
    assert runs.values == []


def test_a_checkpoint_says_nothing_about_offsets_before_its_first_entry() -> None:
    epochs = LeaderEpochs(FakeFileSystem(), "file", [EpochEntry(2, 10), EpochEntry(3, 20)])
    assert agree(epochs, 1, (5, 9))
    assert agree(epochs, 2, (10, 19))
    assert agree(epochs, 2, (9, 10))
    assert not agree(epochs, 2, (10, 20))
    assert not agree(epochs, 1, (9, 10))


def test_a_rebuilt_checkpoint_keeps_the_epochs_of_what_is_before_the_batches() -> None:
    """In a tiered log these are in the tier, and no batch here says their epochs."""
    runs = EpochRuns()
    for offset, epoch in ((20, 3), (21, 3), (22, 4), (23, 4)):
        (one,) = iter_batches(batch(b"v"))
        one.stamp(offset, epoch)
        runs.take(one)
    wrong = LeaderEpochs(FakeFileSystem(), "file", [EpochEntry(1, 0), EpochEntry(9, 7)])
    right = runs.judge(wrong, 20).epochs
    assert [(one.epoch, one.start_offset) for one in right.entries] == [(1, 0), (3, 20), (4, 22)]
