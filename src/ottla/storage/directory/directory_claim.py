"""Claims a log directory: takes its lock, and reads or writes `meta.properties`.

If the user must act (the directory is in use by another process, or belongs to another program),
that is a plain `UserError`. A broken disk is an `UnusableDirectoryError`: a broker with other
directories continues without this one, as in Kafka (`LogManager.createAndValidateLogDirs`,
`MetaPropertiesEnsemble`).
"""

import dataclasses

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileLock, FileSystem, join, make_durable_directory
from ottla.base.values import dataclass
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.directory.owner_note import refuse_in_use
from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.filenames import (
    COPIED_LOG_STARTS,
    COPIED_META_PROPERTIES,
    LOCK,
    META_PROPERTIES,
    REMOTE_INDEX_CACHE,
    RESTORING,
    parse_directory_name,
)
from ottla.storage.files.meta_properties import (
    VERSION_KRAFT,
    VERSION_ZOOKEEPER,
    MetaProperties,
    copy_meta_properties,
    lost_properties_mend,
    read_meta_properties,
    repair_meta_properties,
    write_meta_properties,
)


class UnusableDirectoryError(UserError):
    """A directory that cannot be read, locked or written, or whose `meta.properties` is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A locked log directory; release `lock` to end the claim."""

    lock: FileLock
    properties: MetaProperties


def claim_directory(file_system: FileSystem, path: str, options: OpenOptions) -> Claim:
    """Creates the directory if needed, locks it, and reads or writes its `meta.properties`.

    Raises `UserError` if it is in use or holds other files, and changes nothing then;
    `UnusableDirectoryError`; and `StorageError` if the disk fails after the lock was taken.
    """
    try:
        _refuse_foreign(file_system, path)
        make_durable_directory(file_system, path)
        lock = file_system.lock(join(path, LOCK))
    except OSError as error:
        raise UnusableDirectoryError(
            f"{error.filename or path}: {error.strerror}; name a directory that can be written"
        ) from error
    if lock is None:
        raise refuse_in_use(file_system, path, "stop it, or name another directory")
    try:
        with DirectoryHealth(path).guarding():
            return Claim(lock=lock, properties=_read_or_make(file_system, path, options))
    except BaseException:
        lock.release()
        raise


def names_in(file_system: FileSystem, path: str) -> list[str] | None:
    """The names in a directory, `None` if it does not exist; raises `UserError` for a file."""
    status = file_system.status(path)
    if status is None:
        return None
    if not status.is_directory:
        raise UserError(f"{path} is a file; name a directory")
    return list(file_system.list(path))


def _refuse_foreign(file_system: FileSystem, path: str) -> None:
    """Raises `UserError` for a directory whose files show no Kafka log directory."""
    names = names_in(file_system, path)
    if names is None:
        return
    if RESTORING in names:
        raise UserError(
            f"{path}: a restore of its snapshot was interrupted; run ottla snapshot restore again, "
            "which finishes or undoes it first"
        )
    if META_PROPERTIES in names:
        return
    if COPIED_META_PROPERTIES in names or COPIED_LOG_STARTS in names:
        mend = lost_properties_mend(file_system, path)
        raise UnusableDirectoryError(f"{join(path, META_PROPERTIES)} is missing; {mend}")
    strangers = [
        name
        for name in names
        if name not in (LOCK, REMOTE_INDEX_CACHE, "lost+found")
        and parse_directory_name(name) is None
        and not name.endswith((".tmp", "-checkpoint"))
    ]
    if strangers:
        raise UserError(
            f"{path} holds files that belong to no Kafka log ({', '.join(strangers[:3])}); "
            "name an empty or a new directory"
        )


def _read_or_make(file_system: FileSystem, path: str, options: OpenOptions) -> MetaProperties:
    """Reads `meta.properties`; creates it in a new directory, and adds a missing directory id."""
    file_path = join(path, META_PROPERTIES)
    try:
        repair_meta_properties(file_system, path)
        known = read_meta_properties(file_system, file_path)
        if known is None:
            known = _made(file_system, file_path, options)
        if known.directory_id is None and known.version == VERSION_KRAFT:
            known = dataclasses.replace(known, directory_id=options.new_id())
            write_meta_properties(file_system, file_path, known, now_ms=options.now_ms)
        copy_meta_properties(file_system, path)
    except CorruptionError as error:
        raise UnusableDirectoryError(
            f"{error}; restore the file or name another directory"
        ) from error
    return known


def _made(file_system: FileSystem, file_path: str, options: OpenOptions) -> MetaProperties:
    """The properties of a new directory; the caller adds the id of a KRaft one and writes them."""
    version = VERSION_ZOOKEEPER if options.is_in_zookeeper else VERSION_KRAFT
    made = MetaProperties(version=version, cluster_id=options.cluster_id, node_id=options.node_id)
    if version == VERSION_ZOOKEEPER:
        write_meta_properties(file_system, file_path, made, now_ms=options.now_ms)
    return made
