"""What every layout does: what was uploaded is read, and nothing else in its place."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from secrets import token_bytes
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError, StorageError, UserError
from ottla.base.files import OsFileSystem
from ottla.objects.cloud_store import CloudStore
from ottla.objects.store import StoreError, StreamingStore
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.storage.remote.aiven_encryption import TierKeys
from ottla.storage.remote.aiven_layout import AivenTier
from ottla.storage.remote.aiven_settings import BACKENDS
from ottla.storage.remote.aiven_writing import AivenFormat
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.local_layout import ROOT, LocalTier
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.remote_storage import RemoteStorage, TierError
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from ottla.storage.remote.settings import AIVEN_CLASS, remote_storage_of
from ottla.storage.remote.tier_objects import TierObjects
from tests.support import azure_store, stores
from tests.support.copying import files_of
from tests.support.memory_store import MemoryStore
from tests.support.tier_readers import read_aiven
from tests.support.tiers import (
    Style,
    Uploaded,
    aiven_objects,
    local_objects,
    put,
    uploaded,
)

pytest.importorskip("cryptography")

Objects = Callable[[Uploaded], Iterator[tuple[str, bytes]]]

ONE, OTHER = uploaded(100, with_aborts=True), uploaded(116, 7)
SHIFTED = uploaded(500, with_aborts=True)
"""Of the sizes of `ONE`."""

ELSEWHERE = uploaded(100, topic="payments", with_aborts=True, seed=2)


@cache
def key_pair(key_size: int = 1536) -> tuple[tuple[int, int], bytes]:
    """The public numbers, and the file of the private key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=key_size)
    numbers = key.public_key().public_numbers()
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return (numbers.n, numbers.e), text


def aiven(*, compressed: bool = False, encrypted: bool = False, chunk_size: int = 700) -> Objects:
    def objects(one: Uploaded) -> Iterator[tuple[str, bytes]]:
        style = Style(
            chunk_size=chunk_size,
            is_compressed=compressed,
            public_key=key_pair()[0] if encrypted else None,
            seed=int.from_bytes(one.metadata.segment_id),
        )
        return aiven_objects(one, style)

    return objects


LAYOUTS: dict[str, Objects] = {
    "local": local_objects,
    "plain": aiven(),
    "compressed": aiven(compressed=True),
    "encrypted": aiven(encrypted=True),
    "compressed and encrypted": aiven(compressed=True, encrypted=True),
}


def opened(path: Path) -> RemoteStorage:
    """The tier, its keys beside it."""
    keys = path.with_name("keys")
    keys.mkdir(exist_ok=True)
    (keys / "private.pem").write_bytes(key_pair()[1])
    return open_tier(str(path), keys=str(keys))


def tier_with(path: Path, objects: Objects, *segments: Uploaded) -> RemoteStorage:
    for one in segments or (ONE, OTHER):
        put(path, objects(one))
    return opened(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_was_uploaded_is_read_in_any_steps(layout: str, tmp_path: Path) -> None:
    tier = tier_with(tmp_path / "tier", LAYOUTS[layout])
    for one in (ONE, OTHER):
        size = tier.log_size(one.metadata)
        assert size == len(one.log)
        for step in (97, 700, 1400, size, 2 * size):
            read = [tier.read_log(one.metadata, at, step) for at in range(0, size, step)]
            assert b"".join(read) == one.log
        assert tier.read_log(one.metadata, size, 1) == b""
        for kind in IndexType:
            assert tier.read_index(one.metadata, kind) == one.indexes.get(kind)
    assert tier.address == str(tmp_path / "tier")


@pytest.mark.slow
@settings(max_examples=40)
@given(
    chunk_size=st.integers(1, 3000),
    compressed=st.booleans(),
    encrypted=st.booleans(),
    ranges=st.lists(st.tuples(st.integers(0, 2500), st.integers(0, 2500)), max_size=8),
)
def test_chunks_of_any_size_give_every_range(
    tmp_path_factory: pytest.TempPathFactory,
    chunk_size: int,
    compressed: bool,
    encrypted: bool,
    ranges: list[tuple[int, int]],
) -> None:
    path = tmp_path_factory.mktemp("chunks") / "tier"
    style = aiven(compressed=compressed, encrypted=encrypted, chunk_size=chunk_size)
    tier = tier_with(path, style, OTHER)
    for position, size in ranges:
        read = tier.read_log(OTHER.metadata, position, size)
        assert read == OTHER.log[position : position + size]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["plain", "compressed and encrypted"])
