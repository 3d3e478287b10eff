from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.objects.directory_store import DirectoryStore
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.local_layout import BLOCK_SIZE, LocalTier
from ottla.storage.remote.segment_metadata import IndexType
from ottla.storage.remote.tier_objects import TierObjects
from tests.support.tiers import Uploaded, local_objects, put, uploaded

ONE, OTHER = uploaded(100), uploaded(116, 7, with_aborts=True)


class FarStore(DirectoryStore):
    """A directory whose requests are counted, as if each took its time."""

    read_ahead = 4 * BLOCK_SIZE

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.asked: list[tuple[int, int]] = []

    def get(self, path: str, position: int, size: int) -> bytes:
        self.asked.append((position, size))
        return super().get(path, position, size)


def tier_of(store: DirectoryStore) -> LocalTier:
    return LocalTier(TierObjects(store), "kafka-tiered-storage", BlockCache(8 * BLOCK_SIZE))


def tier_with(path: Path, *segments: Uploaded) -> LocalTier:
    for one in segments:
        put(path, local_objects(one))
    return tier_of(DirectoryStore(str(path)))


def test_the_objects_say_what_the_names_do_not(tmp_path: Path) -> None:
    tier = tier_with(tmp_path, OTHER, ONE, uploaded(0, topic="payments", partition=11))
    found = list(tier.segments("orders"))
    unknown = {"broker_id": -1, "event_timestamp_ms": -1}
    assert found == [
        replace(ONE.metadata, has_no_transactions=True, **unknown),
        replace(OTHER.metadata, **unknown),
    ]
    assert [one.partition.partition for one in tier.segments()] == [0, 0, 11]
    assert [one.partition.topic for one in tier.segments(partition=11)] == ["payments"]
    assert list(tier.segments("orders", 11)) == []


def test_a_segment_without_index_entries_is_read_from_its_start(tmp_path: Path) -> None:
    one = uploaded(100, 1)
    (found,) = tier_with(tmp_path, one).segments()
    assert (found.end_offset, found.leader_epochs) == (101, ((3, 100),))
    assert found.max_timestamp_ms == one.metadata.max_timestamp_ms


@pytest.mark.parametrize("ending", ["log", "snapshot"])
def test_an_upload_that_is_not_complete_or_half_deleted_is_left_out(
    ending: str, tmp_path: Path
) -> None:
    tier = tier_with(tmp_path, ONE, OTHER)
    next(tmp_path.rglob(f"*100-*.{ending}")).unlink()
    assert [one.start_offset for one in tier.segments()] == [116]


@pytest.mark.parametrize("ending", ["index", "timeindex", "leader_epoch_checkpoint"])
def test_a_complete_upload_that_has_lost_an_object_is_damaged(ending: str, tmp_path: Path) -> None:
    tier = tier_with(tmp_path, ONE)
    next(tmp_path.rglob(f"*.{ending}")).unlink()
    with pytest.raises(CorruptionError, match=rf"{ending} at byte 0: is missing \(orders-0, from"):
        list(tier.segments())


def test_a_log_without_its_end_is_not_taken_for_a_shorter_segment(tmp_path: Path) -> None:
    tier = tier_with(tmp_path, ONE)
    path = next(tmp_path.rglob("*.log"))
    path.write_bytes(ONE.log[:-1])
    with pytest.raises(CorruptionError, match=r"the last batch is cut short \(orders-0, from"):
        list(tier.segments())
    path.write_bytes(b"")
    with pytest.raises(CorruptionError, match="orders-0, from"):
        list(tier.segments())


def test_a_checkpoint_without_the_segments_epochs_is_damage(tmp_path: Path) -> None:
    tier = tier_with(tmp_path, ONE)
    next(tmp_path.rglob("*.leader_epoch_checkpoint")).write_text("0\n1\n5 116\n")
    with pytest.raises(CorruptionError, match="has no leader epoch of the segment"):
        list(tier.segments())


def test_a_directory_is_asked_for_what_is_read(tmp_path: Path) -> None:
    put(tmp_path, local_objects(ONE))
    store = FarStore(str(tmp_path))
    store.read_ahead = 0
    tier = tier_of(store)
    assert tier.read_log(ONE.metadata, 7, 100) == ONE.log[7:107]
    assert store.asked == [(0, 61), (7, 100)]


def test_an_object_store_is_asked_for_more_where_reading_goes_on(tmp_path: Path) -> None:
    padded = ONE.log + bytes(9 * BLOCK_SIZE)
    one = Uploaded(replace(ONE.metadata, size=len(padded)), padded, ONE.indexes)
    put(tmp_path, local_objects(one))
    store = FarStore(str(tmp_path))
    tier, step = tier_of(store), BLOCK_SIZE // 2
    read = [tier.read_log(one.metadata, at, step) for at in range(0, len(padded), step)]
    assert b"".join(read) == padded
    assert [at for at, _ in store.asked[1:]] == [0, 4 * BLOCK_SIZE, 8 * BLOCK_SIZE]
    other = FarStore(str(tmp_path))
    assert tier_of(other).read_log(one.metadata, 6 * BLOCK_SIZE, 9) == bytes(9)
    assert other.asked[1:] == [(6 * BLOCK_SIZE, BLOCK_SIZE)]


def test_a_transaction_index_that_the_segment_does_not_have_is_none(tmp_path: Path) -> None:
    tier = tier_with(tmp_path, ONE, OTHER)
    assert tier.read_index(ONE.metadata, IndexType.TRANSACTION) is None
    flagged = replace(OTHER.metadata, has_no_transactions=True)
    assert tier.read_index(flagged, IndexType.TRANSACTION) is None
    assert tier.read_index(OTHER.metadata, IndexType.TRANSACTION)


def test_a_topic_whose_name_leads_out_of_the_tier_is_refused(tmp_path: Path) -> None:
    tier = tier_with(tmp_path / "a", ONE)
    place = replace(ONE.metadata.partition, topic="../../../b/orders")
    with pytest.raises(CorruptionError, match="is no name of an object"):
        tier.log_size(replace(ONE.metadata, partition=place))


@pytest.mark.parametrize("ending", ["log", "index", "leader_epoch_checkpoint"])
def test_a_segment_that_is_deleted_while_it_is_examined_is_left_out(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = tier_with(tmp_path, ONE, OTHER)
    read, size = DirectoryStore.read, DirectoryStore.size

    def delete(path: str) -> None:
        if path.endswith(f".{ending}") and "100-" in path:
            for place in tmp_path.rglob("*100-*"):
                place.unlink()

    def read_later(self: DirectoryStore, path: str) -> bytes:
        delete(path)
        return read(self, path)

    def size_later(self: DirectoryStore, path: str) -> int:
        delete(path)
        return size(self, path)

    monkeypatch.setattr(DirectoryStore, "read", read_later)
    monkeypatch.setattr(DirectoryStore, "size", size_later)
    assert [one.start_offset for one in tier.segments()] == [116]
