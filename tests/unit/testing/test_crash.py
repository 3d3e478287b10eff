"""What a seed may do to a disk: everything a real power failure does, and nothing worse."""

from itertools import product
from random import Random

import pytest

from ottla.base.files import FileSystem, join, read_file
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.crash import SECTOR_SIZE, WriteOutcome, tear
from ottla.testing.disk import Write

SEEDS = range(200)
SYNCED = bytes(range(1, 101))


def tree(file_system: FileSystem, directory: str = ".") -> dict[str, bytes | None]:
    """Every path under a directory, with the content of files."""
    found: dict[str, bytes | None] = {}
    for name in file_system.list(directory):
        path = join(directory, name)
        status = file_system.status(path)
        assert status is not None
        found[path] = None if status.is_directory else read_file(file_system, path)
        if status.is_directory:
            found |= tree(file_system, path)
    return found


def disk_with(unsynced: dict[int, bytes]) -> FakeFileSystem:
    """One file of a hundred synced bytes, and writes after them that were not."""
    disk = FakeFileSystem()
    file = disk.open("a", create=True)
    file.pwrite(SYNCED, 0)
    file.sync()
    disk.sync_directory(".")
    for position, data in unsynced.items():
        file.pwrite(data, position)
    return disk


def outcomes(disk: FakeFileSystem) -> list[bytes]:
    return [read_file(disk.crash(CrashMode.RANDOM, seed), "a") for seed in SEEDS]


def test_a_seed_always_decides_the_same() -> None:
    def crashed(seed: int) -> dict[str, bytes | None]:
        disk = disk_with({100: b"x" * 5000})
        disk.make_directory("d")
        disk.open("d/b", create=True).pwrite(b"y" * 5000, 0)
        return tree(disk.crash(CrashMode.RANDOM, seed))

    trees = [crashed(seed) for seed in range(30)]
    assert trees == [crashed(seed) for seed in range(30)]
    assert len({str(one) for one in trees}) > 10


def test_synced_bytes_stay_whatever_the_seed() -> None:
    for content in outcomes(disk_with({100: b"x" * 1000, 1100: b"y" * 10, 3000: b"z"})):
        assert content[:100] == SYNCED
        assert len(content) <= 3001


def test_an_unsynced_write_may_be_whole_lost_torn_or_only_a_size() -> None:
    data = bytes([7]) * 3000
    found = outcomes(disk_with({100: data}))
    tails = [content[100:] for content in found]
    assert data in tails
    assert b"" in tails
    assert any(0 < len(tail) < 3000 and tail == data[: len(tail)] for tail in tails)
    assert bytes(3000) in tails
    assert any(len(tail) == 3000 and not set(tail) <= {0, 7} for tail in tails)
    aligned = [content[512:1024] for content in found if len(content) == 3100]
    assert any(sector == bytes(512) for sector in aligned)


def test_a_later_write_may_survive_an_earlier_one() -> None:
    found = outcomes(disk_with({100: b"x" * 10, 110: b"y" * 10}))
    assert SYNCED + bytes(10) + b"y" * 10 in found
    assert SYNCED + b"x" * 10 in found


def test_an_overwrite_leaves_old_or_new_in_each_sector() -> None:
    disk = FakeFileSystem()
    file = disk.open("a", create=True)
    file.pwrite(b"o" * 2048, 0)
    file.sync()
    disk.sync_directory(".")
    file.pwrite(b"n" * 2048, 0)
    found = outcomes(disk)
    assert all(len(content) == 2048 and set(content) <= set(b"on") for content in found)
    assert any(content[:512] == b"n" * 512 and b"o" * 512 in content for content in found)


def test_no_write_after_a_cut_outlives_the_loss_of_the_cut() -> None:
    disk = disk_with({})
    file = disk.open("a", writable=True)
    file.truncate(50)
    file.pwrite(b"new", 50)
    found = outcomes(disk)
    assert SYNCED in found
    assert SYNCED[:50] in found
    assert SYNCED[:50] + b"new" in found
    assert all(content == SYNCED or len(content) <= 53 for content in found)


def test_names_are_undone_last_first() -> None:
    disk = FakeFileSystem()
    for name in "abcd":
        disk.open(name, create=True)
    disk.rename("d", "e")
    disk.remove("a")
    found = {"".join(disk.crash(CrashMode.RANDOM, seed).list(".")) for seed in SEEDS}
    assert found == {"", "a", "ab", "abc", "abcd", "abce", "bce"}


def test_names_of_two_directories_are_undone_independently() -> None:
    disk = FakeFileSystem()
    for name in "de":
        disk.make_directory(name)
    disk.sync_directory(".")
    disk.open("d/a", create=True)
    disk.open("e/b", create=True)
    found = {tuple(sorted(tree(disk.crash(CrashMode.RANDOM, seed)))) for seed in SEEDS}
    assert found >= {("./d", "./d/a", "./e"), ("./d", "./e", "./e/b")}


def test_a_rename_between_directories_is_in_exactly_one_of_them() -> None:
    disk = FakeFileSystem()
    for name in "de":
        disk.make_directory(name)
    disk.open("d/a", create=True)
    for name in (".", "d"):
        disk.sync_directory(name)
    disk.open("d/x", create=True)
    disk.rename("d/a", "e/a")
    disk.open("e/y", create=True)
    for seed in SEEDS:
        after = disk.crash(CrashMode.RANDOM, seed)
        assert ("a" in after.list("d")) != ("a" in after.list("e"))
        assert "a" not in after.list("e") or "x" in after.list("d")


@pytest.mark.parametrize("outcome", WriteOutcome)
def test_every_outcome_keeps_what_the_write_did_not_touch(outcome: WriteOutcome) -> None:
    old = bytes([1]) * 1000
    positions = (0, 10, SECTOR_SIZE, SECTOR_SIZE + 1, 5000)
    sizes = (1, SECTOR_SIZE - 1, SECTOR_SIZE, 3 * SECTOR_SIZE + 1)
    for position, size, seed in product(positions, sizes, range(10)):
        content = bytearray(old)
        tear(content, Write(position, bytes([2]) * size), outcome, Random(seed))
        assert content[: min(position, 1000)] == old[:position]
        assert content[position + size : 1000] == old[position + size :]
        assert len(old) <= len(content) <= max(len(old), position + size)
        assert set(content[position : min(position + size, 1000)]) <= {1, 2}
