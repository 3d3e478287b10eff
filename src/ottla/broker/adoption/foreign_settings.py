"""Finds the settings of all topics, also in directories that another Kafka wrote.

A KRaft cluster keeps settings in its metadata log. Ottla imports it when it first opens a
directory, and again when Kafka has written to it since. An import takes the settings that Kafka has
changed since the last import, and keeps Ottla's values of all others.

Topics' settings are unknown if they were in ZooKeeper, or if the metadata log is damaged or
elsewhere. The default settings could delete records that should be kept, so the broker deletes and
compacts nothing in such topics until a user confirms their settings (`ottla adopt`).

Everything here only reads. Kafka's counterparts: `MetadataLoader`, `BrokerMetadataPublisher`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ottla.base.errors import CorruptionError, RefusalError
from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid
from ottla.broker.adoption.adoption_file import (
    ADOPTION_FILE_NAME,
    newest_adoption,
    read_adoption_file,
)
from ottla.broker.adoption.found_settings import FoundSettings, SettingsPlace
from ottla.broker.adoption.metadata_log import metadata_file_sizes, read_metadata_log
from ottla.broker.configs.cluster_file import CLUSTER_FILE
from ottla.broker.security.security_file import SECURITY_FILE
from ottla.storage.files.filenames import (
    CLUSTER_METADATA_DIRECTORY,
    PARTITION_METADATA,
    DirectoryState,
    parse_directory_name,
)
from ottla.storage.files.meta_properties import VERSION_ZOOKEEPER, properties_of
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.files.topic_file import (
    TOPIC_FILE_NAME,
    merge_topic_files,
    read_topic_file,
)
from ottla.storage.files.written_marks import check_not_lost

REASONS = {
    SettingsPlace.NOWHERE: f"the settings are neither in {TOPIC_FILE_NAME} nor in a metadata log "
    "here (metadata.log.dir)",
    SettingsPlace.ZOOKEEPER: "the settings are in the ZooKeeper of the cluster that wrote the "
    "directory",
}


def find_settings(paths: Sequence[str], file_system: FileSystem) -> FoundSettings:
    """Reads the settings in one broker's directories; raises `RefusalError` for damage to Ottla's
    files.
    """
    for path in paths:
        check_not_lost(file_system, path, ADOPTION_FILE_NAME)
    try:
        known = merge_topic_files(read_topic_file(file_system, path) for path in paths)
        adoption = newest_adoption(read_adoption_file(file_system, path) for path in paths)
    except CorruptionError as error:
        raise RefusalError(f"{error}; restore the file, or move it away") from error
    place = _place_without_log(paths, file_system)
    found = FoundSettings(
        known=known,
        cluster=CLUSTER_FILE.read_newest(paths, file_system),
        security=SECURITY_FILE.read_newest(paths, file_system),
        adoption=adoption,
        place=place,
        reason=REASONS[place],
    )
    logs = [
        (path, sizes)
        for path in paths
        if (sizes := metadata_file_sizes(file_system, path)) is not None
    ]
    if not logs:
        return found
    # A node has one metadata log. An empty folder of this name in another directory must not hide
    # it.
    path, sizes = max(logs, key=lambda log: sum(log[1].values()))
    return _with_metadata_log(found, paths, file_system, path, sizes)


def _place_without_log(paths: Iterable[str], file_system: FileSystem) -> SettingsPlace:
    for path in paths:
        try:
            properties = properties_of(file_system, path)
        except CorruptionError:
            continue
        if properties is None:
            continue
        if properties.version == VERSION_ZOOKEEPER:
            return SettingsPlace.ZOOKEEPER
        break
    return SettingsPlace.NOWHERE


def _with_metadata_log(
    found: FoundSettings,
    paths: Sequence[str],
    file_system: FileSystem,
    path: str,
    sizes: Mapping[str, int],
) -> FoundSettings:
    folder = join(path, CLUSTER_METADATA_DIRECTORY)
    reason = f"the metadata log {folder} does not contain its settings"
    found = replace(found, place=SettingsPlace.METADATA_LOG, reason=reason, is_log_read=True)
    if sizes == found.adoption.metadata_files:
        return found
    # Lazy import: most directories have no metadata log, or one that was already imported.
    from ottla.broker.adoption.metadata_import import MetadataImport

    try:
        image = read_metadata_log(file_system, path, sizes)
        if 0 < image.end_offset < found.adoption.end_offset:
            reason = f"it ends at offset {image.end_offset}, and had {found.adoption.end_offset}"
            raise CorruptionError(folder, 0, reason)
    except (CorruptionError, OSError) as error:
        reason = f"the metadata log cannot be read ({error})"
        unknown = dict.fromkeys(found.adoption.imported.topics, reason)
        adoption = replace(found.adoption, unknown={**found.adoption.unknown, **unknown})
        is_imported = found.adoption.metadata_files is not None
        unread = None if is_imported else reason
        found = replace(found, adoption=adoption, reason=reason, is_log_read=False)
        return replace(found, unread=unread)
    if image.end_offset == 0:
        return found  # formatted, or written by a handover: Kafka has not written to it
    properties = properties_of(file_system, path)
    node_id = None if properties is None else properties.node_id
    importing = MetadataImport(
        image=image,
        sizes=sizes,
        node=str(node_id),
        ids=_topic_ids(paths, file_system),
        found=found,
    )
    return importing.result()


def _topic_ids(paths: Iterable[str], file_system: FileSystem) -> dict[str, set[Uuid | None]]:
    """Returns the topic ids in the partitions' directories, by topic."""
    ids: dict[str, set[Uuid | None]] = {}
    for path in paths:
        for name in file_system.list(path):
            parsed = parse_directory_name(name)
            if parsed is None or parsed.state is not DirectoryState.LIVE:
                continue
            try:
                topic_id = read_topic_id(file_system, join(path, name, PARTITION_METADATA))
            except CorruptionError:
                topic_id = None
            ids.setdefault(parsed.topic, set()).add(topic_id)
    return ids
