"""What a partition's directory holds, listed while a broker may be renaming."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.files.filenames import (
    FileKind,
    log_file_name,
    producer_snapshot_file_name,
    transaction_index_file_name,
)
from ottla.storage.segment.partition_files import (
    LISTING_ATTEMPTS,
    PartitionFiles,
    list_partition,
    list_partition_again,
)
from ottla.testing import FakeFileSystem
from tests.support.logs import batch


def disk_with(*names: str) -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("t-0")
    for name in names:
        disk.open(f"t-0/{name}", create=True)
    return disk


def bases(found: PartitionFiles) -> list[int]:
    return [one.base_offset for one in found.segments]


def test_segments_stand_in_order_and_name_their_other_files() -> None:
    found = list_partition(disk_with(log_file_name(20), log_file_name(3)), "t-0")
    assert bases(found) == [3, 20]
    assert found.segments[0].path_of(FileKind.TIME_INDEX) == ("t-0/00000000000000000003.timeindex")
    assert not found.has_transaction_index


def test_a_swap_file_stands_in_for_a_log_that_is_not_there() -> None:
    found = list_partition(disk_with(log_file_name(0), log_file_name(7) + ".swap"), "t-0")
    assert bases(found) == [0, 7]
    assert found.segments[1].path_of(FileKind.OFFSET_INDEX).endswith("7.index.swap")
    both = list_partition(disk_with(log_file_name(7), log_file_name(7) + ".swap"), "t-0")
    assert [one.log_path for one in both.segments] == ["t-0/" + log_file_name(7)]


def test_what_is_on_its_way_in_or_out_is_no_segment() -> None:
    names = [log_file_name(7) + ending for ending in (".deleted", ".cleaned")]
    assert bases(list_partition(disk_with(*names, "stranger", log_file_name(9)), "t-0")) == [9]


def test_a_transaction_index_is_noticed() -> None:
    found = list_partition(disk_with(log_file_name(0), transaction_index_file_name(0)), "t-0")
    assert found.has_transaction_index


def grow(disk: FakeFileSystem, name: str) -> None:
    disk.open(f"t-0/{name}", writable=True, create=True).pwrite(b"grown", 0)


CHANGES = {
    "nothing": lambda disk: None,
    "an append": lambda disk: grow(disk, log_file_name(20)),
    "a segment": lambda disk: grow(disk, log_file_name(30)),
    "an index of transactions": lambda disk: grow(disk, transaction_index_file_name(20)),
    "a snapshot": lambda disk: grow(disk, producer_snapshot_file_name(30)),
    "a removed segment": lambda disk: disk.remove(f"t-0/{log_file_name(3)}"),
    "a segment on its way out": lambda disk: disk.rename(
        f"t-0/{log_file_name(3)}", f"t-0/{log_file_name(3)}.deleted"
    ),
    "a segment that is replaced": lambda disk: disk.rename(
        f"t-0/{log_file_name(20)}", f"t-0/{log_file_name(20)}.swap"
    ),
    "a cut at the end": lambda disk: disk.open(f"t-0/{log_file_name(20)}", writable=True).truncate(
        1
    ),
    "a last segment that is empty now": lambda disk: disk.open(
        f"t-0/{log_file_name(20)}", writable=True
    ).truncate(0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_later_listing_finds_what_a_first_one_would(change: str) -> None:
    disk = disk_with(log_file_name(20), log_file_name(3))
    for name in (log_file_name(3), log_file_name(20)):
        grow(disk, name)
    before = list_partition(disk, "t-0")
    CHANGES[change](disk)
    assert list_partition_again(disk, "t-0", before) == list_partition(disk, "t-0")


def test_a_later_listing_asks_for_the_size_of_the_last_segment_only() -> None:
    disk = disk_with(log_file_name(3), log_file_name(20))
    before = list_partition(disk, "t-0")
    for name in (log_file_name(3), log_file_name(20)):
        grow(disk, name)
    sizes = [one.size for one in list_partition_again(disk, "t-0", before).segments]
    grown = [one.size for one in list_partition(disk, "t-0").segments]
    assert sizes == [before.segments[0].size, grown[1]]


def test_a_log_that_was_empty_inside_another_counts_once_it_is_not() -> None:
    disk = disk_with(log_file_name(0))
    disk.open(f"t-0/{log_file_name(0)}", writable=True).pwrite(
        bytes(batch(b"0", b"1", b"2", b"3")), 0
    )
    disk.open(f"t-0/{log_file_name(2)}", create=True)
    before = list_partition(disk, "t-0")
    assert bases(before) == [0]
    grow(disk, log_file_name(2))
    assert bases(list_partition_again(disk, "t-0", before)) == [0, 2]


class Restless(FakeFileSystem):
    """Has another segment at each listing, and never those of before."""

    listings = 0

    def list(self, directory: str) -> list[str]:
        self.listings += 1
        return [log_file_name(self.listings)]


def test_files_that_never_stay_are_given_up_with_our_error() -> None:
    disk = Restless()
    disk.make_directory("t-0")
    for number in range(LISTING_ATTEMPTS + 2):
        disk.open(f"t-0/{log_file_name(number)}", create=True)
    with pytest.raises(CorruptionError, match="change faster than they can be listed"):
        list_partition(disk, "t-0")