def test_threads_may_read_a_tier_at_once(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "tier"
    tier_with(path, LAYOUTS[layout])
    tier = open_tier(str(path), keys=str(tmp_path / "keys"), cache_size=1500)

    def read(seed: int) -> None:
        random = Random(seed)
        for _ in range(100):
            one, position = random.choice((ONE, OTHER)), random.randrange(2000)
            assert tier.read_log(one.metadata, position, 900) == one.log[position : position + 900]

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(read, seed) for seed in range(4)]:
            done.result()


def read_all(tier: RemoteStorage, one: RemoteLogSegmentMetadata) -> bytes:
    """The log; raises unless all of the segment is sound, records included."""
    size = tier.log_size(one)
    log = b"".join(tier.read_log(one, at, 500) for at in range(0, size, 500))
    for kind in IndexType:
        tier.read_index(one, kind)
    for batch in iter_batches(log):
        batch.check()
    return log


def names_of(path: Path, objects: Objects, one: Uploaded) -> list[Path]:
    """The objects of a segment."""
    return [path / name for name, _ in objects(one)]


MAY_BE_EMPTY = {None: (".txnindex",), b"": (".index", ".timeindex", ".txnindex")}
"""A segment may have none, or one without entries, and nothing says that this one was another."""


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_object_that_is_missing_cut_or_longer_is_named(layout: str, tmp_path: Path) -> None:
    objects = LAYOUTS[layout]
    tier_with(tmp_path / "tier", objects)
    for place in names_of(tmp_path / "tier", objects, ONE):
        content = place.read_bytes()
        for damaged in (None, b"", content[:-2], content[1:], content + b"\0"):
            place.unlink(missing_ok=True)
            if damaged is not None:
                place.write_bytes(damaged)
            tier = opened(tmp_path / "tier")
            if not damaged and place.suffix in MAY_BE_EMPTY[damaged]:
                continue
            with pytest.raises(CorruptionError) as caught:
                read_all(tier, ONE.metadata)
            assert "(orders-0, offsets 100 to 115); put it back" in str(caught.value)
            assert caught.value.path == str(place)
        place.write_bytes(content)
    assert read_all(opened(tmp_path / "tier"), ONE.metadata) == ONE.log


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", [SHIFTED, ELSEWHERE, OTHER], ids=["later", "topic", "next"])
def test_an_object_of_another_segment_is_not_served(
    layout: str, other: Uploaded, tmp_path: Path
) -> None:
    objects = LAYOUTS[layout]
    tier_with(tmp_path / "tier", objects, ONE, other)
    others = {place.suffix: place for place in names_of(tmp_path / "tier", objects, other)}
    for place in names_of(tmp_path / "tier", objects, ONE):
        content, wrong = place.read_bytes(), others.get(place.suffix, place).read_bytes()
        is_the_same = other is ELSEWHERE and layout in ("local", "plain")
        if content == wrong or (is_the_same and place.suffix != ".rsm-manifest"):
            continue  # Of the same offsets, sizes and times, without a checksum.
        place.write_bytes(wrong)
        with pytest.raises(CorruptionError, match="orders-0, offsets 100 to 115") as caught:
            read_all(opened(tmp_path / "tier"), ONE.metadata)
        assert caught.value.path == str(place)
        place.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["encrypted", "compressed and encrypted"])
