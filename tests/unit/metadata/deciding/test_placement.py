"""Where the replicas of new partitions are put, beside Kafka's own examples."""

from collections import Counter

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.deciding.placement import Assignment, Racks, Start, placing

FIVE = dict.fromkeys(range(5))
RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def place(racks: Racks, partition_count: int, replication_factor: int, start: Start) -> Assignment:
    return dict(placing(racks, partition_count, replication_factor, start))


def test_without_racks_the_replicas_go_round() -> None:
    assert place(FIVE, 10, 3, Start()) == {
        0: (0, 1, 2), 1: (1, 2, 3), 2: (2, 3, 4), 3: (3, 4, 0), 4: (4, 0, 1),
        5: (0, 2, 3), 6: (1, 3, 4), 7: (2, 4, 0), 8: (3, 0, 1), 9: (4, 1, 2),
    }  # fmt: skip


def test_with_racks_each_partition_has_replicas_in_all_of_them() -> None:
    assert place(RACKS, 7, 3, Start()) == {
        0: (0, 3, 1), 1: (3, 1, 5), 2: (1, 5, 4), 3: (5, 4, 2), 4: (4, 2, 0), 5: (2, 0, 3),
        6: (0, 4, 2),
    }  # fmt: skip


def test_leaders_and_replicas_are_spread_evenly_over_brokers_and_racks() -> None:
    placed = place(RACKS, 12, 3, Start(index=4, shift=2)).values()
    assert set(Counter(one[0] for one in placed).values()) == {2}
    assert set(Counter(broker for one in placed for broker in one).values()) == {6}
    assert all(len({RACKS[broker] for broker in one}) == 3 for one in placed)


def test_more_replicas_than_racks_use_no_broker_twice() -> None:
    for replicas in place(RACKS, 12, 5, Start()).values():
        assert len(set(replicas)) == 5


def test_where_one_broker_has_no_rack_none_counts() -> None:
    mixed = {**RACKS, 5: None}
    assert place(mixed, 6, 2, Start()) == place(dict.fromkeys(RACKS), 6, 2, Start())


def test_new_partitions_go_on_where_the_old_ones_ended() -> None:
    whole = place(FIVE, 8, 2, Start(index=2, shift=1))
    later = place(FIVE, 3, 2, Start(index=2, shift=1, partition=5))
    # The shift begins again, as in Kafka.
    assert [one[0] for one in later.values()] == [whole[n][0] for n in (5, 6, 7)]


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 6, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_counts_that_cannot_be_are_refused(partitions: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        place(FIVE, partitions, factor, Start())
    assert caught.value.code is code


def test_one_broker_has_everything() -> None:
    assert place({7: None}, 2, 1, Start()) == {0: (7,), 1: (7,)}
