"""Producer ids: none is handed out twice, whatever happens in between."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import join, read_file, replace_file
from ottla.broker.producer_ids import (
    BLOCK_SIZE,
    PRODUCER_ID_FILE_NAME,
    ClusterProducerIds,
    ProducerIds,
    read_producer_ids,
    write_producer_ids,
)
from ottla.broker.waiting import Waiting
from ottla.storage.files.checksummed import with_checksum
from ottla.testing import CrashMode, FakeFileSystem
from ottla.zookeeper.controllers import ProducerIdBlock
from tests.support.brokers import open_broker


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


def test_no_flipped_bit_and_no_cut_is_read_as_another_id() -> None:
    file_system = disk()
    path = join("/d", PRODUCER_ID_FILE_NAME)
    write_producer_ids(file_system, "/d", 3000)
    content = read_file(file_system, path)
    harmed = [content[:size] for size in range(len(content))]
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        harmed.append(bytes(flipped))
    for one in harmed:
        replace_file(file_system, path, one)
        with pytest.raises(CorruptionError, match="/d/ottla-producer-ids"):
            read_producer_ids(file_system, "/d")


def test_a_file_of_another_version_is_refused_by_name_with_what_to_do() -> None:
    file_system = disk()
    path = join("/d", PRODUCER_ID_FILE_NAME)
    replace_file(file_system, path, with_checksum(b"2\n3000\n"))
    with pytest.raises(CorruptionError, match=f"{path}.*version 2, and this ottla knows 1 only"):
        read_producer_ids(file_system, "/d")


def test_ids_that_a_lost_file_had_counted_are_not_handed_out_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = disk()
    broker = open_broker(file_system)
    given = [broker.allocate_producer_id() for _ in range(3)]
    broker.close()
    file_system.remove(join("/d", PRODUCER_ID_FILE_NAME))
    for _ in range(2):
        broker = open_broker(file_system)
        assert "/d/ottla-producer-ids is missing" in caplog.text
        given.append(broker.allocate_producer_id())
        broker.close()
    assert sorted({*given}) == given
    assert given[-1] - given[-2] == BLOCK_SIZE, "once the file is there again, ids go on"


@pytest.mark.parametrize("content", [b"", b"0", b"0\nx\n", b"1\n5\n", b"0\n-1\n", b"\xff\n\xff"])
def test_a_damaged_file_is_a_corruption_that_names_it(content: bytes) -> None:
    file_system = disk()
    replace_file(file_system, join("/d", PRODUCER_ID_FILE_NAME), content)
    with pytest.raises(CorruptionError, match="/d/ottla-producer-ids"):
        read_producer_ids(file_system, "/d")


# Of a cluster


def test_ids_of_a_cluster_come_from_the_blocks_that_it_hands_out() -> None:
    asked: list[Waiting[Any]] = []

    def ask() -> Waiting[Any]:
        asked.append(Waiting())
        return asked[-1]

    ids = ClusterProducerIds(ask)
    with pytest.raises(ApiError) as error:
        ids.allocate()
    assert error.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    asked[0].result = ProducerIdBlock(broker_id=1, start=5000, end=5009)
    assert [ids.allocate() for _ in range(8)] == list(range(5000, 5008))
    assert len(asked) == 1
    assert [ids.allocate(), ids.allocate()] == [5008, 5009]
    assert len(asked) == 2, "the next one is asked for before the last id is gone"
    with pytest.raises(ApiError):
        ids.allocate()
    asked[1].result = ProducerIdBlock(broker_id=1, start=9000, end=9000)
    assert ids.allocate() == 9000