def test_any_flipped_bit_of_what_is_encrypted_is_found(layout: str, tmp_path: Path) -> None:
    objects, random = LAYOUTS[layout], Random(4)
    tier_with(tmp_path / "tier", objects)
    log, indexes, _ = names_of(tmp_path / "tier", objects, ONE)
    for place in (log, indexes):
        content = place.read_bytes()
        for position in random.sample(range(len(content)), 10):
            damaged = bytearray(content)
            damaged[position] ^= 1 << random.randrange(8)
            place.write_bytes(damaged)
            with pytest.raises(CorruptionError, match="is not what was encrypted") as caught:
                read_all(opened(tmp_path / "tier"), ONE.metadata)
            assert caught.value.path == str(place)
        place.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["local", "plain", "compressed", "encrypted"])
def test_a_flipped_bit_never_gives_other_records(layout: str, tmp_path: Path) -> None:
    objects, random = LAYOUTS[layout], Random(5)
    tier_with(tmp_path / "tier", objects)
    for place in names_of(tmp_path / "tier", objects, ONE):
        content = place.read_bytes()
        count = 20 if layout == "encrypted" else 60
        for position in random.sample(range(len(content)), min(len(content), count)):
            damaged = bytearray(content)
            damaged[position] ^= 1 << random.randrange(8)
            place.write_bytes(damaged)
            # Records have a checksum of their own; a data key may look like another key's.
            with suppress(CorruptionError, InvalidBatchError, UserError):
                read = read_all(opened(tmp_path / "tier"), ONE.metadata)
                assert records_of(read) == records_of(ONE.log)
        place.write_bytes(content)


def records_of(log: bytes) -> list[bytes]:
    """What the checksum of a batch covers: neither offset nor leader epoch."""
    return [bytes(one.bytes_view()[16:]) for one in iter_batches(log)]


def test_a_tier_without_its_key_says_which_is_wanted(tmp_path: Path) -> None:
    tier_with(tmp_path / "tier", LAYOUTS["encrypted"])
    tier = open_tier(str(tmp_path / "tier"))
    assert len(list(tier.segments())) == 2
    with pytest.raises(UserError, match=r"rsm-manifest: the tier is encrypted .* by --tier-key"):
        tier.log_size(ONE.metadata)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tier_in_an_object_store_is_read(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    with stores.served() as port:
        for name, value in stores.environment_of(port).items():
            monkeypatch.setenv(name, value)
        address = f"{stores.new_bucket(port)}/tiers"
        store = CloudStore(address, "tier")
        for one in (ONE, OTHER):
            for path, content in LAYOUTS[layout](one):
                store.put(path, content)
        (tmp_path / "private.pem").write_bytes(key_pair()[1])
        tier = open_tier(address, keys=str(tmp_path / "private.pem"))
        for one in (ONE, OTHER):
            assert read_all(tier, one.metadata) == one.log
            for kind in IndexType:
                assert tier.read_index(one.metadata, kind) == one.indexes.get(kind)
        assert [one.start_offset for one in tier.segments("orders")] == [100, 116]
        path, _ = next(LAYOUTS[layout](ONE))
        store.delete(path)
        with pytest.raises(CorruptionError, match=rf"{address}/{path} at byte 0: is missing"):
            read_all(open_tier(address, keys=str(tmp_path / "private.pem")), ONE.metadata)
        with pytest.raises(UserError, match="no tier lies here"):
            open_tier(f"{address}/none")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_tier_that_this_user_may_not_read_says_so(tmp_path: Path) -> None:
    tier = tier_with(tmp_path / "tier", local_objects)
    place = names_of(tmp_path / "tier", local_objects, ONE)[0]
    place.chmod(0)
    with pytest.raises(UserError, match=f"{place}: Permission denied; let this user read"):
        tier.log_size(ONE.metadata)


def tiers_over(store: StreamingStore) -> dict[str, RemoteStorage]:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    objects, cache = TierObjects(store), BlockCache(1 << 20)
    public = load_pem_private_key(key_pair()[1], None).public_key()
    form = AivenFormat(
        chunk_size=700, compresses=True, key_pair=("key-1", public), random_bytes=token_bytes
    )
    return {
        "local": LocalTier(objects, ROOT, cache),
        "aiven": AivenTier(objects, "", cache, TierKeys([], OsFileSystem()), form),
    }


FAILURES = {
    "down": StoreError("s3://b: 503 Service Unavailable", is_retriable=True),
    "refuses": StoreError("s3://b: 403 Forbidden", is_retriable=False),
    "full": OSError(errno.ENOSPC, "No space left on device"),
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["local", "aiven"])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_store_that_fails_at_any_call_fails_the_copy_and_what_is_left_can_be_deleted(
    layout: str, failure: str, tmp_path: Path
) -> None:
    error, broken = FAILURES[failure], set[int]()

    def fail(name: str, path: str, number: int) -> None:
        if number in broken:
            raise error

    whole = MemoryStore()
    tiers_over(whole)[layout].copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))
    count = len(whole.calls)
    assert count >= 12  # each object is put and measured
    for number in range(count):
        broken.add(number)
        store = MemoryStore(fail)
        tier = tiers_over(store)[layout]
        with pytest.raises(TierError) as caught:
            tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))
        assert caught.value.is_retriable == (failure != "refuses")
        broken.clear()
        # A copy that failed is no segment, but for one whose last object was only not measured.
        if [one.is_complete for one in tier.uploads()] == [True]:
            assert set(store.objects) == set(whole.objects)
        tier.delete_segment(ONE.metadata)
        assert store.objects == {}
        # A deletion that fails is repeated.
        tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))
        for step in range(8):
            broken.add(len(store.calls) + step)
            with suppress(TierError):
                tier.delete_segment(ONE.metadata)
        broken.clear()
        tier.delete_segment(ONE.metadata)
        assert store.objects == {}


