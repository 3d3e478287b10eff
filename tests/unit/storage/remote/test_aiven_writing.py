"""Segments written as Aiven's plug-in does, read by a reader of tests' own."""

from functools import cache
from pathlib import Path
from secrets import token_bytes
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.files import OsFileSystem
from ottla.codec.compression import Compression
from ottla.objects.directory_store import DirectoryStore
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.remote.aiven_custom_metadata import read_custom_metadata
from ottla.storage.remote.aiven_encryption import TierKeys
from ottla.storage.remote.aiven_layout import AivenTier
from ottla.storage.remote.aiven_writing import AivenFormat
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import IndexType
from ottla.storage.remote.tier_objects import TierObjects
from tests.support.copying import files_of, segment_files
from tests.support.memory_store import MemoryStore
from tests.support.tier_readers import read_aiven
from tests.support.tiers import Uploaded, aiven_key, uploaded

pytest.importorskip("cryptography")

ONE = uploaded(100, with_aborts=True)
SHORT = uploaded(10, 1)


@cache
def private_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=1536)


def form(**changes: Any) -> AivenFormat:
    values = {"chunk_size": 700, "random_bytes": token_bytes, **changes}
    if values.pop("encrypts", False):
        values["key_pair"] = "key-1", private_key().public_key()
    return AivenFormat(**values)


def tier_in(store: Any, form: AivenFormat, prefix: str = "") -> AivenTier:
    keys = TierKeys([], OsFileSystem())
    return AivenTier(TierObjects(store), prefix, BlockCache(1 << 20), keys, form)


@pytest.mark.parametrize(
    ("one", "chunk_size"), [(ONE, 700), (ONE, 1 << 20), (SHORT, 1 << 20), (SHORT, 100)]
)
@pytest.mark.parametrize("compresses", [False, True])
@pytest.mark.parametrize("encrypts", [False, True])
def test_another_reader_finds_what_was_written(
    one: Uploaded, compresses: bool, encrypts: bool, chunk_size: int, tmp_path: Path
) -> None:
    store = MemoryStore()
    how = form(compresses=compresses, encrypts=encrypts, chunk_size=chunk_size)
    tier = tier_in(store, how, "a/b-")
    assert tier.copy_segment(one.metadata, files_of(one, str(tmp_path))) is None
    key = aiven_key(one, "a/b-")
    assert list(store.objects) == [f"{key}.log", f"{key}.indexes", f"{key}.rsm-manifest"]
    found = read_aiven(store.objects, one.metadata, "a/b-", private_key())
    assert (found.log, found.indexes) == (one.log, one.indexes)
    assert found.manifest["compression"] == compresses
    assert ("encryption" in found.manifest) == encrypts
    told = found.manifest["remoteLogSegmentMetadata"]
    assert (told["startOffset"], told["endOffset"]) == (
        one.metadata.start_offset,
        one.metadata.end_offset,
    )
    if encrypts:
        assert found.manifest["encryption"]["dataKey"].startswith("key-1:")
        assert b"orders" not in store.objects[f"{key}.log"]
    else:
        assert tier.read_log(one.metadata, 0, len(one.log)) == one.log
        for kind in IndexType:
            assert tier.read_index(one.metadata, kind) == one.indexes.get(kind)


@pytest.mark.slow
@given(
    size=st.integers(1, 5000),
    chunk_size=st.integers(1, 6000),
    compresses=st.booleans(),
    encrypts=st.booleans(),
    indexes=st.dictionaries(st.sampled_from(list(IndexType)), st.binary(max_size=40)),
)
def test_a_log_of_any_size_in_chunks_of_any_size_is_read_back(
    size: int, chunk_size: int, compresses: bool, encrypts: bool, indexes: dict[IndexType, bytes]
) -> None:
    from ottla.testing import FakeFileSystem

    chunk_size = max(chunk_size, size // 100, 1)
    for kind in IndexType:
        if kind is not IndexType.TRANSACTION:
            indexes.setdefault(kind, b"")
    log = (b"0123456789" * 500)[:size]
    files = segment_files(log, indexes, "data", FakeFileSystem())
    store = MemoryStore()
    how = form(chunk_size=chunk_size, compresses=compresses, encrypts=encrypts)
    tier_in(store, how).copy_segment(ONE.metadata, files)
    found = read_aiven(store.objects, ONE.metadata, "", private_key())
    assert (found.log, found.indexes) == (log, indexes)


def test_custom_metadata_says_what_was_asked_for(tmp_path: Path) -> None:
    store = MemoryStore()
    fields = ("REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY")
    tier = tier_in(store, form(custom_fields=fields), "pre/")
    content = tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))
    assert content is not None
    found = read_custom_metadata(content)
    assert found.remote_size == sum(map(len, store.objects.values()))
    assert (found.object_prefix, found.object_key) == ("pre/", aiven_key(ONE))
    only = tier_in(MemoryStore(), form(custom_fields=("OBJECT_PREFIX",)), "pre/")
    content = only.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))
    assert content == b"\x01\x01\x05\x05pre/"


@pytest.mark.parametrize("codec", list(Compression))
def test_a_log_whose_first_batch_is_compressed_is_spared(
    codec: Compression, tmp_path: Path
) -> None:
    builder = RecordBatchBuilder(100, leader_epoch=1, compression=codec)
    builder.append(None, b"v" * 900, 0)
    files = segment_files(builder.build(), ONE.indexes, str(tmp_path))
    store = MemoryStore()
    tier_in(store, form(compresses=True, spares_compressed=True)).copy_segment(ONE.metadata, files)
    manifest = read_aiven(store.objects, ONE.metadata).manifest
    assert manifest["compression"] == (codec is Compression.NONE)


def test_bytes_are_counted_before_they_are_written(tmp_path: Path) -> None:
    store, paced = MemoryStore(), list[tuple[int, int]]()
    how = form(pace=lambda size: paced.append((size, len(store.objects))))
    tier_in(store, how).copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))
    sizes = [min(700, len(ONE.log) - at) for at in range(0, len(ONE.log), 700)]
    indexes = sum(map(len, ONE.indexes.values()))
    assert paced == [*((size, 0) for size in sizes), (indexes, 1)]


def test_a_key_of_this_and_of_another_segment_is_never_the_same(tmp_path: Path) -> None:
    stores = MemoryStore(), MemoryStore()
    for store in stores:
        files: SegmentFiles = files_of(ONE, str(tmp_path))
        tier_in(store, form(encrypts=True)).copy_segment(ONE.metadata, files)
    one, other = (read_aiven(store.objects, ONE.metadata, "", private_key()) for store in stores)
    assert one.manifest["encryption"] != other.manifest["encryption"]
    assert one.log == other.log
    starts = [store.objects[f"{aiven_key(ONE)}.log"][:12] for store in stores]
    assert starts[0] != starts[1]


def test_a_copied_segment_is_deleted_and_again_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tier"
    tier = tier_in(DirectoryStore(str(path)), form())
    tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))
    assert [one.start_offset for one in tier.segments()] == [100]
    for _ in range(2):
        tier.delete_segment(ONE.metadata)
        assert [one for one in path.rglob("*") if one.is_file()] == []
