from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import OsFileSystem
from ottla.objects.directory_store import DirectoryStore
from ottla.storage.remote.aiven_encryption import TierKeys
from ottla.storage.remote.aiven_layout import AivenTier, main_key
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.segment_metadata import IndexType
from ottla.storage.remote.tier_objects import TierObjects
from tests.support.tiers import (
    Style,
    aiven_key,
    aiven_objects,
    compact_string,
    put,
    tagged_metadata,
    uploaded,
)

ONE, OTHER = uploaded(100), uploaded(116, 7, with_aborts=True)


def tier_at(path: Path, prefix: str = "", ahead: int = 0) -> AivenTier:
    store = DirectoryStore(str(path))
    store.read_ahead = ahead
    return AivenTier(TierObjects(store), prefix, BlockCache(1 << 20), TierKeys([], OsFileSystem()))


def test_manifests_say_what_the_segments_are(tmp_path: Path) -> None:
    for one in (OTHER, ONE, uploaded(0, topic="orders-2", partition=11)):
        put(tmp_path, aiven_objects(one, Style(prefix="tiers/x-")))
    tier = tier_at(tmp_path, "tiers/x-")
    assert list(tier.segments("orders")) == [
        replace(ONE.metadata, has_no_transactions=True),
        OTHER.metadata,
    ]
    assert [one.start_offset for one in tier.segments(partition=11)] == [0]
    assert list(tier.segments("orders", 11)) == []
    assert [one.partition.topic for one in tier.segments()] == ["orders-2", "orders", "orders"]
    assert main_key(ONE.metadata) == aiven_key(ONE)


def test_a_segment_without_a_manifest_is_not_complete(tmp_path: Path) -> None:
    for one in (ONE, OTHER):
        put(tmp_path, aiven_objects(one, Style()))
    (tmp_path / f"{aiven_key(ONE)}.rsm-manifest").unlink()
    tier = tier_at(tmp_path)
    assert list(tier.segments()) == [OTHER.metadata]
    with pytest.raises(CorruptionError, match=r"rsm-manifest at byte 0: is missing \(orders-0, "):
        tier.log_size(ONE.metadata)


def test_a_manifest_under_the_name_of_another_is_damage(tmp_path: Path) -> None:
    for one in (ONE, OTHER):
        put(tmp_path, aiven_objects(one, Style()))
    swapped = tmp_path / f"{aiven_key(ONE)}.rsm-manifest"
    swapped.write_bytes((tmp_path / f"{aiven_key(OTHER)}.rsm-manifest").read_bytes())
    tier = tier_at(tmp_path)
    with pytest.raises(CorruptionError, match="it is the manifest of another segment"):
        list(tier.segments())
    with pytest.raises(CorruptionError, match=r"another segment \(orders-0, offsets 100 to 115\)"):
        tier.log_size(ONE.metadata)


@pytest.mark.parametrize(
    ("name", "value"),
    [("end_offset", 120), ("max_timestamp_ms", 5), ("size", 7), ("leader_epochs", ((0, 100),))],
)
def test_a_manifest_that_contradicts_the_metadata_is_damage(
    name: str, value: object, tmp_path: Path
) -> None:
    put(tmp_path, aiven_objects(ONE, Style()))
    with pytest.raises(CorruptionError, match=f"its {name.replace('_', ' ')} is"):
        tier_at(tmp_path).log_size(replace(ONE.metadata, **{name: value}))


def custom(prefix: str | None, key: str | None = None) -> bytes:
    texts = [(tag, text) for tag, text in ((1, prefix), (2, key)) if text is not None]
    return tagged_metadata(*[(tag, compact_string(text)) for tag, text in texts])


@pytest.mark.parametrize("written_prefix", ["tiers/", "a/b/", "a/b/c-", ""])
@pytest.mark.parametrize("folder", [".", "a", "a/b"])
def test_objects_are_found_by_the_prefix_that_they_were_written_with(
    written_prefix: str, folder: str, tmp_path: Path
) -> None:
    """Although `key.prefix` is another now, and the address may have a part of it."""
    if not written_prefix.startswith(folder.strip(".")):
        folder = "."
    put(tmp_path, aiven_objects(ONE, Style(prefix=written_prefix)))
    segment = replace(ONE.metadata, custom_metadata=custom(written_prefix))
    assert tier_at(tmp_path / folder, "today/").read_log(segment, 3, 50) == ONE.log[3:53]


def test_objects_are_found_by_the_key_that_they_were_written_with(tmp_path: Path) -> None:
    for path, content in aiven_objects(ONE, Style()):
        put(tmp_path, iter([(f"old/key.{path.rpartition('.')[2]}", content)]))
    segment = replace(ONE.metadata, custom_metadata=custom("old/", "key"))
    assert tier_at(tmp_path, "today/").log_size(segment) == len(ONE.log)


def test_segments_under_another_prefix_can_be_read_as_they_are_listed(tmp_path: Path) -> None:
    put(tmp_path, aiven_objects(ONE, Style(prefix="x-")))
    tier = tier_at(tmp_path)
    (found,) = tier.segments()
    assert tier.read_log(found, 0, 10) == ONE.log[:10]


@pytest.mark.parametrize("prefix", ["../", "a/../../", "/etc/", "a//", "./", "a\0/"])
def test_a_prefix_that_leaves_the_store_is_refused(prefix: str, tmp_path: Path) -> None:
    segment = replace(ONE.metadata, custom_metadata=custom(prefix))
    with pytest.raises(CorruptionError, match="is no name of an object"):
        tier_at(tmp_path / "a").log_size(segment)


def test_custom_metadata_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    segment = replace(ONE.metadata, custom_metadata=b"\x05")
    with pytest.raises(CorruptionError, match=r"custom metadata .* \(orders-0, offsets 100 to"):
        tier_at(tmp_path).log_size(segment)


def test_chunks_that_follow_are_asked_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, aiven_objects(ONE, Style(chunk_size=100)))
    asked: list[tuple[int, int]] = []
    get = DirectoryStore.get

    def counted(self: DirectoryStore, path: str, position: int, size: int) -> bytes:
        asked.append((position, size))
        return get(self, path, position, size)

    monkeypatch.setattr(DirectoryStore, "get", counted)
    tier = tier_at(tmp_path, ahead=1000)
    read = [tier.read_log(ONE.metadata, at, 90) for at in range(0, len(ONE.log), 90)]
    assert b"".join(read) == ONE.log
    assert [at for at, _ in asked] == list(range(0, len(ONE.log), 1000))
    asked.clear()
    assert tier_at(tmp_path).read_log(ONE.metadata, 250, 900) == ONE.log[250:1150]
    assert asked == [(0, 100), (200, 1000)]


def test_a_segment_without_a_transaction_index_has_none(tmp_path: Path) -> None:
    for one in (ONE, OTHER):
        put(tmp_path, aiven_objects(one, Style()))
    tier = tier_at(tmp_path)
    assert tier.read_index(ONE.metadata, IndexType.TRANSACTION) is None
    assert tier.read_index(OTHER.metadata, IndexType.TRANSACTION)
