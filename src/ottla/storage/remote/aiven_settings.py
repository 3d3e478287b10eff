"""The settings of Aiven's `RemoteStorageManager`, and the tier that they name.

Which there are: the plug-in's `docs/configs.rst`. Format page: docs/format/tier-objects.md.
"""

from collections.abc import Mapping
from secrets import token_bytes
from typing import Any, Final

from ottla.base.clock import WaitingClock
from ottla.base.errors import UserError
from ottla.base.files import FileSystem, read_file
from ottla.base.values import dataclass
from ottla.config.setting import INT64_MAX, setting
from ottla.objects.cloud_store import CloudOptions, CloudStore
from ottla.objects.directory_store import DirectoryStore
from ottla.objects.store import StreamingStore
from ottla.storage.remote.aiven_encryption import TierKeys, public_key
from ottla.storage.remote.aiven_layout import AivenTier
from ottla.storage.remote.aiven_writing import (
    OBJECT_KEY,
    OBJECT_PREFIX,
    REMOTE_SIZE,
    AivenFormat,
)
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.cache_folder import Limits
from ottla.storage.remote.chunk_files import ChunkFiles
from ottla.storage.remote.opening import CACHE_SIZE
from ottla.storage.remote.tier_objects import TierObjects
from ottla.storage.remote.tier_settings import TierSettings
from ottla.storage.remote.upload_rate import UploadRate

MIB: Final = 1 << 20
BACKENDS: Final = "io.aiven.kafka.tieredstorage.storage."

WITHOUT_EFFECT: Final = (
    "fetch.manifest.cache.", "fetch.indexes.cache.", "metrics.", "key.prefix.mask"
)  # fmt: skip
"""Beginnings of names: how the plug-in caches manifests and indexes, and what it counts."""

CACHES: Final = "io.aiven.kafka.tieredstorage.fetch.cache."


