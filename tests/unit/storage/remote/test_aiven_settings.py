from pathlib import Path
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.objects import cloud_store
from ottla.storage.remote.settings import AIVEN_CLASS, remote_storage_of
from tests.support.copying import files_of
from tests.support.tier_readers import files_below, read_aiven
from tests.support.tiers import uploaded

ONE = uploaded(100, with_aborts=True)
BACKENDS = "io.aiven.kafka.tieredstorage.storage."


def settings(tmp_path: Path, **more: str) -> dict[str, str]:
    """Those of a tier in a directory; underscores in names are dots."""
    return {
        "chunk.size": "700",
        "storage.backend.class": f"{BACKENDS}filesystem.FileSystemStorage",
        "storage.root": str(tmp_path / "tier"),
        "fetch.chunk.cache.size": "-1",
        "metrics.num.samples": "3",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def key_files(path: Path, bits: int = 1536) -> dict[str, str]:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    (path / "private.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (path / "public.pem").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return {
        "encryption_enabled": "true",
        "encryption_key_pair_id": "k1",
        "encryption_key_pairs": "k1",
        "encryption_key_pairs_k1_public_key_file": str(path / "public.pem"),
        "encryption_key_pairs_k1_private_key_file": str(path / "private.pem"),
    }


def test_a_tier_in_a_directory_is_written_and_read_by_its_settings(tmp_path: Path) -> None:
    more = {"compression_enabled": "true", "key_prefix": "pre/"}
    tier = remote_storage_of(AIVEN_CLASS, settings(tmp_path, **more, **key_files(tmp_path)))
    tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path / "data")))
    assert tier.read_log(ONE.metadata, 0, len(ONE.log)) == ONE.log
    with pytest.raises(AssertionError):  # it is encrypted
        read_aiven(files_below(tmp_path / "tier"), ONE.metadata, "pre/", _other_key())


def _other_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=1536)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"chunk_size": "0"}, r"rsm\.config\.chunk\.size=0: at least 1"),
        ({"chunk_sise": "1"}, r"rsm\.config\.chunk\.sise: there is no such setting; did you mean"),
        ({"segment_format": "iceberg"}, r"rsm\.config\.segment\.format=iceberg: one of kafka"),
        ({"storage_root": ""}, r"rsm\.config\.storage\.root: is not set; add it"),
        ({"storage_rot": "x"}, r"rsm\.config\.storage\.rot: there is no such setting"),
        ({"storage_backend_class": "x.Oci"}, r"storage\.backend\.class: x\.Oci; .* has: s3"),
        ({"upload_rate_limit_bytes_per_second": "9"}, r"per\.second=9: at least 1048576"),
        ({"custom_metadata_fields_include": "SIZE"}, r"include=SIZE: one of REMOTE_SIZE"),
        ({"encryption_enabled": "true"}, r"key\.pair\.id: is ''; key pairs are: none"),
        (
            {
                "encryption_enabled": "true",
                "encryption_key_pairs": "a",
                "encryption_key_pair_id": "a",
            },
            r"rsm\.config\.encryption\.key\.pairs\.a\.public\.key\.file: is not set",
        ),
    ],
)
def test_a_setting_that_is_not_valid_is_named(
    more: dict[str, str], error: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=error):
        remote_storage_of(AIVEN_CLASS, settings(tmp_path, **more))


def test_the_size_of_chunks_has_no_default(tmp_path: Path) -> None:
    given = settings(tmp_path)
    del given["chunk.size"]
    with pytest.raises(UserError, match=r"chunk\.size: is not set; 4194304 is advised"):
        remote_storage_of(AIVEN_CLASS, given)


def test_a_key_that_is_missing_or_none_or_too_short_is_named(tmp_path: Path) -> None:
    files = key_files(tmp_path, bits=1024)
    with pytest.raises(UserError, match=r"public\.pem: a key of 1024 bits is too short"):
        remote_storage_of(AIVEN_CLASS, settings(tmp_path, **files))
    (tmp_path / "public.pem").write_text("no key")
    with pytest.raises(UserError, match=r"public\.pem: it has no RSA public key in PEM"):
        remote_storage_of(AIVEN_CLASS, settings(tmp_path, **files))
    (tmp_path / "public.pem").unlink()
    with pytest.raises(UserError, match=r"k1\.public\.key\.file: .*No such file"):
        remote_storage_of(AIVEN_CLASS, settings(tmp_path, **files))


