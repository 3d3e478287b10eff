"""Leader epochs out of batches."""

import pytest

from ottla.record.batch import Batch, iter_batches
from ottla.record.legacy import build_message
from ottla.storage.log.epoch_replay import epochs_of, take_epochs
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.testing import FakeFileSystem
from tests.support.logs import batch


def batches(*epochs: int) -> list[Batch]:
    """One record each, from offset 0 on."""
    found: list[Batch] = []
    for offset, epoch in enumerate(epochs):
        (one,) = iter_batches(batch(b"v"))
        one.stamp(offset, epoch)
        found.append(one)
    return found


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ([], []),
        ([3, 3, 3], [(3, 0)]),
        ([0, 0, 2, 2, 5], [(0, 0), (2, 2), (5, 4)]),
        ([-1, -1, 4, 4], [(4, 2)]),
        # One batch between two of another epoch is what is wrong, and so is one before an earlier.
        ([1, 1, 7, 1, 1], [(1, 0)]),
        ([9, 1, 1], [(1, 1)]),
        # Two that agree with each other are believed, and what follows cannot go back.
        ([1, 7, 7, 2, 2], [(1, 0), (7, 1)]),
        ([1, 1, 8], [(1, 0), (8, 2)]),
    ],
)
def test_epochs_begin_where_batches_say_so_unless_one_stands_alone(
    epochs: list[int], expected: list[tuple[int, int]]
) -> None:
    found = epochs_of(batches(*epochs))
    assert [(one.epoch, one.start_offset) for one in found] == expected


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