@dataclass(frozen=True, slots=True, kw_only=True)
class AivenConfig:
    """`RemoteStorageManagerConfig`."""

    chunk_size: int = setting(
        "chunk.size",
        "int",
        None,
        "Bytes of a log that are compressed, encrypted and read together; 4 MiB is advised.",
        at_least=1,
        at_most=(1 << 30) - 1,
    )
    storage_backend_class: str = setting(
        "storage.backend.class", "string", "", "Kind of store: S3, GCS, Azure or a directory."
    )
    key_prefix: str = setting("key.prefix", "string", "", "Beginning of the objects' names.")
    compression_enabled: bool = setting(
        "compression.enabled", "boolean", False, "Whether logs are compressed with zstd."
    )
    compression_heuristic_enabled: bool = setting(
        "compression.heuristic.enabled",
        "boolean",
        False,
        "Whether a log stays as it is if its first batch is compressed.",
    )
    encryption_enabled: bool = setting(
        "encryption.enabled", "boolean", False, "Whether logs and indexes are encrypted."
    )
    encryption_key_pair_id: str = setting(
        "encryption.key.pair.id", "string", "", "Key pair that new segments are encrypted with."
    )
    encryption_key_pairs: tuple[str, ...] = setting(
        "encryption.key.pairs",
        "list",
        (),
        "Ids of key pairs; encryption.key.pairs.ID.public.key.file and .private.key.file of each.",
    )
    custom_metadata_fields_include: tuple[str, ...] = setting(
        "custom.metadata.fields.include",
        "list",
        (),
        "What the metadata records say of the objects.",
        one_of=(REMOTE_SIZE, OBJECT_PREFIX, OBJECT_KEY),
    )
    upload_rate_limit_bytes_per_second: int | None = setting(
        "upload.rate.limit.bytes.per.second",
        "int",
        None,
        "Bytes that the broker uploads in a second at most; at least 1 MiB.",
        at_least=MIB,
    )
    segment_format: str = setting(
        "segment.format", "string", "kafka", "Only kafka is supported.", one_of=("kafka",)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCacheConfig:
    """`MemoryChunkCacheConfig`, `DiskChunkCacheConfig`."""

    chunk_cache_class: str = setting(
        "chunk.cache.class",
        "string",
        "",
        "Where chunks are kept that were read: in memory, or on disk too.",
    )
    chunk_cache_size: int | None = setting(
        "chunk.cache.size", "long", None, "Bytes that are kept.", at_least=-1
    )
    chunk_cache_retention_ms: int = setting(
        "chunk.cache.retention.ms",
        "long",
        600_000,
        "Milliseconds after its last use until a file is removed; -1 means never.",
        at_least=-1,
    )
    chunk_cache_path: str = setting(
        "chunk.cache.path", "string", "", "Directory of the files, of this broker alone."
    )
    chunk_cache_prefetch_max_size: int = setting(
        "chunk.cache.prefetch.max.size", "int", 0, "No effect.", at_least=0
    )
    chunk_cache_get_timeout_ms: int = setting(
        "chunk.cache.get.timeout.ms", "long", 10_000, "No effect.", at_least=1
    )
    chunk_cache_thread_pool_size: int = setting(
        "chunk.cache.thread.pool.size", "int", 0, "No effect.", at_least=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryConfig:
    """`FileSystemStorageConfig`."""

    root: str = setting("root", "string", "", "Directory of the objects.")
    overwrite_enabled: bool = setting(
        "overwrite.enabled", "boolean", False, "No effect: no object is written twice."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Config:
    """`S3StorageConfig`."""

    s3_bucket_name: str = setting("s3.bucket.name", "string", "", "Bucket.")
    s3_region: str = setting("s3.region", "string", "", "Region of the bucket.")
    s3_endpoint_url: str = setting("s3.endpoint.url", "string", "", "Address of another store.")
    s3_path_style_access_enabled: str = setting(
        "s3.path.style.access.enabled", "string", "", "No effect: the path style is used."
    )
    s3_multipart_upload_part_size: int = setting(
        "s3.multipart.upload.part.size",
        "int",
        8 * MIB,
        "Bytes of an upload in one request; two are in memory for each upload.",
        at_least=5 * MIB,
    )
    s3_storage_class: str = setting(
        "s3.storage.class", "string", "", "Storage class of new objects."
    )
    s3_api_call_timeout: int = setting(
        "s3.api.call.timeout", "long", 30_000, "Milliseconds after which no request is repeated."
    )
    s3_api_call_attempt_timeout: int = setting(
        "s3.api.call.attempt.timeout", "long", 30_000, "Milliseconds that one request may take."
    )
    s3_legacy_md5_plugin_enabled: bool = setting(
        "s3.legacy.md5.plugin.enabled", "boolean", False, "No effect."
    )
    aws_access_key_id: str = setting("aws.access.key.id", "password", "", "Access key.")
    aws_secret_access_key: str = setting(
        "aws.secret.access.key", "password", "", "Secret of the access key."
    )
    aws_certificate_check_enabled: bool = setting(
        "aws.certificate.check.enabled", "boolean", True, "Whether the store's name is checked."
    )
    aws_checksum_check_enabled: bool = setting(
        "aws.checksum.check.enabled", "boolean", False, "No effect."
    )
    aws_credentials_provider_class: str = setting(
        "aws.credentials.provider.class",
        "string",
        "",
        "No effect: without a key, credentials are those of the environment or the machine.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsConfig:
    """`GcsStorageConfig`."""

    gcs_bucket_name: str = setting("gcs.bucket.name", "string", "", "Bucket.")
    gcs_endpoint_url: str = setting("gcs.endpoint.url", "string", "", "Address of another store.")
    gcs_resumable_upload_chunk_size: int = setting(
        "gcs.resumable.upload.chunk.size",
        "int",
        8 * MIB,
        "Bytes of an upload in one request.",
        at_least=MIB // 4,
    )
    gcs_credentials_default: bool = setting(
        "gcs.credentials.default", "boolean", False, "Credentials of the machine."
    )
    gcs_credentials_json: str = setting(
        "gcs.credentials.json", "password", "", "Credentials, as JSON."
    )
    gcs_credentials_path: str = setting("gcs.credentials.path", "string", "", "File of them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureConfig:
    """`AzureBlobStorageConfig`."""

    azure_container_name: str = setting("azure.container.name", "string", "", "Container.")
    azure_account_name: str = setting("azure.account.name", "string", "", "Account.")
    azure_account_key: str = setting("azure.account.key", "password", "", "Key of the account.")
    azure_sas_token: str = setting("azure.sas.token", "password", "", "Shared access signature.")
    azure_connection_string: str = setting(
        "azure.connection.string", "password", "", "Account, key and address in one text."
    )
    azure_endpoint_url: str = setting(
        "azure.endpoint.url", "string", "", "Address of another store."
    )
    azure_upload_block_size: int = setting(
        "azure.upload.block.size",
        "int",
        8 * MIB,
        "Bytes of an upload in one request.",
        at_least=100 << 10,
    )


def aiven_tier(given: TierSettings, disk: FileSystem, clock: WaitingClock | None) -> AivenTier:
    """The tier that the settings name; raises `SettingError` and `UserError`."""
    settings = given.without(WITHOUT_EFFECT)
    storage = settings.take("storage.", keeping=("storage.backend.class",))
    pairs = settings.take("encryption.key.pairs.")
    fetch = settings.take("fetch.")
    config = settings.read(AivenConfig())
    if not config.chunk_size:
        raise settings.error("chunk.size", "is not set; 4194304 is advised")
    store = _store(config, storage, disk)
    keys, key_pair = _keys(config, settings, pairs, disk)
    rate = config.upload_rate_limit_bytes_per_second
    form = AivenFormat(
        chunk_size=config.chunk_size,
        compresses=config.compression_enabled,
        spares_compressed=config.compression_heuristic_enabled,
        key_pair=key_pair,
        custom_fields=config.custom_metadata_fields_include,
        random_bytes=token_bytes,
        pace=_unlimited if rate is None or clock is None else UploadRate(rate, clock),
    )
    cache = _cache(config, fetch, disk, clock)
    return AivenTier(TierObjects(store), config.key_prefix, cache, keys, form)


def _cache(
    config: AivenConfig, settings: TierSettings, disk: FileSystem, clock: WaitingClock | None
) -> BlockCache:
    """Only a broker, which has a `clock`, has files: a command would use its broker's folder."""
    given = settings.read(ChunkCacheConfig())
    kind, size = given.chunk_cache_class.removeprefix(CACHES), given.chunk_cache_size
    if kind not in ("", "MemoryChunkCache", "DiskChunkCache"):
        known = f"{CACHES}DiskChunkCache and {CACHES}MemoryChunkCache"
        raise settings.error("chunk.cache.class", f"{given.chunk_cache_class}: Ottla has {known}")
    if kind and size is None:
        raise settings.error(
            "chunk.cache.size", "is not set; set the bytes to keep, such as 1073741824"
        )
    memory = CACHE_SIZE if kind != "MemoryChunkCache" or size in (None, -1) else size
    least = max(memory, 2 * config.chunk_size)
    if kind != "DiskChunkCache":
        return BlockCache(least)
    folder = settings.required("chunk.cache.path", given.chunk_cache_path)
    if clock is None:
        return BlockCache(least)
    try:
        if disk.status(folder) is None:
            disk.make_directory(folder)
    except OSError as error:
        text = f"{folder}: {error.strerror or error}; name a directory that this broker may write"
        raise settings.error("chunk.cache.path", text) from error
    limits = Limits(INT64_MAX if size == -1 else size or 0, given.chunk_cache_retention_ms)
    if given.chunk_cache_retention_ms < 0:
        limits = limits._replace(ttl_ms=INT64_MAX)
    return BlockCache(least, files=ChunkFiles(disk, folder, lambda: limits, clock.monotonic_ms))


def _unlimited(size: int) -> None:
    """Does not wait."""


def _keys(
    config: AivenConfig, settings: TierSettings, pairs: TierSettings, disk: FileSystem
) -> tuple[TierKeys, tuple[str, Any] | None]:
    """The private keys of all pairs, and the public one of the active pair."""
    if not config.encryption_enabled:
        return TierKeys([], disk, settings.shown("encryption.key.pairs")), None
    active = config.encryption_key_pair_id
    if active not in config.encryption_key_pairs:
        known = ", ".join(config.encryption_key_pairs) or "none"
        raise settings.error("encryption.key.pair.id", f"is {active!r}; key pairs are: {known}")
    names = [
        f"{pair}.{kind}.key.file"
        for pair in config.encryption_key_pairs
        for kind in ("public", "private")
    ]
    files = pairs.texts(names)
    public = files[f"{active}.public.key.file"]
    try:
        content = read_file(disk, public)
    except OSError as error:
        name = f"{active}.public.key.file"
        raise pairs.error(name, f"{public}: {error.strerror or error}") from error
    key = public_key(content, public)
    if key.key_size < 1536:
        raise UserError(f"{public}: a key of {key.key_size} bits is too short; 2048 are advised")
    private = [files[f"{pair}.private.key.file"] for pair in config.encryption_key_pairs]
    return TierKeys(private, disk, settings.shown("encryption.key.pairs")), (active, key)


def _store(config: AivenConfig, settings: TierSettings, disk: FileSystem) -> StreamingStore:
    kind = config.storage_backend_class.removeprefix(BACKENDS)
    match kind:
        case "filesystem.FileSystemStorage":
            root = settings.read(DirectoryConfig()).root
            return DirectoryStore(settings.required("root", root), disk)
        case "s3.S3Storage":
            return _s3(settings)
        case "gcs.GcsStorage":
            return _gcs(settings)
        case "azure.AzureBlobStorage":
            return _azure(settings)
    known = "s3.S3Storage, gcs.GcsStorage, azure.AzureBlobStorage, filesystem.FileSystemStorage"
    raise settings.error(
        "backend.class", f"{config.storage_backend_class or 'is not set'}; {BACKENDS}X has: {known}"
    )


def _s3(settings: TierSettings) -> CloudStore:
    config = settings.read(S3Config())
    bucket = settings.required("s3.bucket.name", config.s3_bucket_name)
    told = {
        "aws_region": config.s3_region,
        "aws_endpoint": config.s3_endpoint_url,
        "aws_access_key_id": config.aws_access_key_id,
        "aws_secret_access_key": config.aws_secret_access_key,
    }
    options = CloudOptions(
        config=_told(told),
        checks_certificates=config.aws_certificate_check_enabled,
        storage_class=config.s3_storage_class or None,
        part_size=config.s3_multipart_upload_part_size,
        timeout_ms=config.s3_api_call_attempt_timeout,
        give_up_ms=config.s3_api_call_timeout,
    )
    return CloudStore(f"s3://{bucket}", "tier", options)


def _gcs(settings: TierSettings) -> CloudStore:
    config = settings.read(GcsConfig())
    bucket = settings.required("gcs.bucket.name", config.gcs_bucket_name)
    told = {
        "google_base_url": config.gcs_endpoint_url,
        "google_service_account_key": config.gcs_credentials_json,
        "google_service_account": config.gcs_credentials_path,
    }
    options = CloudOptions(config=_told(told), part_size=config.gcs_resumable_upload_chunk_size)
    return CloudStore(f"gs://{bucket}", "tier", options)


def _azure(settings: TierSettings) -> CloudStore:
    config = settings.read(AzureConfig())
    container = settings.required("azure.container.name", config.azure_container_name)
    pairs = (one.partition("=") for one in config.azure_connection_string.split(";"))
    texts = {name: value for name, _, value in pairs}
    told = {
        "azure_storage_account_name": config.azure_account_name or texts.get("AccountName", ""),
        "azure_storage_account_key": config.azure_account_key or texts.get("AccountKey", ""),
        "azure_storage_sas_key": config.azure_sas_token or texts.get("SharedAccessSignature", ""),
        "azure_storage_endpoint": config.azure_endpoint_url or texts.get("BlobEndpoint", ""),
    }
    options = CloudOptions(config=_told(told), part_size=config.azure_upload_block_size)
    return CloudStore(f"az://{container}", "tier", options)


def _told(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in settings.items() if text}
