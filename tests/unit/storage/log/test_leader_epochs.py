"""Epochs and where they begin."""

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.errors import CorruptionError
from ottla.base.files import read_file
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.testing import FakeFileSystem

PATH = "leader-epoch-checkpoint"


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(FakeFileSystem(), PATH)
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return epochs


def pairs(epochs: LeaderEpochs) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in epochs.entries]


def test_no_epochs() -> None:
    epochs = epochs_of()
    assert epochs.latest_epoch is None
    assert epochs.earliest_epoch is None
    assert epochs.end_offset_for(0, 10) is None
    assert epochs.epoch_for_offset(0) is None
    epochs.truncate_from_end(0)
    epochs.truncate_from_start(10)
    assert epochs.entries == ()


def test_an_epoch_is_assigned_once() -> None:
    epochs = epochs_of((0, 0), (2, 10))
    assert not epochs.assign(2, 20)
    assert epochs.assign(3, 30)
    assert pairs(epochs) == [(0, 0), (2, 10), (3, 30)]
    assert (epochs.earliest_epoch, epochs.latest_epoch) == (0, 3)


@pytest.mark.parametrize(
    ("new", "left"),
    [
        ((3, 20), [(1, 10), (3, 20)]),
        ((3, 15), [(1, 10), (3, 15)]),
        ((3, 5), [(3, 5)]),
        ((2, 15), [(1, 10), (2, 15)]),
        ((1, 15), [(1, 15)]),
        ((0, 30), [(0, 30)]),
        ((1, 30), [(1, 30)]),
    ],
)
def test_entries_that_contradict_a_new_one_go(
    new: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of((1, 10), (2, 20))
    assert epochs.assign(*new)
    assert pairs(epochs) == left


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, None),
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 50)),
        (5, (5, 100)),
        (6, None),
    ],
)
def test_an_epoch_ends_where_the_next_begins(epoch: int, answer: tuple[int, int] | None) -> None:
    epochs = epochs_of((2, 10), (4, 20), (5, 50))
    assert epochs.end_offset_for(epoch, log_end_offset=100) == answer


