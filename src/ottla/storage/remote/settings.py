"""The tier that a broker's settings name: `remote.log.storage.manager.class.name`, and what it is
configured with (`rsm.config.*`).
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from ottla.base.files import FileSystem, OsFileSystem
from ottla.base.values import dataclass
from ottla.config.setting import SettingError, setting, with_values
from ottla.objects.directory_store import DirectoryStore
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.local_layout import ROOT, LocalTier
from ottla.storage.remote.opening import CACHE_SIZE
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.tier_objects import TierObjects

CLASS_NAME: Final = "remote.log.storage.manager.class.name"
LOCAL_CLASS: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTieredStorageConfig:
    """The settings of Kafka's `LocalTieredStorage`."""

    dir: str = setting(
        "dir", "string", "", "Directory in which the folder kafka-tiered-storage is, or is made."
    )
    delete_enable: bool = setting(
        "delete.enable", "boolean", True, "Whether objects are deleted; otherwise they stay."
    )
    delete_on_close: bool = setting(
        "delete.on.close", "boolean", False, "Not supported: it would delete the tier at a stop."
    )
    transferer_class: str = setting(
        "transferer.class", "string", "", "No effect: Kafka's tests copy files with it."
    )


def remote_storage_of(
    class_name: str | None,
    settings: Mapping[str, str],
    *,
    prefix: str = "rsm.config.",
    file_system: FileSystem | None = None,
) -> RemoteStorage:
    """The tier, for reading and writing; nothing is asked of it yet, and it may be empty.

    `settings` are without their `prefix` (`remote.log.storage.manager.impl.prefix`), which errors
    name them with. Raises `SettingError`, and `UserError` if a package is missing.
    """
    if class_name == LOCAL_CLASS:
        return _local_tier(settings, prefix, file_system or OsFileSystem())
    shown = f"={class_name}: Ottla has no such tier" if class_name else " is not set"
    raise _refused(CLASS_NAME, f"{CLASS_NAME}{shown}; set it to {LOCAL_CLASS}")


def _local_tier(settings: Mapping[str, str], prefix: str, file_system: FileSystem) -> LocalTier:
    config = _read(LocalTieredStorageConfig(), settings, prefix)
    if not config.dir:
        raise _refused(f"{prefix}dir", f"{prefix}dir: name the directory of the tier")
    if config.delete_on_close:
        name = f"{prefix}delete.on.close"
        raise _refused(name, f"{name}=true: Ottla does not delete a tier at a stop; remove it")
    objects = TierObjects(DirectoryStore(config.dir, file_system))
    return LocalTier(objects, ROOT, BlockCache(CACHE_SIZE), deletes=config.delete_enable)


Config = TypeVar("Config")


def _read(config: Config, settings: Mapping[str, str], prefix: str) -> Config:
    """Settings by their names; raises `SettingError`, which names one with its prefix."""
    try:
        return with_values(config, settings, "broker")
    except SettingError as error:
        raise _refused(prefix + error.name, f"{prefix}{error}") from error


def _refused(name: str, text: str) -> SettingError:
    return SettingError(name, text, text)
