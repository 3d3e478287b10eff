"""A log that has lost its leader epochs gets those of its newest upload, before anything else."""

import pytest

from ottla.broker.tiering.lost_epochs import completed
from ottla.storage.files.filenames import INTEGRITY, LEADER_EPOCHS
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.remote_storage import TierError
from tests.support.tier_cluster import TierCluster
from tests.unit.broker.tiering.test_tier_cluster import by, ranges


def entries(*pairs: tuple[int, int]) -> tuple[EpochEntry, ...]:
    return tuple(EpochEntry(*one) for one in pairs)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (entries((4, 30)), entries((0, 0), (2, 10), (4, 25))),
        (entries((2, 15), (4, 30)), entries((0, 0), (2, 10), (4, 30))),
        (entries((5, 30), (6, 40)), entries((0, 0), (2, 10), (4, 25), (5, 30), (6, 40))),
        (entries((2, 10), (4, 30)), entries((0, 0), (2, 10), (4, 30))),
        ((), entries((0, 0), (2, 10))),
    ],
)
def test_the_epochs_before_the_known_ones_are_those_of_the_upload(
    known: tuple[EpochEntry, ...], expected: tuple[EpochEntry, ...]
) -> None:
    assert completed(entries((0, 0), (2, 10), (4, 25)), known, 25) == expected


@pytest.fixture
def lost() -> tuple[TierCluster, tuple[EpochEntry, ...]]:
    """A log of three epochs, whose leader has lost its file; the first two are in the tier only.

    The second is what was in the file.
    """
    cluster = TierCluster()
    for _ in range(3):
        cluster.lead(1)
        cluster.fill(1, 12)
    cluster.work()
    expected = cluster.log(1).epochs.entries
    assert cluster.log(1).local_start_offset == 30
    cluster.kill(1)
    for name in (LEADER_EPOCHS, INTEGRITY):
        cluster.disks[1].remove(f"/d/t-0/{name}")
    cluster.start(1)
    cluster.lead(1)
    assert len(cluster.log(1).epochs.entries) < 3
    return cluster, expected


def test_the_epochs_are_added_and_nothing_is_deleted(
    lost: tuple[TierCluster, tuple[EpochEntry, ...]],
) -> None:
    cluster, expected = lost
    cluster.work()
    assert cluster.log(1).epochs.entries[:3] == expected
    assert ranges(cluster, 1) == [(0, 9, 1), (10, 19, 1), (20, 29, 1)]
    assert cluster.values(1) == by(1, 36)


def test_until_the_store_answers_nothing_is_copied_or_deleted(
    lost: tuple[TierCluster, tuple[EpochEntry, ...]],
) -> None:
    cluster, expected = lost
    store = cluster.stores[1]

    def refuse(*_: object) -> bytes:
        raise TierError("no", is_retriable=True)

    store.read_index = refuse  # type: ignore[attr-defined]
    cluster.fill(1, 20)
    cluster.work()
    assert store.calls == []
    assert len(cluster.log(1).epochs.entries) < 3
    del store.read_index  # type: ignore[attr-defined]
    cluster.work(40)
    assert cluster.log(1).epochs.entries[:3] == expected
    assert ranges(cluster, 1)[:3] == [(0, 9, 1), (10, 19, 1), (20, 29, 1)]
    assert cluster.values(1) == by(1, 56)