@pytest.mark.parametrize("layout", ["local", "aiven"])
@pytest.mark.parametrize("size", [None, 1])
def test_a_store_that_lies_about_any_object_fails_the_copy(
    layout: str, size: int | None, tmp_path: Path
) -> None:
    whole = MemoryStore()
    tiers_over(whole)[layout].copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))
    for suffix in {path.rpartition(".")[2] for path in whole.objects}:
        store = MemoryStore()
        store.sizes[suffix] = size
        tier = tiers_over(store)[layout]
        with pytest.raises(TierError, match=rf"\.{suffix}: .*without an error; check the store"):
            tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path)))


@pytest.mark.parametrize("layout", ["local", "aiven"])
def test_a_local_disk_that_fails_is_not_the_tiers_fault(layout: str, tmp_path: Path) -> None:
    store = MemoryStore()
    files = files_of(ONE, str(tmp_path / "data" / "orders-0"))
    files.log.file.truncate(len(ONE.log) - 10)
    with pytest.raises(CorruptionError, match=r"orders-0/0+\.log at byte"):
        tiers_over(store)[layout].copy_segment(ONE.metadata, files)
    files.log.file.close()
    with pytest.raises(StorageError, match=r"0000\.log"):
        tiers_over(store)[layout].copy_segment(ONE.metadata, files)
    assert store.objects == {}


@pytest.mark.parametrize("layout", ["local", "aiven"])
def test_names_that_lead_out_of_the_store_are_not_written(layout: str, tmp_path: Path) -> None:
    place = replace(ONE.metadata.partition, topic="../other")
    segment = replace(ONE.metadata, partition=place)
    store = MemoryStore()
    with pytest.raises(CorruptionError, match="is no name of an object"):
        tiers_over(store)[layout].copy_segment(segment, files_of(ONE, str(tmp_path)))
    assert store.objects == {}


