"""The tier that a broker's settings name: `remote.log.storage.manager.class.name`, and what it is
configured with (`rsm.config.*`).
"""

from collections.abc import Mapping
from typing import Final

from ottla.base.clock import WaitingClock
from ottla.base.errors import UserError
from ottla.base.files import FileSystem, OsFileSystem, read_file
from ottla.base.values import dataclass
from ottla.config.setting import SettingError, setting
from ottla.objects.directory_store import DirectoryStore
from ottla.storage.files.java_properties import parse_properties
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.local_layout import ROOT, LocalTier
from ottla.storage.remote.opening import CACHE_SIZE
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.tier_objects import TierObjects
from ottla.storage.remote.tier_settings import TierSettings

CLASS_NAME: Final = "remote.log.storage.manager.class.name"
PREFIX_NAME: Final = "remote.log.storage.manager.impl.prefix"
AIVEN_CLASS: Final = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
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
    clock: WaitingClock | None = None,
) -> RemoteStorage:
    """The tier, for reading and writing; nothing is asked of it yet, and it may be empty.

    `settings` are without their `prefix` (`remote.log.storage.manager.impl.prefix`), which errors
    name them with. Without `clock` uploads have no limit of their rate. Raises `SettingError`, and
    `UserError` for a key that is not there, or a missing package.
    """
    given, disk = TierSettings.of(settings, prefix), file_system or OsFileSystem()
    if class_name == LOCAL_CLASS:
        return _local_tier(given, disk)
    if class_name == AIVEN_CLASS:
        # Imported here: few use it.
        from ottla.storage.remote.aiven_settings import aiven_tier

        return aiven_tier(given, disk, clock)
    shown = f"={class_name}: Ottla has no such tier" if class_name else " is not set"
    text = f"{CLASS_NAME}{shown}; set it to {LOCAL_CLASS} or {AIVEN_CLASS}"
    raise SettingError(CLASS_NAME, text, text)


def tier_in_properties(path: str, file_system: FileSystem | None = None) -> RemoteStorage:
    """The tier that a broker's `server.properties` names; raises `UserError`."""
    disk = file_system or OsFileSystem()
    try:
        # Java reads properties as Latin-1.
        given = parse_properties(read_file(disk, path).decode("latin-1"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a server.properties file") from error
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    prefix = given.get(PREFIX_NAME, "").strip() or "rsm.config."
    found = {
        name.removeprefix(prefix): text.strip()
        for name, text in given.items()
        if name.startswith(prefix)
    }
    try:
        class_name = given.get(CLASS_NAME, "").strip()
        return remote_storage_of(class_name, found, prefix=prefix, file_system=disk)
    except SettingError as error:
        raise UserError(f"{path}: {error}") from error


def _local_tier(settings: TierSettings, disk: FileSystem) -> LocalTier:
    config = settings.read(LocalTieredStorageConfig())
    if config.delete_on_close:
        raise settings.error("delete.on.close", "true would delete the tier at a stop; remove it")
    objects = TierObjects(DirectoryStore(settings.required("dir", config.dir), disk))
    return LocalTier(objects, ROOT, BlockCache(CACHE_SIZE), deletes=config.delete_enable)
