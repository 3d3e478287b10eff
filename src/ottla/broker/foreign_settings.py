"""What the settings of all topics are, also where another Kafka wrote the directories.

A KRaft cluster keeps them in its metadata log, which is imported when a directory is first opened,
and again when Kafka has written to it since. Then settings that Kafka has changed since the last
import count, and of all others those that were changed here. Where settings cannot be known,
since a ZooKeeper had them or the metadata log is damaged or elsewhere, the defaults would delete
what somebody wanted to keep: such topics are left as they are until a person has confirmed
(`ottla adopt`).

Everything here only reads. Kafka's counterpart: `MetadataLoader`, `BrokerMetadataPublisher`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid
from ottla.broker.adoption_file import (
    Adoption,
    ImportedState,
    newest_adoption,
    read_adoption_file,
)
from ottla.broker.cluster_file import ClusterState, QuotaEntity, Quotas
from ottla.broker.cluster_store import read_cluster_state
from ottla.broker.metadata_log import metadata_file_sizes, read_metadata_log
from ottla.broker.quota_changes import QuotaAlteration
from ottla.broker.settings import ConfigSource, check_dynamic
from ottla.broker.topic_file import (
    TOPIC_FILE_NAME,
    TopicEntry,
    TopicFile,
    merge_topic_files,
    read_topic_file,
)
from ottla.broker.topics import INTERNAL_TOPICS
from ottla.config.broker import broker_config
from ottla.config.group import GroupConfig
from ottla.config.setting import SettingError, with_values
from ottla.config.topic import TopicConfig
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.metadata.records import GROUP_RESOURCE
from ottla.storage.filenames import (
    CLUSTER_METADATA,
    CLUSTER_METADATA_DIRECTORY,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryState,
    parse_directory_name,
)
from ottla.storage.meta_properties import VERSION_ZOOKEEPER, read_meta_properties
from ottla.storage.partition_metadata import read_topic_id

DECIDING: Final = frozenset(
    {"cleanup.policy", "retention.ms", "retention.bytes", "min.compaction.lag.ms"}
)
"""What a topic keeps depends on these: one that means nothing here makes its settings unknown."""

NAMED_AT_MOST = 5

Configs = Mapping[str, str]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSettings:
    """`known`, `cluster` and `adoption` are as they are to be on the disks from now on.

    `is_import`: they are not there yet. `reason` is why the settings of a topic without an entry
    cannot be known.
    """

    known: TopicFile
    cluster: ClusterState
    adoption: Adoption
    reason: str
    next_producer_id: int = 0
    is_import: bool = False
    lines: tuple[str, ...] = ()
    """What a person should hear of an import."""

    def why_unknown(self, topic: str, topic_id: Uuid | None) -> str | None:
        """Why nobody knows what a topic on the disks is to keep; `None` when it is known."""
        if topic in INTERNAL_TOPICS:
            return None
        if topic in self.adoption.unknown:
            return self.adoption.unknown[topic]
        entry = self.known.entries.get(topic)
        is_known = entry is not None and topic_id in (None, entry.topic_id)
        return None if is_known else self.reason


def find_settings(paths: Sequence[str], file_system: FileSystem) -> FoundSettings:
    """What the directories of one broker say; raises `UserError` for damage to Ottla's files."""
    try:
        known = merge_topic_files(read_topic_file(file_system, path) for path in paths)
        adoption = newest_adoption(read_adoption_file(file_system, path) for path in paths)
    except CorruptionError as error:
        raise UserError(f"{error}; restore the file, or move it away") from error
    entries = {name: one for name, one in known.entries.items() if name != CLUSTER_METADATA}
    found = FoundSettings(
        known=replace(known, entries=entries),
        cluster=read_cluster_state(paths, file_system),
        adoption=adoption,
        reason=_reason_without_log(paths, file_system),
    )
    for path in paths:
        sizes = metadata_file_sizes(file_system, path)
        if sizes is not None:
            return _with_metadata_log(found, paths, file_system, path, sizes)
    return found


def _reason_without_log(paths: Iterable[str], file_system: FileSystem) -> str:
    for path in paths:
        try:
            properties = read_meta_properties(file_system, join(path, META_PROPERTIES))
        except CorruptionError:
            continue
        if properties is None:
            continue
        if properties.version == VERSION_ZOOKEEPER:
            return "the settings are in the ZooKeeper of the cluster that wrote the directory"
        break
    return (
        f"the settings are neither in {TOPIC_FILE_NAME} nor in a metadata log here "
        "(metadata.log.dir)"
    )


