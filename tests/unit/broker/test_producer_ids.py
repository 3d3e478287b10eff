"""Producer ids: none is handed out twice, whatever happens in between."""

import pytest

from ottla.base.errors import CorruptionError, StorageError
from ottla.base.files import join, replace_file
from ottla.broker.producer_ids import (
    BLOCK_SIZE,
    PRODUCER_ID_FILE_NAME,
    ProducerIds,
    read_producer_ids,
    write_producer_ids,
)
from ottla.testing import CrashMode, FakeFileSystem


def ids_of(file_system: FakeFileSystem) -> ProducerIds:
    return ProducerIds(
        read_producer_ids(file_system, "/d"),
        lambda end: write_producer_ids(file_system, "/d", end),
    )


def disk() -> FakeFileSystem:
    file_system = FakeFileSystem()
    file_system.make_directory("/d")
    file_system.sync_directory("/")
    return file_system


def test_ids_follow_each_other_across_blocks() -> None:
    ids = ids_of(disk())
    assert [ids.allocate() for _ in range(2 * BLOCK_SIZE + 1)] == list(range(2 * BLOCK_SIZE + 1))


def test_a_crash_after_any_number_of_ids_repeats_none() -> None:
    file_system = disk()
    seen: set[int] = set()
    for count in (1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 3):
        ids = ids_of(file_system)
        given = [ids.allocate() for _ in range(count)]
        assert not seen & set(given)
        seen.update(given)
        file_system = file_system.crash(CrashMode.STRICT)


def test_an_id_whose_block_could_not_be_written_is_not_given() -> None:
    def fail(_: int) -> None:
        raise StorageError("/d", "full")

    ids = ProducerIds(0, fail)
    for _ in range(2):
        with pytest.raises(StorageError):
            ids.allocate()


def test_without_a_file_the_first_id_is_zero() -> None:
    assert read_producer_ids(disk(), "/d") == 0


@pytest.mark.parametrize("content", [b"", b"0", b"0\nx\n", b"1\n5\n", b"0\n-1\n", b"\xff\n\xff"])
def test_a_damaged_file_is_a_corruption_that_names_it(content: bytes) -> None:
    file_system = disk()
    replace_file(file_system, join("/d", PRODUCER_ID_FILE_NAME), content)
    with pytest.raises(CorruptionError, match="/d/ottla-producer-ids"):
        read_producer_ids(file_system, "/d")
