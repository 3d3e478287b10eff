"""Opens a store by its address."""

from ottla.base.files import FileSystem
from ottla.objects.addresses import full_address, is_address
from ottla.objects.directory_store import DirectoryStore
from ottla.objects.store import StreamingStore


def open_store(path: str, noun: str, file_system: FileSystem | None = None) -> StreamingStore:
    """The store at a path or a URL, without accessing it; `noun` is what lies there.

    Raises `UserError` for an invalid address, or if its package is missing.
    """
    address = full_address(path)
    if is_address(address):
        from ottla.objects.cloud_store import CloudStore

        return CloudStore(address, noun)
    return DirectoryStore(address, file_system)