@pytest.mark.parametrize(
    ("backend", "given", "address", "config"),
    [
        (
            "s3.S3Storage",
            {
                "s3.bucket.name": "b",
                "s3.region": "eu-1",
                "s3.endpoint.url": "http://127.0.0.1:1",
                "aws.access.key.id": "me",
                "aws.secret.access.key": "mine",
                "s3.multipart.upload.part.size": "5242880",
            },
            "s3://b",
            {
                "aws_region": "eu-1",
                "aws_endpoint": "http://127.0.0.1:1",
                "aws_access_key_id": "me",
                "aws_secret_access_key": "mine",
            },
        ),
        (
            "gcs.GcsStorage",
            {"gcs.bucket.name": "b", "gcs.credentials.path": "key.json"},
            "gs://b",
            {"google_service_account": "key.json"},
        ),
        (
            "azure.AzureBlobStorage",
            {
                "azure.container.name": "c",
                "azure.connection.string": "AccountName=me;AccountKey=bWluZQ==;BlobEndpoint=http://a/me",
            },
            "az://c",
            {
                "azure_storage_account_name": "me",
                "azure_storage_account_key": "bWluZQ==",
                "azure_storage_endpoint": "http://a/me",
            },
        ),
    ],
)
def test_the_settings_of_a_store_are_what_its_library_is_told(
    backend: str,
    given: dict[str, str],
    address: str,
    config: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("obstore")
    told: list[tuple[str, Any]] = []
    monkeypatch.setattr(cloud_store, "_opened", lambda *both: told.append(both))
    every = settings(tmp_path, storage_backend_class=f"{BACKENDS}{backend}")
    del every["storage.root"]
    remote_storage_of(AIVEN_CLASS, every | {f"storage.{one}": text for one, text in given.items()})
    ((found, options),) = told
    assert (found, options.config) == (address, config)
    assert options.part_size == (5 << 20 if backend.startswith("s3") else 8 << 20)


def chunk_cache(tmp_path: Path, **more: str) -> dict[str, str]:
    given = {
        "fetch_chunk_cache_class": "io.aiven.kafka.tieredstorage.fetch.cache.DiskChunkCache",
        "fetch_chunk_cache_path": str(tmp_path / "chunks"),
        "fetch_chunk_cache_size": "1000000",
        **more,
    }
    return settings(tmp_path, **given)


def broker_tier(given: dict[str, str]) -> Any:
    return remote_storage_of(AIVEN_CLASS, given, clock=SystemClock())


def test_chunks_are_kept_on_the_disk_of_a_broker_and_go_with_their_upload(tmp_path: Path) -> None:
    given = chunk_cache(tmp_path, compression_enabled="true")
    broker_tier(given).copy_segment(ONE.metadata, files_of(ONE, str(tmp_path / "data")))
    tier, size = broker_tier(given), len(ONE.log)
    assert tier.read_log(ONE.metadata, 0, size) == ONE.log
    kept = list((tmp_path / "chunks").iterdir())
    assert len(kept) == -(-size // 700)
    again = broker_tier(given)
    asked, get = [], again._objects.get
    again._objects.get = lambda path, *more: (asked.append(path), get(path, *more))[1]
    assert again.read_log(ONE.metadata, 0, size) == ONE.log
    assert asked == []
    again.forget(ONE.metadata)
    assert again.read_log(ONE.metadata, 0, size) == ONE.log
    assert asked
    again.delete_segment(ONE.metadata)
    assert list((tmp_path / "chunks").iterdir()) == []


def test_a_command_leaves_the_chunks_of_a_broker_alone(tmp_path: Path) -> None:
    given = chunk_cache(tmp_path)
    tier = remote_storage_of(AIVEN_CLASS, given)
    tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path / "data")))
    assert tier.read_log(ONE.metadata, 0, len(ONE.log)) == ONE.log
    assert not (tmp_path / "chunks").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("class", "java.lang.Object", r"class: java.lang.Object: Ottla has .*DiskChunkCache and"),
        ("path", "", r"path: is not set"),
        ("path", "/dev/null/chunks", r"path: /dev/null/chunks: Not a directory; name a directory"),
        ("size", "-2", r"size"),
    ],
)
def test_a_cache_that_cannot_be_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    given = {**chunk_cache(tmp_path), f"fetch.chunk.cache.{name}": text}
    with pytest.raises(UserError, match=rf"rsm\.config\.fetch\.chunk\.cache\.{said}"):
        broker_tier(given)


def test_the_size_of_a_cache_is_required(tmp_path: Path) -> None:
    given = chunk_cache(tmp_path)
    del given["fetch.chunk.cache.size"]
    with pytest.raises(UserError, match=r"fetch\.chunk\.cache\.size: is not set; set the bytes"):
        broker_tier(given)
