"""Finds the settings of all topics, also in directories that another Kafka wrote.

A KRaft cluster keeps them in its metadata log, which is imported when a directory is first opened,
and again when Kafka has written to it since. Then settings that Kafka has changed since the last
import count, and of all others those that were changed here. If settings are unknown, since they
were in ZooKeeper, or the metadata log is damaged or elsewhere, the defaults could delete what
should be kept: such topics are left unchanged until a user confirms their settings (`ottla adopt`).

Everything here only reads. Kafka's counterpart: `MetadataLoader`, `BrokerMetadataPublisher`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum, auto

from ottla.base.errors import CorruptionError, RefusalError
from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.broker.adoption.adoption_file import (
    ADOPTION_FILE_NAME,
    Adoption,
    newest_adoption,
    read_adoption_file,
)
from ottla.broker.adoption.metadata_log import metadata_file_sizes, read_metadata_log
from ottla.broker.configs.cluster_file import CLUSTER_FILE, ClusterState
from ottla.broker.security.security_file import SECURITY_FILE, SecurityState
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS
from ottla.storage.files.filenames import (
    CLUSTER_METADATA,
    CLUSTER_METADATA_DIRECTORY,
    PARTITION_METADATA,
    DirectoryState,
    parse_directory_name,
)
from ottla.storage.files.meta_properties import VERSION_ZOOKEEPER, properties_of
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.files.topic_file import (
    TOPIC_FILE_NAME,
    TopicFile,
    merge_topic_files,
    read_topic_file,
)
from ottla.storage.files.written_marks import check_not_lost


class SettingsPlace(Enum):
    """Where to find the settings of topics that have no entry in Ottla's own file."""

    NOWHERE = auto()
    ZOOKEEPER = auto()
    METADATA_LOG = auto()


REASONS = {
    SettingsPlace.NOWHERE: f"the settings are neither in {TOPIC_FILE_NAME} nor in a metadata log "
    "here (metadata.log.dir)",
    SettingsPlace.ZOOKEEPER: "the settings are in the ZooKeeper of the cluster that wrote the "
    "directory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSettings:
    """`known`, `cluster` and `adoption` are as they are to be on the disks from now on.

    `place` is where the settings of topics without an entry are.

    `is_import`: they are not there yet. `reason` is why the settings of a topic without an entry
    cannot be known.
    """

    known: TopicFile
    cluster: ClusterState
    adoption: Adoption
    place: SettingsPlace
    reason: str
    security: SecurityState = field(default_factory=SecurityState)
    next_producer_id: int = 0
    is_import: bool = False
    is_log_read: bool = False
    """Whether a metadata log is here and was read: all but some topics' settings is known."""
    unread: str | None = None
    """Why a metadata log cannot be read of which nothing was imported: then nobody knows the
    quotas, users, ACLs and settings of brokers and groups either."""
    lines: tuple[str, ...] = ()
    """Messages about the import."""

    def why_unknown(self, topic: str, topic_id: Uuid | None) -> str | None:
        """Why the settings of a topic on disk are unknown; `None` if they are known."""
        if topic in INTERNAL_TOPICS:
            return None
        if topic in self.adoption.unknown:
            return self.adoption.unknown[topic]
        entry = self.known.entries.get(topic)
        is_known = entry is not None and topic_id in (None, entry.topic_id)
        return None if is_known else self.reason


def find_settings(paths: Sequence[str], file_system: FileSystem) -> FoundSettings:
    """What the directories of one broker contain; raises `RefusalError` for damage to Ottla's
    files.
    """
    for path in paths:
        check_not_lost(file_system, path, ADOPTION_FILE_NAME)
    try:
        known = merge_topic_files(read_topic_file(file_system, path) for path in paths)
        adoption = newest_adoption(read_adoption_file(file_system, path) for path in paths)
    except CorruptionError as error:
        raise RefusalError(f"{error}; restore the file, or move it away") from error
    entries = {name: one for name, one in known.entries.items() if name != CLUSTER_METADATA}
    place = _place_without_log(paths, file_system)
    found = FoundSettings(
        known=replace(known, entries=entries),
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
    # A node has one such log; an empty folder of its name in another directory hides nothing.
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
    reason = f"the metadata log {folder} has no settings of it"
    found = replace(found, place=SettingsPlace.METADATA_LOG, reason=reason, is_log_read=True)
    if sizes == found.adoption.metadata_files:
        return found
    # Most directories have no such log, or one that was imported: a start need not load this.
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
        return found  # formatted, or begun by a handover: no Kafka has written to it
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
    """The ids that the partitions of each topic have on the disks."""
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
