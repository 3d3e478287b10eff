"""Plans and writes the files that Apache Kafka needs to start on Ottla's directories in KRaft mode.

The plan writes a metadata log: a new one, or one more epoch after the log that Kafka left when the
directories were adopted, with all changes since. Records about nodes stay unchanged. Each file is
written as a whole and renamed into place, the segment with the records after all other files that
Kafka reads. A repeated handover changes nothing.

Kafka ignores Ottla's own files in a log directory, since it looks at folders only, and removes
Ottla's files in partitions' folders because of their suffix. Kafka's counterparts: `Formatter`,
`QuorumController`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.files import FileSystem, join, make_durable_directory, read_file, replace_file
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.broker.adoption.accepted_settings import (
    accepted_broker_configs,
    accepted_client_metrics,
    accepted_groups,
    accepted_quotas,
    accepted_topic_configs,
)
from ottla.broker.adoption.adoption_file import (
    newest_adoption,
    read_adoption_file,
    write_adoption_file,
)
from ottla.broker.adoption.foreign_settings import find_settings
from ottla.broker.adoption.found_settings import FoundSettings
from ottla.broker.adoption.imported_security import with_exported
from ottla.broker.adoption.metadata_import import imported_state
from ottla.broker.adoption.metadata_log import (
    SEGMENT_NAME,
    metadata_file_sizes,
    read_metadata_log,
)
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.producer_ids import read_producer_ids
from ottla.metadata.image import (
    ALL_BROKERS,
    ConfigResource,
    Configs,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    TopicImage,
)
from ottla.metadata.image_changes import (
    FIRST_WITH_DIRECTORIES,
    FIRST_WITH_TRANSACTIONS,
    METADATA_VERSION,
    VersionedRecord,
    credentials_again,
    image_changes,
)
from ottla.metadata.log_writing import epoch_bytes, snapshot_bytes
from ottla.metadata.records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    NO_LEADER,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveUserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.storage.directory.owner_note import refuse_in_use
from ottla.storage.files.checkpoints import CheckpointLines, checkpoint_text
from ottla.storage.files.clean_shutdown import read_clean_shutdown
from ottla.storage.files.filenames import (
    BOOTSTRAP_CHECKPOINT,
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA,
    CLUSTER_METADATA_DIRECTORY,
    LEADER_EPOCHS,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryState,
    log_file_name,
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
from ottla.storage.files.partition_metadata import read_topic_id, write_topic_id
from ottla.storage.log.leader_epochs import parse_epoch_entry

RELEASE_LEVEL: Final = 21
"""The `metadata.version` of a new metadata log: 3.9-IV0, for Kafka 3.9 and later versions."""

METADATA_TOPIC_ID: Final = Uuid(bytes(15) + b"\x01")
QUORUM_STATE: Final = "quorum-state"
OTTLAS_OWN: Final = ("cordoned.log.dirs", "max.auto.create.topics.", "ottla.")
"""Prefixes of settings that Kafka 3.9 does not have."""

KAFKAS_FOLDERS: Final = frozenset({"remote-log-index-cache"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverOptions:
    """Sources of time and ids."""

    now_ms: int
    new_id: Callable[[], Uuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The plan of a handover. `records` follow those of `old` in the log; if empty, nothing is
    written.
    """

    paths: Sequence[str]
    metadata_path: str
    properties: Mapping[str, MetaProperties]
    is_new: bool
    old: MetadataImage
    new: MetadataImage
    records: Sequence[VersionedRecord]
    is_imported: bool
    """Whether Ottla's files contain everything in the old log. Then a later import takes only what
    Kafka changes after this handover.
    """

    @property
    def node_id(self) -> int:
        node_id = self.properties[self.metadata_path].node_id
        assert node_id is not None
        return node_id

    @property
    def folder(self) -> str:
        return join(self.metadata_path, CLUSTER_METADATA_DIRECTORY)


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
    found = find_settings(paths, file_system)
    metadata_path, old = _metadata_log(paths, file_system)
    partitions = _Partitions(file_system, properties).find()
    _check_topics(found, partitions)
    node_id = properties[metadata_path].node_id
    assert node_id is not None
    _check_nodes(old, node_id, metadata_path)
    is_new = old.end_offset == 0
    known = MetadataImage() if is_new else old
    features = old.features or {METADATA_VERSION: RELEASE_LEVEL}
    if len(paths) > 1 and features.get(METADATA_VERSION, 0) < FIRST_WITH_DIRECTORIES:
        raise UserError(
            "several directories need metadata.version 17 (3.7-IV2) or later; raise it with "
            "kafka-features before the directories are adopted, or name one directory"
        )
    wanted = _Wanted(known, found, partitions, node_id)
    new = replace(
        known,
        features=features,
        topics=dict(sorted(wanted.topics().items())),
        configs=wanted.configs(),
        quotas=wanted.quotas(),
        next_producer_id=max(
            known.next_producer_id,
            found.next_producer_id,
            *(read_producer_ids(file_system, path) for path in paths),
        ),
    )
    new = with_exported(new, found.security, options.new_id)
    records = list(image_changes(known, new))
    return Handover(
        paths=paths,
        metadata_path=metadata_path,
        properties=properties,
        is_new=is_new,
        old=known,
        new=new,
        records=_framed(records) if is_new else _with_credentials(records, new),
        is_imported=not found.is_import,
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
    if not plan.records:
        return lines
    if plan.is_new:
        lines += _format(plan, file_system, options)
    epoch, base_offset = plan.old.epoch + 1, plan.old.end_offset
    leader = plan.node_id, _voter_directory(plan, file_system)
    content = epoch_bytes(
        plan.records, base_offset=base_offset, epoch=epoch, leader=leader, now_ms=options.now_ms
    )
    _write_epoch(plan, file_system, epoch, base_offset)
    _write_quorum_state(plan, file_system, epoch)
    name = log_file_name(base_offset)
    segment = join(plan.folder, name)
    if plan.is_new:
        # Before the log: a crash at this point leaves an empty log, which needs no import.
        _record(plan, file_system, {name: len(content)})
    replace_file(file_system, segment, content)
    if not plan.is_new:
        _record(plan, file_system, metadata_file_sizes(file_system, plan.metadata_path) or {})
    lines.append(
        f"{segment}: {len(plan.records)} records from offset {base_offset + 1} on, epoch {epoch}"
    )
    return lines


def _record(plan: Handover, file_system: FileSystem, sizes: Mapping[str, int]) -> None:
    """Records the log's content, so that the next import takes only Kafka's later changes."""
    if not plan.is_imported:
        return
    known = newest_adoption(read_adoption_file(file_system, path) for path in plan.paths)
    adoption = replace(
        known,
        revision=known.revision + 1,
        end_offset=plan.old.end_offset + len(plan.records) + 1,
        metadata_files=sizes,
        imported=imported_state(plan.new, plan.new.topics.values(), str(plan.node_id)),
    )
    for path in plan.paths:
        write_adoption_file(file_system, path, adoption)


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


def _metadata_log(paths: Sequence[str], file_system: FileSystem) -> tuple[str, MetadataImage]:
    """Returns the directory of the metadata log, existing or new, and the log's current image."""
    for path in paths:
        sizes = metadata_file_sizes(file_system, path)
        if sizes is None:
            continue
        try:
            image = read_metadata_log(file_system, path, sizes)
            end = _log_end(file_system, path, sizes)
        except (CorruptionError, InvalidBatchError, OSError) as error:
            raise UserError(
                f"{path}: its metadata log cannot be read ({error}); restore it"
            ) from error
        if image.end_offset and end != image.end_offset:
            raise UserError(
                f"{path}: the metadata log ends at offset {end}, before its snapshot at "
                f"{image.end_offset}; start Apache Kafka on it once"
            )
        return path, image
    return paths[0], MetadataImage()


def _log_end(file_system: FileSystem, path: str, names: Iterable[str]) -> int:
    segments = sorted(name for name in names if SEGMENT_NAME.fullmatch(name))
    if not segments:
        return 0
    end = int(segments[-1].partition(".")[0])
    content = read_file(file_system, join(path, CLUSTER_METADATA_DIRECTORY, segments[-1]))
    for batch in iter_batches(content):
        end = batch.next_offset
    return end


def _check_nodes(image: MetadataImage, node_id: int, path: str) -> None:
    others = sorted({*image.brokers, *image.controllers} - {node_id})
    if others:
        raise UserError(
            f"{path}: its metadata log is that of a cluster with nodes "
            f"{', '.join(map(str, [node_id, *others]))}; hand over directories of a single node"
        )


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
                if status is None or not status.is_directory or name in KAFKAS_FOLDERS:
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


def _check_topics(found: FoundSettings, partitions: _Found) -> None:
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
        if missing and not entry.is_deleted:
            raise UserError(
                f"{name}-{min(missing)} is in none of the directories; name all of the broker's"
            )


# The wanted state


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The metadata to write: the directories' contents, and the old log's other records."""

    old: MetadataImage
    found: FoundSettings
    partitions: _Found
    node_id: int

    def topics(self) -> dict[str, TopicImage]:
        imported = self.found.adoption.imported.topics
        topics = {
            name: one
            for name, one in self.old.topics.items()
            if name not in imported and name not in self.found.known.entries
        }
        for name, entry in self.found.known.entries.items():
            if entry.is_deleted:
                topics.pop(name, None)
                continue
            before = self.old.topics.get(name)
            if before is not None and before.topic_id != entry.topic_id:
                before = None
            theirs = {} if before is None else before.configs
            taken, _ = accepted_topic_configs(theirs)
            topics[name] = TopicImage(
                name=name,
                topic_id=entry.topic_id,
                partitions=self._partitions(name, before),
                configs=_changed(theirs, taken, entry.overrides),
            )
        return topics

    def _partitions(self, name: str, before: TopicImage | None) -> dict[int, PartitionImage]:
        known = {} if before is None else before.partitions
        return {
            index: self._partition(one, known.get(index))
            for index, one in sorted(self.partitions[name].items())
        }

    def _partition(self, one: _Partition, before: PartitionImage | None) -> PartitionImage:
        """Returns a partition as Kafka leaves it at a clean shutdown, in an epoch not below the
        log's.
        """
        if before is None:
            return PartitionImage(
                replicas=(self.node_id,),
                isr=(self.node_id,),
                leader=NO_LEADER,
                leader_epoch=one.latest_epoch + 1,
                partition_epoch=1,
                directories=(one.directory_id,),
            )
        has_directories = any(bytes(directory) != bytes(16) for directory in before.directories)
        directories = (one.directory_id,) if has_directories else before.directories
        epoch = max(before.leader_epoch, one.latest_epoch)
        if (directories, epoch) == (before.directories, before.leader_epoch):
            return before
        return replace(
            before,
            directories=directories,
            leader=NO_LEADER if epoch > before.leader_epoch else before.leader,
            leader_epoch=epoch,
            partition_epoch=before.partition_epoch + 1,
        )

    def configs(self) -> dict[ConfigResource, Configs]:
        configs = dict(self.old.configs)
        state = self.found.cluster
        scopes: list[tuple[str, ConfigSource, Configs]] = [
            (ALL_BROKERS, ConfigSource.ALL_BROKERS, state.default_configs),
            (str(self.node_id), ConfigSource.BROKER, state.broker_configs),
        ]
        for name, scope, ours in scopes:
            theirs = self.old.broker_configs(name)
            taken, _ = accepted_broker_configs(theirs, scope)
            known = {key: text for key, text in ours.items() if not key.startswith(OTTLAS_OWN)}
            configs[BROKER_RESOURCE, name] = _changed(theirs, taken, known)
        groups = {
            name: values for (kind, name), values in configs.items() if kind == GROUP_RESOURCE
        }
        known_groups, _ = accepted_groups(groups)
        for name in {*state.group_configs, *groups}:
            configs[GROUP_RESOURCE, name] = _changed(
                groups.get(name, {}), known_groups.get(name, {}), state.group_configs.get(name, {})
            )
        self._add_client_metrics(configs)
        return {resource: values for resource, values in configs.items() if values}

    def _add_client_metrics(self, configs: dict[ConfigResource, Configs]) -> None:
        """Ottla's subscriptions, and Kafka's that were not taken over."""
        ours, kind = self.found.cluster.client_metrics, CLIENT_METRICS_RESOURCE
        theirs = {name: values for (one, name), values in configs.items() if one == kind}
        taken, _ = accepted_client_metrics(theirs)
        for name in {*ours, *taken}:
            configs[kind, name] = ours.get(name, {})

    def quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        taken, _ = accepted_quotas(self.old.quotas)
        ours = self.found.cluster.quotas
        merged: dict[QuotaEntity, dict[str, float]] = {}
        for entity in {*self.old.quotas, *ours}:
            theirs, known = self.old.quotas.get(entity, {}), taken.get(entity, {})
            kept = {key: value for key, value in theirs.items() if key not in known}
            merged[entity] = {**kept, **ours.get(entity, {})}
        return {entity: values for entity, values in merged.items() if values}


def _changed(theirs: Configs, taken: Configs, ours: Configs) -> dict[str, str]:
    """Returns Kafka's settings that Ottla does not support, and Ottla's own ones."""
    kept = {name: text for name, text in theirs.items() if name not in taken}
    return {**kept, **ours}


# Writing


def _with_credentials(records: list[VersionedRecord], new: MetadataImage) -> list[VersionedRecord]:
    """Ends the records with all credentials, whose loss by a removal Kafka 3.9 then does not meet.

    The removal may also be in the log as Kafka left it. Raises `UserError` for a removal in a log
    that is too old for transactions.
    """
    if not records or not new.scram_credentials:
        return records
    if new.features.get(METADATA_VERSION, 0) >= FIRST_WITH_TRANSACTIONS:
        return [*records, *credentials_again(new)]
    for one, _ in records:
        if isinstance(one, RemoveUserScramCredentialRecord):
            raise UserError(
                f"user {one.name}: Apache Kafka may lose other passwords when it reads that this "
                f"one was removed, with metadata.version below {FIRST_WITH_TRANSACTIONS}; set a "
                "password for the user again with ottla users, hand over, and remove it with "
                "kafka-configs"
            )
    return records


def _framed(records: list[VersionedRecord]) -> list[VersionedRecord]:
    """Puts a new log's first records into a metadata transaction, as Kafka's controller does."""
    begin = BeginTransactionRecord(name="Bootstrap records"), 0
    first = [one for one in records if isinstance(one[0], FeatureLevelRecord)]
    state = ZkMigrationStateRecord(zk_migration_state=0), 0
    rest = [one for one in records if one not in first]
    return [begin, *first, state, (EndTransactionRecord(), 0), *rest]


def _format(plan: Handover, file_system: FileSystem, options: HandoverOptions) -> list[str]:
    """Writes what `kafka-storage format` writes, except for the log itself."""
    features = [
        (FeatureLevelRecord(name=name, feature_level=level), 0)
        for name, level in sorted(plan.new.features.items())
    ]
    bootstrap = join(plan.metadata_path, BOOTSTRAP_CHECKPOINT)
    lines = []
    if file_system.status(bootstrap) is None:
        content = snapshot_bytes(features, epoch=0, now_ms=options.now_ms)
        replace_file(file_system, bootstrap, content)
        lines.append(f"{bootstrap}: metadata.version {plan.new.features[METADATA_VERSION]}")
    make_durable_directory(file_system, plan.folder)
    write_topic_id(file_system, join(plan.folder, PARTITION_METADATA), METADATA_TOPIC_ID)
    return lines


def _write_epoch(plan: Handover, file_system: FileSystem, epoch: int, start_offset: int) -> None:
    path = join(plan.folder, LEADER_EPOCHS)
    known = []
    if file_system.status(path) is not None:
        lines = CheckpointLines(path, read_file(file_system, path))
        entries = [parse_epoch_entry(lines, words) for words in lines]
        known = [one for one in entries if one.epoch < epoch and one.start_offset < start_offset]
    texts = [f"{one.epoch} {one.start_offset}" for one in known]
    replace_file(file_system, path, checkpoint_text([*texts, f"{epoch} {start_offset}"]))


def _quorum_state(plan: Handover, file_system: FileSystem) -> dict[str, object]:
    path = join(plan.folder, QUORUM_STATE)
    try:
        content = read_file(file_system, path)
    except FileNotFoundError:
        return {
            "clusterId": "",
            "leaderId": plan.node_id,
            "leaderEpoch": 0,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": plan.node_id}],
            "data_version": 0,
        }
    try:
        fields = json.loads(content)
    except ValueError as error:
        raise RefusalError(f"{path} is damaged ({error}); restore it") from error
    if not isinstance(fields, dict):
        raise RefusalError(f"{path} is damaged; restore it")
    return fields


def _voter_directory(plan: Handover, file_system: FileSystem) -> Uuid | None:
    """Returns the voter's directory id, if the log's quorum has directory ids (KIP-853)."""
    if _quorum_state(plan, file_system).get("data_version") != 1:
        return None
    return plan.properties[plan.metadata_path].directory_id


def _write_quorum_state(plan: Handover, file_system: FileSystem, epoch: int) -> None:
    """Writes the epoch, after which Kafka's next start begins another. The voters stay the same."""
    fields = _quorum_state(plan, file_system)
    fields |= {"leaderId": plan.node_id, "leaderEpoch": epoch, "votedId": -1}
    text = json.dumps(fields, separators=(",", ":"))
    replace_file(file_system, join(plan.folder, QUORUM_STATE), text.encode())
