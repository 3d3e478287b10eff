"""Opens a tier by its address: what lies there says which layout it has."""

from collections.abc import Iterator
from typing import Final

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem, OsFileSystem, base_name, join
from ottla.base.patterns import lazy_pattern
from ottla.objects.background import begin
from ottla.objects.opening import open_store
from ottla.storage.remote import local_layout
from ottla.storage.remote.aiven_encryption import TierKeys
from ottla.storage.remote.aiven_layout import OBJECT, AivenTier, main_key
from ottla.storage.remote.aiven_manifest import parse_manifest
from ottla.storage.remote.aiven_writing import MANIFEST
from ottla.storage.remote.block_cache import BlockCache
from ottla.storage.remote.local_layout import ROOT, LocalTier
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.tier_objects import TierObjects

CACHE_SIZE: Final = 64 << 20
"""The default of how many bytes of logs are kept in memory: eight requests to an object store."""

DEPTH: Final = 6
LISTINGS: Final = 1000
"""How far, and how long, an address is searched for a tier."""

_WITH_ID = lazy_pattern(r".+-[a-zA-Z0-9_-]{22}")


def open_tier(
    address: str,
    *,
    keys: str | None = None,
    file_system: FileSystem | None = None,
    cache_size: int = CACHE_SIZE,
) -> RemoteStorage:
    """The tier in a directory, or at a URL of an object store.

    `keys` is the file of a private key, or a folder of them. Raises `UserError` if there is no
    tier, or more than one.
    """
    disk = file_system or OsFileSystem()
    store = open_store(address, "tier", disk)
    objects = TierObjects(store)
    # A disk reads ahead by itself.
    cache = BlockCache(cache_size, begin if store.read_ahead else None)
    search = _Search(objects)
    found = list(search.tiers("", DEPTH))
    match found:
        case [(True, root)]:
            return LocalTier(objects, root, cache)
        case [(False, prefix)]:
            return AivenTier(objects, prefix, cache, TierKeys([keys] if keys else [], disk))
        case []:
            raise UserError(
                f"{store.address}: no tier lies here, neither of Kafka's LocalTieredStorage (a "
                f"folder {ROOT}) nor of Aiven's plug-in (objects that end in {MANIFEST}); name the "
                f"directory or the URL that is in the broker's settings rsm.config.*{search.limit}"
            )
    places = " and ".join(
        sorted({join(store.address, place).rstrip("/") for _, place in found})[:3]
    )
    raise UserError(f"{store.address}: several tiers lie here; name one of them: {places}")


class _Search:
    """Looks for tiers below an address, in folders of any name."""

    def __init__(self, objects: TierObjects) -> None:
        self._objects = objects
        self._left = LISTINGS

    @property
    def limit(self) -> str:
        """What to add to an answer that may be wrong, because not all was searched."""
        return "" if self._left >= 0 else f" (the first {LISTINGS} folders were searched)"

    def tiers(self, directory: str, depth: int) -> Iterator[tuple[bool, str]]:
        """Pairs of whether it is of `LocalTieredStorage`, and its folder or prefix."""
        folders = self._folders(directory)
        of_partitions = [name for name in folders if _WITH_ID.fullmatch(name)]
        for name in of_partitions:
            place = self._tier_with(directory, name)
            if place is not None:
                yield place
                return
        if base_name(join(self._objects.address, directory)) == ROOT:
            yield True, directory
            return
        for name in folders if depth else ():
            if name not in of_partitions:
                yield from self.tiers(join(directory, name), depth - 1)

    def _tier_with(self, directory: str, name: str) -> tuple[bool, str] | None:
        """The tier to which a folder with the id of a topic belongs, by a segment in it."""
        folder = join(directory, name)
        if local_layout.FOLDER.fullmatch(name) and any(
            map(local_layout.OBJECT.fullmatch, self._names(folder))
        ):
            return True, directory
        for partition in self._folders(folder):
            if partition.isdecimal():
                names = self._names(join(folder, partition))
                if found := [one for one in names if OBJECT.fullmatch(one)]:
                    return False, self._prefix(join(folder, partition), found)
        return None

    def _prefix(self, folder: str, names: list[str]) -> str:
        """What is before the topic's name in the folder's: only a manifest says where it begins."""
        for name in names:
            path = join(folder, name)
            content = self._objects.find(path) if name.endswith(MANIFEST) else None
            try:
                key = content and main_key(parse_manifest(content, path).segment)
            except CorruptionError:
                continue  # Reading that segment reports it.
            if key and path.endswith(key + MANIFEST):
                return path.removesuffix(key + MANIFEST)
        topic = folder.rpartition("/")[0]
        return topic[: len(topic) - len(base_name(topic))]

    def _folders(self, directory: str) -> list[str]:
        self._left -= 1
        return self._objects.folders(directory) if self._left >= 0 else []

    def _names(self, directory: str) -> list[str]:
        self._left -= 1
        return self._objects.names(directory) if self._left >= 0 else []
