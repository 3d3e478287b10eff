"""Where brokers say that they have their replicas."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.metadata.deciding.replica_directories import PlacedReplica, assign_replicas_to_dirs
from ottla.metadata.directories import UNASSIGNED
from ottla.metadata.image import METADATA_VERSION
from tests.support.kraft_images import then
from tests.support.partition_images import (
    TOPIC_ID,
    broker,
    cluster,
    directory,
    partition,
    partitions_of,
    with_brokers,
)

EPOCH = broker(1).epoch
HERE, THERE = directory(1), directory(1, 7)
UNPLACED = partition((1, 2), directories=(UNASSIGNED, directory(2)))
IMAGE = with_brokers(
    cluster(UNPLACED, UNPLACED, partition((2, 3))), _1=broker(1, directories=(HERE, THERE))
)


def test_a_replica_is_where_its_broker_says() -> None:
    placed = [PlacedReplica(THERE, TOPIC_ID, 0), PlacedReplica(HERE, TOPIC_ID, 1)]
    records, codes = assign_replicas_to_dirs(IMAGE, 1, EPOCH, placed)
    first, second, _ = partitions_of(then(IMAGE, records))
    assert codes == [ErrorCode.NONE] * 2
    assert (first.directories, second.directories) == ((THERE, directory(2)), (HERE, directory(2)))
    assert (first.leader, first.leader_epoch, first.partition_epoch) == (1, 5, 10)
    again, codes = assign_replicas_to_dirs(then(IMAGE, records), 1, EPOCH, placed)
    assert (again, codes) == ([], [ErrorCode.NONE] * 2)


def test_a_replica_in_a_directory_that_is_offline_leaves() -> None:
    placed = [PlacedReplica(directory(1, 9), TOPIC_ID, 0)]
    records, codes = assign_replicas_to_dirs(IMAGE, 1, EPOCH, placed)
    one = partitions_of(then(IMAGE, records))[0]
    assert codes == [ErrorCode.NONE]
    assert (one.leader, one.isr, one.directories[0]) == (2, (2,), directory(1, 9))


def test_what_is_not_its_replica_is_refused_and_the_rest_is_taken() -> None:
    placed = [
        PlacedReplica(HERE, Uuid(b"x" * 16), 0),
        PlacedReplica(HERE, TOPIC_ID, 9),
        PlacedReplica(HERE, TOPIC_ID, 2),
        PlacedReplica(HERE, TOPIC_ID, 0),
    ]
    records, codes = assign_replicas_to_dirs(IMAGE, 1, EPOCH, placed)
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ]
    assert len(records) == 1


def test_an_old_level_and_an_old_epoch_are_refused() -> None:
    with pytest.raises(ApiError) as caught:
        assign_replicas_to_dirs(IMAGE, 1, EPOCH - 1, [])
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    old = cluster(UNPLACED, features={METADATA_VERSION: 16})
    with pytest.raises(ApiError) as caught:
        assign_replicas_to_dirs(old, 1, EPOCH, [])
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
