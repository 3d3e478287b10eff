import logging
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import OsFileSystem
from ottla.objects.directory_store import DirectoryStore
from ottla.storage.files.filenames import REMOTE_INDEX_CACHE
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.index_cache import MEMORY_SIZE, IndexCache, file_name
from ottla.storage.remote.local_layout import LocalTier
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from ottla.storage.remote.tier_objects import TierObjects
from tests.support.tiers import Uploaded, local_objects, put, uploaded

ONE, OTHER = uploaded(0, 8, with_aborts=True), uploaded(16, 8)
KINDS = (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)


class CountedTier(LocalTier):
    """Says which indexes were fetched."""

    def __init__(self, path: Path, *segments: Uploaded) -> None:
        for one in segments:
            put(path, local_objects(one))
        objects = TierObjects(DirectoryStore(str(path)))
        super().__init__(objects, "kafka-tiered-storage", BlockCache(1 << 20))
        self.fetched: list[tuple[int, IndexType]] = []

    def read_index(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes | None:
        self.fetched.append((segment.start_offset, kind))
        return super().read_index(segment, kind)


class Place:
    """A tier of two segments, the folder of its cache, and the limits of that."""

    def __init__(self, root: Path, max_size: int = 1 << 20) -> None:
        self.tier = CountedTier(root / "tier", ONE, OTHER)
        self.folder = root / REMOTE_INDEX_CACHE
        self.remote_log_index_file_cache_total_size_bytes = max_size
        self.remote_log_index_file_cache_ttl_ms = 1000

    def cache(self) -> IndexCache:
        return IndexCache(self.tier, OsFileSystem(), str(self.folder), lambda: self)

    def path(self, one: Uploaded, kind: IndexType) -> Path:
        return self.folder / file_name(one.metadata, kind)

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


def contents(cache: IndexCache, one: Uploaded) -> list[bytes]:
    return [cache.get(one.metadata, kind) for kind in KINDS]


def expected(one: Uploaded) -> list[bytes]:
    return [one.indexes.get(kind, b"") for kind in KINDS]


def test_an_index_is_fetched_once_and_kept_under_kafkas_name(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for _ in range(2):
        assert contents(place.cache(), ONE) == expected(ONE)
    assert place.tier.fetched == [(0, kind) for kind in KINDS]
    stem = file_name(ONE.metadata, IndexType.OFFSET).removesuffix(".index")
    assert stem.startswith("0_")
    assert place.names == {stem + suffix for suffix in (".index", ".timeindex", ".txnindex")}


def test_a_segment_without_transaction_index_has_an_empty_one(tmp_path: Path) -> None:
    place = Place(tmp_path)
    cache = place.cache()
    assert contents(cache, OTHER) == expected(OTHER)
    assert contents(cache, OTHER)[2] == b""
    assert len(place.tier.fetched) == 3


def test_an_empty_transaction_index_is_not_believed_after_a_start(tmp_path: Path) -> None:
    """A power failure may have emptied it, and aborted records would look committed."""
    place = Place(tmp_path)
    contents(place.cache(), ONE)
    place.path(ONE, IndexType.TRANSACTION).write_bytes(b"")
    assert contents(place.cache(), ONE) == expected(ONE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named_and_fetched_again(
    tmp_path: Path, kind: IndexType, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path)
    contents(place.cache(), ONE)
    path = place.path(ONE, kind)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff\xff")
    assert place.cache().get(ONE.metadata, kind) == ONE.indexes[kind]
    assert str(path) in caplog.text
    assert path.read_bytes() == ONE.indexes[kind]


def test_a_start_removes_what_is_half_written_or_half_deleted(tmp_path: Path) -> None:
    place = Place(tmp_path)
    contents(place.cache(), ONE)
    stem = file_name(ONE.metadata, IndexType.OFFSET)
    for name in (f"{stem}.3.tmp", f"{stem}.tmp", f"{stem}.deleted", f"{stem}.3.tmp.deleted"):
        (place.folder / name).write_bytes(b"half")
    (place.folder / "a note").write_text("of somebody else")
    place.cache().load()
    assert {one for one in place.names if one.endswith((".tmp", ".deleted"))} == set()
    assert "a note" in place.names
    assert stem in place.names


def test_the_files_least_recently_used_are_removed_first(tmp_path: Path) -> None:
    place = Place(tmp_path)
    sizes = [len(one) for one in (*expected(ONE), *expected(OTHER))]
    place.remote_log_index_file_cache_total_size_bytes = sum(sizes) - 1
    cache = place.cache()
    contents(cache, ONE)
    assert cache.get(ONE.metadata, IndexType.OFFSET)
    contents(cache, OTHER)
    assert not place.path(ONE, IndexType.TIMESTAMP).exists()
    assert place.path(ONE, IndexType.OFFSET).exists()
    assert place.path(OTHER, IndexType.OFFSET).exists()
    assert (
        sum(path.stat().st_size for path in place.folder.iterdir())
        <= place.remote_log_index_file_cache_total_size_bytes
    )


def test_files_that_were_not_used_for_some_time_are_removed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    cache = place.cache()
    contents(cache, ONE)
    cache.now_ms = 900
    cache.get(ONE.metadata, IndexType.OFFSET)
    cache.now_ms = 1500
    contents(cache, OTHER)
    assert place.path(ONE, IndexType.OFFSET).exists()
    assert not place.path(ONE, IndexType.TIMESTAMP).exists()


def test_a_smaller_limit_counts_from_the_next_start(tmp_path: Path) -> None:
    place = Place(tmp_path)
    contents(place.cache(), ONE)
    place.remote_log_index_file_cache_total_size_bytes = 1
    place.cache().load()
    assert {path.stat().st_size for path in place.folder.iterdir()} <= {0}


def test_an_index_larger_than_the_limit_stays_in_memory_only(tmp_path: Path) -> None:
    place = Place(tmp_path, max_size=1)
    cache = place.cache()
    for _ in range(2):
        assert cache.get(ONE.metadata, IndexType.OFFSET) == ONE.indexes[IndexType.OFFSET]
    assert len(place.tier.fetched) == 1
    assert not place.folder.exists()


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MEMORY_SIZE > 1 << 20
    monkeypatch.setattr("ottla.storage.remote.index_cache.MEMORY_SIZE", 40)
    place = Place(tmp_path)
    tier = place.tier
    cache = IndexCache(tier, OsFileSystem(), None, lambda: place)
    for one in (ONE, OTHER, ONE):
        cache.get(one.metadata, IndexType.OFFSET)
    assert len(tier.fetched) == 3


def test_a_forgotten_segment_is_fetched_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    cache = place.cache()
    contents(cache, ONE)
    cache.forget(ONE.metadata)
    assert place.names == set()
    assert contents(cache, ONE) == expected(ONE)
    assert len(place.tier.fetched) == 6


def test_a_file_that_somebody_removed_is_fetched_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    contents(place.cache(), ONE)
    cache = place.cache()
    cache.load()
    place.path(ONE, IndexType.OFFSET).unlink()
    assert contents(cache, ONE) == expected(ONE)


def test_a_disk_that_fails_is_named_once_and_costs_requests_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / REMOTE_INDEX_CACHE).write_text("a file in the place of the folder")
    cache = Place(tmp_path).cache()
    with caplog.at_level(logging.WARNING):
        assert contents(cache, ONE) == expected(ONE)
        assert contents(cache, OTHER) == expected(OTHER)
    assert len(caplog.records) == 1
    assert str(tmp_path / REMOTE_INDEX_CACHE) in caplog.text


def test_damage_in_the_tier_is_never_cached(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (path,) = (tmp_path / "tier").rglob(f"{ONE.metadata.start_offset:020}-*.timeindex")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match=path.name):
        place.cache().get(ONE.metadata, IndexType.TIMESTAMP)
    assert not place.folder.exists()
