"""Checks that Apache Kafka can start on Ottla's directories, and writes what is missing.

The metadata log of a broker by itself is Kafka's already. What may be missing: a log at all, in a
directory without topics; the version and the node in `meta.properties` of a former broker of a
cluster with ZooKeeper; leader epochs of logs that were copied here, and which of several
directories a partition is in. A repeated handover changes nothing.

Kafka ignores Ottla's own files in a log directory, since it looks at folders only, and removes
Ottla's files in partitions' folders because of their suffix. Kafka's counterparts: `Formatter`,
`QuorumController`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.files import FileSystem, join, read_file
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.values import dataclass
from ottla.broker.adoption.found_metadata import FoundMetadata, find_metadata
from ottla.broker.metadata.log import LogOptions, MetadataLog
from ottla.metadata.image import (
    FIRST_WITH_DIRECTORIES,
    METADATA_VERSION,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.image_changes import VersionedRecord, image_changes
from ottla.metadata.records import NO_LEADER
from ottla.storage.directory.owner_note import refuse_in_use
from ottla.storage.directory.stopped_directory import StoppedDirectory
from ottla.storage.files.checkpoints import CheckpointLines
from ottla.storage.files.clean_shutdown import read_clean_shutdown
from ottla.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA,
    LEADER_EPOCHS,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    REMOTE_INDEX_CACHE,
    DirectoryState,
    parse_directory_name,
)
from ottla.storage.files.meta_properties import (
    VERSION_KRAFT,
    MetaProperties,
    copy_meta_properties,
    properties_of,
    read_meta_properties,
    write_meta_properties,
)
from ottla.storage.files.metadata_files import metadata_folder
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.log.leader_epochs import parse_epoch_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverOptions:
    """Sources of time and ids."""

    now_ms: int
    new_id: Callable[[], Uuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The plan of a handover: what the log is to have, and the records that it lacks."""

    metadata_path: str
    properties: Mapping[str, MetaProperties]
    found: FoundMetadata
    new: MetadataImage
    records: Sequence[VersionedRecord]
    is_new: bool

    @property
    def node_id(self) -> int:
        node_id = self.properties[self.metadata_path].node_id
        assert node_id is not None
        return node_id

    @property
    def folder(self) -> str:
        return metadata_folder(self.metadata_path)


@contextmanager
def locked(paths: Sequence[str], file_system: FileSystem) -> Iterator[None]:
    """Locks directories against every broker; raises `UserError` if a broker has them open."""
    with ExitStack() as stack:
        for path in paths:
            status = file_system.status(path)
            if status is None or not status.is_directory:
                raise UserError(f"{path} is not a log directory; name one that Ottla has served")
            lock = file_system.lock(join(path, LOCK))
            if lock is None:
                raise refuse_in_use(file_system, path, "stop it first (SIGTERM)")
            stack.callback(lock.release)
        yield


def plan_handover(
    paths: Sequence[str], file_system: FileSystem, options: HandoverOptions
) -> Handover:
    """Plans what to write, without changes.

    Raises `UserError` for problems that must be fixed first.
    """
    properties = _identities(paths, file_system, options)
    for path in paths:
        if read_clean_shutdown(file_system, join(path, CLEAN_SHUTDOWN)) is None:
            raise UserError(
                f"{path} was not closed in order; run ottla serve on it, stop it with SIGTERM, and "
                "hand it over then"
            )
    found = find_metadata(paths, file_system)
    if found.damage is not None:
        raise UserError(f"the metadata log cannot be read ({found.damage}); restore it")
    if found.refusal is not None:
        raise UserError(f"{found.refusal_reason}; run ottla adopt first")
    partitions = _Partitions(file_system, properties).find()
    _check_topics(found, partitions)
    assert found.path is not None
    old = found.image
    level = old.features.get(METADATA_VERSION, FIRST_WITH_DIRECTORIES)
    if len(paths) > 1 and level < FIRST_WITH_DIRECTORIES:
        raise UserError(
            "several directories need metadata.version 17 (3.7-IV2) or later; raise it with "
            "kafka-features before the directories are adopted, or name one directory"
        )
    new = replace(old, topics=_topics(old, partitions, are_several=len(paths) > 1))
    return Handover(
        metadata_path=found.path,
        properties=properties,
        found=found,
        new=new,
        records=list(image_changes(old, new)),
        is_new=found.log is None,
    )


def write_handover(plan: Handover, file_system: FileSystem, options: HandoverOptions) -> list[str]:
    """Carries out the plan; returns one line per written file."""
    lines = []
    for path, properties in plan.properties.items():
        file = join(path, META_PROPERTIES)
        if read_meta_properties(file_system, file) != properties:
            write_meta_properties(file_system, file, properties, now_ms=options.now_ms)
            copy_meta_properties(file_system, path)
            lines.append(f"{file}: version {VERSION_KRAFT}, node.id {properties.node_id}")
    if not (plan.records or plan.is_new):
        return lines
    with StoppedDirectory(
        plan.metadata_path, file_system, plan.properties[plan.metadata_path], options.now_ms
    ) as directory:
        own = LogOptions(node_id=plan.node_id, now_ms=options.now_ms)
        log = MetadataLog(directory, file_system, plan.found.log, own)
        if plan.is_new:
            log.begin()
        log.commit(plan.records)
        end = log.end_offset
    lines.append(f"{plan.folder}: {len(plan.records)} records more, up to offset {end - 1}")
    return lines