@pytest.mark.parametrize(
    ("offset", "epoch"), [(9, None), (10, 2), (19, 2), (20, 4), (49, 4), (50, 5), (10**12, 5)]
)
def test_an_offset_lies_in_an_epoch(offset: int, epoch: int | None) -> None:
    assert epochs_of((2, 10), (4, 20), (5, 50)).epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("end_offset", "left"),
    [(51, 3), (50, 2), (21, 2), (20, 1), (11, 1), (10, 0), (0, 0)],
)
def test_truncating_the_end_removes_the_epochs_after_it(end_offset: int, left: int) -> None:
    epochs = epochs_of((2, 10), (4, 20), (5, 50))
    epochs.truncate_from_end(end_offset)
    assert pairs(epochs) == [(2, 10), (4, 20), (5, 50)][:left]


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [
        (5, [(2, 10), (4, 20), (5, 50)]),
        (10, [(2, 10), (4, 20), (5, 50)]),
        (15, [(2, 15), (4, 20), (5, 50)]),
        (20, [(4, 20), (5, 50)]),
        (49, [(4, 49), (5, 50)]),
        (60, [(5, 60)]),
    ],
)
def test_truncating_the_start_keeps_the_epoch_it_lies_in(
    start_offset: int, left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of((2, 10), (4, 20), (5, 50))
    epochs.truncate_from_start(start_offset)
    assert pairs(epochs) == left


def test_every_change_is_on_the_disk() -> None:
    changes: list[tuple[Callable[[LeaderEpochs], object], list[tuple[int, int]]]] = [
        (lambda epochs: epochs.assign(0, 0), [(0, 0)]),
        (
            lambda epochs: epochs.assign_all([EpochEntry(1, 10), EpochEntry(2, 20)]),
            [(0, 0), (1, 10), (2, 20)],
        ),
        (lambda epochs: epochs.truncate_from_end(20), [(0, 0), (1, 10)]),
        (lambda epochs: epochs.truncate_from_start(5), [(0, 5), (1, 10)]),
        (LeaderEpochs.clear, []),
    ]
    disk = FakeFileSystem()
    for change, expected in changes:
        change(LeaderEpochs.read(disk, PATH))
        disk = disk.crash()
        assert pairs(LeaderEpochs.read(disk, PATH)) == expected


def test_the_text_is_kafkas() -> None:
    disk = FakeFileSystem()
    epochs = LeaderEpochs(disk, PATH, [EpochEntry(0, 0)])
    epochs.assign(3, 42)
    assert read_file(disk, PATH) == b"0\n2\n0 0\n3 42\n"
    epochs.clear()
    assert read_file(disk, PATH) == b"0\n0\n"


def test_nothing_is_written_where_nothing_changes() -> None:
    disk = FakeFileSystem()
    epochs = LeaderEpochs(disk, PATH, [EpochEntry(1, 10)])
    epochs.assign(1, 10)
    epochs.assign_all([])
    epochs.truncate_from_end(11)
    epochs.truncate_from_start(10)
    assert disk.status(PATH) is None


def test_a_renamed_directory_is_followed() -> None:
    disk = FakeFileSystem()
    disk.make_directory("t-0.x-delete")
    epochs = LeaderEpochs(disk, "t-0/" + PATH, [EpochEntry(1, 10)])
    epochs.renamed("t-0.x-delete/" + PATH)
    epochs.clear()
    assert disk.status("t-0.x-delete/" + PATH) is not None


@pytest.mark.parametrize("content", [b"", None])
def test_a_missing_or_empty_file_holds_nothing(content: bytes | None) -> None:
    disk = FakeFileSystem()
    if content is not None:
        disk.open(PATH, create=True).pwrite(content, 0)
    assert LeaderEpochs.read(disk, PATH).entries == ()


@pytest.mark.parametrize(
    "content",
    [b"1\n0\n", b"0\n1\n", b"0\n1\n1\n", b"0\n1\n1 -1\n", b"0\n1\n-1 0\n", b"0\n1\na 0\n"],
)
def test_malformed_files_are_corrupt(content: bytes) -> None:
    disk = FakeFileSystem()
    disk.open(PATH, create=True).pwrite(content, 0)
    with pytest.raises(CorruptionError, match="line"):
        LeaderEpochs.read(disk, PATH)


@pytest.mark.parametrize("line", ["3 9", "2 9", "4 4"])
def test_entries_that_do_not_ascend_are_named_with_the_ones_before(line: str) -> None:
    disk = FakeFileSystem()
    content = f"0\n2\n3 4\n{line}\n".encode()
    disk.open(PATH, create=True).pwrite(content, 0)
    with pytest.raises(CorruptionError, match="does not come after epoch 3 from 4"):
        LeaderEpochs.read(disk, PATH)


ENTRIES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30)), max_size=15)


@pytest.mark.slow
@given(ENTRIES, st.integers(0, 31), st.integers(0, 31))
def test_epochs_and_offsets_ascend_whatever_happens(
    entries: list[tuple[int, int]], start_offset: int, end_offset: int
) -> None:
    epochs = epochs_of(*entries)
    epochs.truncate_from_start(start_offset)
    epochs.truncate_from_end(end_offset)
    found = pairs(epochs)
    assert found == sorted(found)
    for numbers in zip(*found, strict=True):
        assert len(set(numbers)) == len(numbers)
    assert LeaderEpochs.read(epochs._file_system, PATH).entries == epochs.entries


@pytest.mark.slow
@given(ENTRIES)
def test_a_new_entry_is_always_the_last(entries: list[tuple[int, int]]) -> None:
    epochs = epochs_of()
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
        assert epochs.latest_epoch == epoch
        assert epochs.epoch_for_offset(start_offset) == epoch


def test_an_epoch_that_begins_without_a_batch_is_written_with_the_first() -> None:
    epochs = epochs_of((0, 0))
    epochs.begin(3, 10)
    assert pairs(epochs) == [(0, 0), (3, 10)]
    assert pairs(LeaderEpochs.read(epochs._file_system, PATH)) == [(0, 0)]
    epochs.assign(3, 10)
    assert LeaderEpochs.read(epochs._file_system, PATH).entries == epochs.entries