@contextmanager
def s3() -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a new bucket, and the settings of Aiven's plug-in for it."""
    with stores.served() as port:
        bucket = stores.new_bucket(port)
        yield (
            bucket,
            {
                "storage.backend.class": f"{BACKENDS}s3.S3Storage",
                "storage.s3.bucket.name": bucket.removeprefix("s3://"),
                "storage.s3.region": stores.REGION,
                "storage.s3.endpoint.url": f"http://127.0.0.1:{port}",
                "storage.aws.access.key.id": "anybody",
                "storage.aws.secret.access.key": "anything",
            },
        )


@contextmanager
def azure() -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a new container, and the settings of Aiven's plug-in for it."""
    if reason := azure_store.absence():
        pytest.skip(reason)
    with azure_store.served() as port:
        container = azure_store.new_container(port)
        place = f"http://127.0.0.1:{port}/{azure_store.ACCOUNT}"
        yield (
            container,
            {
                "storage.backend.class": f"{BACKENDS}azure.AzureBlobStorage",
                "storage.azure.container.name": container.removeprefix("az://"),
                "storage.azure.connection.string": (
                    f"DefaultEndpointsProtocol=http;AccountName={azure_store.ACCOUNT};"
                    f"AccountKey={azure_store.KEY};BlobEndpoint={place};"
                ),
            },
        )


@contextmanager
def gcs() -> Iterator[tuple[str, dict[str, str]]]:
    """As the others. Google's XML API, which `obstore` uses, has the requests of S3, so that moto
    answers them; the emulators of Google's store have its JSON API, and too little of this one.
    """
    with stores.served() as port:
        # The client writes a hyphen as %2D, which moto does not read.
        bucket = stores.new_bucket(port, "bucket").removeprefix("s3://")
        account = {
            "type": "service_account",
            "client_email": "anybody@example.com",
            "private_key": key_pair(2048)[1].decode(),
            "private_key_id": "1",
        }
        yield (
            f"gs://{bucket}",
            {
                "storage.backend.class": f"{BACKENDS}gcs.GcsStorage",
                "storage.gcs.bucket.name": bucket,
                "storage.gcs.endpoint.url": f"http://127.0.0.1:{port}",
                "storage.gcs.credentials.json": json.dumps(account),
            },
        )


PART_SIZES = {
    s3: {"storage.s3.multipart.upload.part.size": "5242880"},
    azure: {"storage.azure.upload.block.size": "1048576"},
    gcs: {"storage.gcs.resumable.upload.chunk.size": "5242880"},
}


@pytest.mark.slow
@pytest.mark.parametrize("served", PART_SIZES)
def test_a_tier_in_an_object_store_is_filled_by_its_settings_alone(
    served: Callable[[], AbstractContextManager[tuple[str, dict[str, str]]]], tmp_path: Path
) -> None:
    pytest.importorskip("obstore")
    size = 6 << 20  # in several parts
    large = replace(uploaded(500), log=(ONE.log * (1 + size // len(ONE.log)))[:size])
    with served() as (_, settings):
        more = {
            "chunk.size": "1048576",
            "key.prefix": "pre/",
            **PART_SIZES[served],
        }
        tier = remote_storage_of(AIVEN_CLASS, {**settings, **more})
        assert list(tier.segments()) == []
        for one in (ONE, OTHER, large):
            tier.copy_segment(
                replace(one.metadata, size=len(one.log)), files_of(one, str(tmp_path))
            )
        objects = {one.path: b"" for upload in tier.uploads() for one in upload.objects}
        store: StreamingStore = cast(Any, tier)._objects._store
        for path in objects:
            objects[path] = store.read(path)
        for one in (ONE, OTHER, large):
            found = read_aiven(objects, one.metadata, "pre/")
            assert (found.log, found.indexes) == (one.log, one.indexes)
        assert tier.read_log(ONE.metadata, 0, len(ONE.log)) == ONE.log
        for _ in range(2):
            for one in (ONE, OTHER, large):
                tier.delete_segment(one.metadata)
            assert list(tier.uploads()) == []