def _with_metadata_log(
    found: FoundSettings,
    paths: Sequence[str],
    file_system: FileSystem,
    path: str,
    sizes: Mapping[str, int],
) -> FoundSettings:
    folder = join(path, CLUSTER_METADATA_DIRECTORY)
    found = replace(found, reason=f"the metadata log {folder} has no settings of it")
    if sizes == found.adoption.metadata_files:
        return found
    try:
        image = read_metadata_log(file_system, path, sizes)
    except (CorruptionError, OSError) as error:
        reason = f"the metadata log cannot be read ({error})"
        unknown = dict.fromkeys(found.adoption.imported.topics, reason)
        adoption = replace(found.adoption, unknown={**found.adoption.unknown, **unknown})
        return replace(found, adoption=adoption, reason=reason)
    properties = read_meta_properties(file_system, join(path, META_PROPERTIES))
    node_id = None if properties is None else properties.node_id
    importing = _Import(
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    """The image laid over what was known; `base` is what the last import found."""

    image: MetadataImage
    sizes: Mapping[str, int]
    node: str
    ids: Mapping[str, set[Uuid | None]]
    found: FoundSettings

    @property
    def base(self) -> ImportedState:
        return self.found.adoption.imported

    @property
    def is_first(self) -> bool:
        return self.found.adoption.metadata_files is None

    def result(self) -> FoundSettings:
        topics = [one for one in self.image.topics.values() if self._is_here(one)]
        entries = dict(self.found.known.entries)
        unknown = dict(self.found.adoption.unknown)
        refusals: list[str] = []
        for topic in topics:
            values, refused = accepted_topic_configs(self._topic_values(topic))
            entries[topic.name] = self._entry(topic, values)
            unknown.pop(topic.name, None)
            refusals += [f"{name} of topic {topic.name}" for name in refused]
            if DECIDING & refused.keys():
                named = ", ".join(f"{name}={text}" for name, text in sorted(refused.items()))
                unknown[topic.name] = f"{named} means nothing here"
        cluster, more = self._cluster()
        imported = ImportedState(
            topics={topic.name: topic.configs for topic in topics},
            default_configs=self.image.broker_configs(),
            broker_configs=self.image.broker_configs(self.node),
            group_configs=self._groups,
            quotas=self.image.quotas,
        )
        adoption = replace(
            self.found.adoption,
            end_offset=self.image.end_offset,
            metadata_files=self.sizes,
            imported=imported,
            unknown=unknown,
        )
        return replace(
            self.found,
            known=replace(self.found.known, entries=entries),
            cluster=cluster,
            adoption=adoption,
            next_producer_id=self.image.next_producer_id,
            is_import=True,
            lines=tuple(_lines(self.image, imported, [*refusals, *more])),
        )

    def _is_here(self, topic: TopicImage) -> bool:
        """Whether the directories hold a partition of it: in a larger cluster others may."""
        ids = self.ids.get(topic.name)
        return ids is not None and (topic.topic_id in ids or ids == {None})

    def _topic_values(self, topic: TopicImage) -> dict[str, str]:
        entry = self.found.known.entries.get(topic.name)
        if entry is None or entry.topic_id != topic.topic_id:
            return dict(topic.configs)
        base = self.base.topics.get(topic.name, {})
        return self._merged(base, topic.configs, entry.overrides)

    def _merged(
        self, base: Mapping[Key, Value], theirs: Mapping[Key, Value], ours: Mapping[Key, Value]
    ) -> dict[Key, Value]:
        """What is theirs where they have changed it since the last import, and ours otherwise."""
        if self.is_first:
            return {**theirs, **ours}
        merged = dict(ours)
        for name in {*base, *theirs}:
            if name in theirs and theirs[name] != base.get(name):
                merged[name] = theirs[name]
            elif name not in theirs:
                merged.pop(name, None)
        return merged

    def _entry(self, topic: TopicImage, values: Configs) -> TopicEntry:
        old = self.found.known.entries.get(topic.name)
        is_same = old is not None and old.topic_id == topic.topic_id
        return TopicEntry(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_count=max(
                topic.partition_count, old.partition_count if old is not None and is_same else 1
            ),
            overrides=values,
            revision=1 if old is None else old.revision + 1,
        )

    @property
    def _groups(self) -> dict[str, Configs]:
        return {
            name: values
            for (kind, name), values in self.image.configs.items()
            if kind == GROUP_RESOURCE
        }

    def _cluster(self) -> tuple[ClusterState, list[str]]:
        """The state of the cluster with what applies here, and what does not."""
        ours, base = self.found.cluster, self.base
        defaults, refused_defaults = accepted_broker_configs(
            self._merged(base.default_configs, self.image.broker_configs(), ours.default_configs),
            ConfigSource.ALL_BROKERS,
        )
        own, refused_own = accepted_broker_configs(
            self._merged(
                base.broker_configs, self.image.broker_configs(self.node), ours.broker_configs
            ),
            ConfigSource.BROKER,
        )
        quotas, refused_quotas = _accepted_quotas(
            self._merged(base.quotas, self.image.quotas, ours.quotas)
        )
        groups, refused_groups = _accepted_groups(
            self._merged(base.group_configs, self._groups, ours.group_configs)
        )
        state = replace(
            ours,
            default_configs=defaults,
            broker_configs=own,
            quotas=quotas,
            group_configs=groups,
        )
        return state, [*refused_defaults, *refused_own, *refused_quotas, *refused_groups]


def accepted_topic_configs(values: Configs) -> tuple[dict[str, str], dict[str, str]]:
    """A topic's settings that mean something here, and the others."""
    taken: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, text in values.items():
        try:
            with_values(TopicConfig(), {name: text})
            taken[name] = text
        except SettingError:
            refused[name] = text
    while taken:
        try:
            with_values(TopicConfig(), taken).check()
            break
        except SettingError as error:
            refused[error.name] = taken.pop(error.name)
    return taken, refused


def accepted_broker_configs(
    values: Configs, scope: ConfigSource
) -> tuple[dict[str, str], list[str]]:
    """Settings of a broker that may be changed while it runs, and the names of the others."""
    taken: dict[str, str] = {}
    refused: list[str] = []
    for name, text in values.items():
        try:
            check_dynamic({name: text}, scope)
            broker_config({**taken, name: text})
            taken[name] = text
        except (ApiError, UserError):
            refused.append(name)
    return taken, refused


def _accepted_quotas(
    values: Mapping[QuotaEntity, Mapping[str, float]],
) -> tuple[Quotas, list[str]]:
    taken: Quotas = {}
    refused: list[str] = []
    for entity, limits in values.items():
        for key, value in limits.items():
            try:
                taken = QuotaAlteration(names=entity, limits={key: value}).apply(taken)
            except ApiError:
                whom = " and ".join(f"{kind} {name or 'default'}" for kind, name in entity)
                refused.append(f"{key} of {whom}")
    return taken, refused


def _accepted_groups(values: Mapping[str, Configs]) -> tuple[dict[str, Configs], list[str]]:
    taken: dict[str, Configs] = {}
    refused: list[str] = []
    for group, configs in values.items():
        kept = {}
        for name, text in configs.items():
            try:
                with_values(GroupConfig(), {name: text}, "group")
                kept[name] = text
            except SettingError:
                refused.append(f"{name} of group {group}")
        if kept:
            taken[group] = kept
    return taken, refused


def _lines(image: MetadataImage, imported: ImportedState, refused: list[str]) -> Iterable[str]:
    settings = len(imported.default_configs) + len(imported.broker_configs)
    limits = sum(map(len, imported.quotas.values()))
    yield (
        f"imported from Kafka's metadata log up to offset {image.end_offset}: "
        f"{_counted(len(imported.topics), 'topic')} with ids and settings, "
        f"{_counted(settings, 'setting')} of brokers, {_counted(limits, 'quota')}, and that the "
        f"next producer id is {image.next_producer_id}; a server.properties is not in it "
        "(--config)"
    )
    if refused:
        more = f" and {len(refused) - NAMED_AT_MOST} more" if len(refused) > NAMED_AT_MOST else ""
        named = ", ".join(refused[:NAMED_AT_MOST])
        yield f"not imported, since they mean nothing here: {named}{more}"
    users, acls, tokens = (
        len(image.scram_credentials),
        len(image.acls),
        len(image.delegation_tokens),
    )
    if users or acls or tokens:
        yield (
            f"not imported, and still in {CLUSTER_METADATA}: "
            f"{_counted(users, 'SCRAM credential')}, {_counted(acls, 'ACL')}, "
            f"{_counted(tokens, 'delegation token')}; every client may do everything here"
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