# The present state


def _identities(
    paths: Sequence[str], file_system: FileSystem, options: HandoverOptions
) -> dict[str, MetaProperties]:
    """Returns the `meta.properties` that each directory is to have."""
    found: dict[str, MetaProperties] = {}
    for path in paths:
        try:
            known = properties_of(file_system, path)
        except CorruptionError as error:
            raise RefusalError(f"{error}; restore the file") from error
        if known is None or known.node_id is None or known.cluster_id is None:
            raise UserError(
                f"{path} has no meta.properties with a node and a cluster; serve it once"
            )
        found[path] = replace(
            known, version=VERSION_KRAFT, directory_id=known.directory_id or options.new_id()
        )
    first = next(iter(found.values()))
    for path, one in found.items():
        if (one.node_id, one.cluster_id) != (first.node_id, first.cluster_id):
            raise UserError(
                f"{path} belongs to another broker than {paths[0]}; name one broker's directories"
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    topic_id: Uuid | None
    directory_id: Uuid
    latest_epoch: int


_Found = dict[str, dict[int, _Partition]]


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Reads all partitions in the directories."""

    file_system: FileSystem
    properties: Mapping[str, MetaProperties]

    def find(self) -> _Found:
        """Raises `UserError` for a folder that would keep Kafka from starting."""
        found: _Found = {}
        for path, properties in self.properties.items():
            for name in sorted(self.file_system.list(path)):
                status = self.file_system.status(join(path, name))
                if status is None or not status.is_directory or name == REMOTE_INDEX_CACHE:
                    continue
                parsed = parse_directory_name(name)
                if parsed is None:
                    raise UserError(
                        f"{join(path, name)} is no partition, and Apache Kafka does not start "
                        "beside such a folder; move it elsewhere"
                    )
                if parsed.state is not DirectoryState.LIVE or parsed.topic == CLUSTER_METADATA:
                    continue
                assert properties.directory_id is not None
                folder = join(path, name)
                found.setdefault(parsed.topic, {})[parsed.partition] = _Partition(
                    topic_id=read_topic_id(self.file_system, join(folder, PARTITION_METADATA)),
                    directory_id=properties.directory_id,
                    latest_epoch=self._latest_epoch(folder),
                )
        return found

    def _latest_epoch(self, folder: str) -> int:
        path = join(folder, LEADER_EPOCHS)
        if self.file_system.status(path) is None:
            return 0
        lines = CheckpointLines(path, read_file(self.file_system, path))
        return max((parse_epoch_entry(lines, words).epoch for words in lines), default=0)


def _check_topics(found: FoundMetadata, partitions: _Found) -> None:
    for topic, here in partitions.items():
        ids = {one.topic_id for one in here.values()}
        reason = found.why_unknown(topic, next(iter(ids)) if len(ids) == 1 else None)
        if reason is not None:
            raise UserError(
                f"topic {topic}: its settings are not known, since {reason}; confirm them with "
                "ottla adopt"
            )
        entry = found.known.entries.get(topic)
        if entry is None or ids != {entry.topic_id}:
            raise UserError(
                f"topic {topic}: its partitions do not have its topic id; run ottla "
                "serve on the directory once, and see what it says"
            )
    for name, entry in found.known.entries.items():
        missing = set(range(entry.partition_count)) - partitions.get(name, {}).keys()
        if missing:
            raise UserError(
                f"{name}-{min(missing)} is in none of the directories; name all of the broker's"
            )


def _topics(old: MetadataImage, found: _Found, *, are_several: bool) -> dict[str, TopicImage]:
    """The topics with the epochs and directories of their logs."""
    return {
        name: topic._replace(
            partitions={
                index: _partition(one, found[name][index], are_several=are_several)
                for index, one in topic.partitions.items()
            },
        )
        for name, topic in old.topics.items()
    }


def _partition(known: PartitionImage, here: _Partition, *, are_several: bool) -> PartitionImage:
    """Returns a partition in an epoch not below its log's, and in its directory."""
    is_assigned = are_several or any(one != ZERO_UUID for one in known.directories)
    directories = (here.directory_id,) if is_assigned else known.directories
    epoch = max(known.leader_epoch, here.latest_epoch)
    if (directories, epoch) == (known.directories, known.leader_epoch):
        return known
    return replace(
        known,
        directories=directories,
        leader=NO_LEADER if epoch > known.leader_epoch else known.leader,
        leader_epoch=epoch,
        partition_epoch=known.partition_epoch + 1,
    )
