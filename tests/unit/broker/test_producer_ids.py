"""Producer ids: none is handed out twice, whatever happens in between."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.broker.coordination.producer_ids import (
    BLOCK_SIZE,
    MOST_LOST,
    ClusterProducerIds,
    ProducerIds,
)
from ottla.broker.waiting.rooms import Waiting
from ottla.testing import CrashMode, FakeFileSystem
from ottla.zookeeper.controllers import ProducerIdBlock
from tests.support.brokers import open_broker
from tests.support.metadata import image_of, segment


def ids_of(file_system: FakeFileSystem) -> ProducerIds:
    return open_broker(file_system).producer_ids


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
        with pytest.raises(ApiError, match="disk error"):
            ids.allocate()


def test_the_metadata_log_has_the_first_id_of_the_next_block() -> None:
    file_system = disk()
    ids = ids_of(file_system)
    assert image_of(file_system).next_producer_id == 0
    ids.allocate()
    assert image_of(file_system).next_producer_id == BLOCK_SIZE


def test_ids_that_the_damaged_part_of_a_log_had_counted_are_not_handed_out_again() -> None:
    file_system = disk()
    broker = open_broker(file_system)
    given = [broker.producer_ids.allocate() for _ in range(BLOCK_SIZE + 1)]
    broker.close()
    file = file_system.open(segment(), writable=True)
    place = file.size() - 5
    file.pwrite(bytes([file.pread(1, place)[0] ^ 1]), place)
    again = open_broker(file_system).producer_ids
    assert again._next_id >= given[-1] + MOST_LOST // 2
    with pytest.raises(ApiError, match="cannot be read to its end"):
        again.allocate()


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
