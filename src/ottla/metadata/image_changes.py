"""The records that change one image of a cluster's metadata into another.

From an empty image, they are the content of a new metadata log. The settings of a removed topic are
removed first: Apache Kafka 3.9 gives them to a later topic of the same name if it replays both in
one delta. A removed credential may cost it others, which `credentials_again` prevents. Kafka's
counterparts: the writers of its images (`TopicsImage.write` and the like).
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from ottla.base.ids import Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.codec.schema import Message
from ottla.metadata.acls import Acl, Entry
from ottla.metadata.image import (
    FIRST_WITH_CORDONED,
    FIRST_WITH_DIRECTORIES,
    METADATA_VERSION,
    NO_CONFIGS,
    NO_TOPIC,
    Acls,
    Configs,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.quotas import QuotaEntity as QuotaNames
from ottla.metadata.records import (
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from ottla.metadata.replay import SCRAM_AGAIN
from ottla.metadata.values import (
    acl_record,
    broker_record,
    credential_changes,
    credential_record,
    token_changes,
)

K = TypeVar("K")
V = TypeVar("V")

VersionedRecord = tuple[Message, int]

NO_OWNER = -1


def image_changes(old: MetadataImage, new: MetadataImage) -> Iterator[VersionedRecord]:
    """The records, each with its version for the new image's `metadata.version`."""
    version = new.features.get(METADATA_VERSION, 0)
    for name, level in sorted(new.features.items()):
        if old.features.get(name) != level:
            yield FeatureLevelRecord(name=name, feature_level=level), 0
    if old.zk_migration_state != new.zk_migration_state:
        yield ZkMigrationStateRecord(zk_migration_state=new.zk_migration_state), 0
    yield from _nodes(old, new, version)
    yield from _topics(old, new, has_directories=version >= FIRST_WITH_DIRECTORIES)
    for kind in sorted({*old.configs, *new.configs}):
        for name in sorted({*old.configs.get(kind, {}), *new.configs.get(kind, {})}):
            before, after = (one.configs_of(kind, name) for one in (old, new))
            yield from config_records(kind, name, before, after)
    yield from _quotas(old, new)
    if new.next_producer_id > old.next_producer_id:
        yield (
            ProducerIdsRecord(
                broker_id=NO_OWNER, broker_epoch=-1, next_producer_id=new.next_producer_id
            ),
            0,
        )
    yield from _security(old, new)


def credentials_again(image: MetadataImage) -> Iterator[VersionedRecord]:
    """All credentials once more, in a metadata transaction: for the end of a log that has removals.

    Kafka 3.9 loses credentials when a delta has a removal that leaves a mechanism without users and
    another user of that mechanism: `ScramDelta.apply` drops the mechanism's map, and the user goes
    into the dropped one if its hash comes later. At a start one delta is everything up to the end
    of the log, or up to the next BeginTransaction, and begins with an empty image: a credential
    that is added and removed in it is such a removal, wherever in the log. So the transaction has a
    delta of its own without removals, which the empty one after it ends, before Kafka's next
    records.
    """
    yield BeginTransactionRecord(name=SCRAM_AGAIN), 0
    for (user, mechanism), credential in image.credentials.items():
        yield credential_record(user, mechanism, credential), 0
    yield EndTransactionRecord(), 0
    yield BeginTransactionRecord(name="End of the delta of SCRAM credentials"), 0
    yield EndTransactionRecord(), 0


def _nodes(old: MetadataImage, new: MetadataImage, version: int) -> Iterator[VersionedRecord]:
    for number, controller in sorted(new.controllers.items()):
        if old.controllers.get(number) != controller:
            yield controller, 0
    for number, broker in sorted(new.brokers.items()):
        if old.brokers.get(number) != broker:
            yield broker_record(number, broker), _broker_version(version)


def _broker_version(level: int) -> int:
    if level >= FIRST_WITH_CORDONED:
        return 4
    return 3 if level >= FIRST_WITH_DIRECTORIES else 1


def _topics(
    old: MetadataImage, new: MetadataImage, *, has_directories: bool
) -> Iterator[VersionedRecord]:
    for name, gone in old.topics.items():
        if name not in new.topics or new.topics[name].topic_id != gone.topic_id:
            yield from topic_records(gone, None, has_directories=has_directories)
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is not None and before.topic_id != topic.topic_id:
            before = None
        yield from topic_records(before, topic, has_directories=has_directories)


def topic_records(
    before: TopicImage | None, after: TopicImage | None, *, has_directories: bool
) -> Iterator[VersionedRecord]:
    """The records that create, change or remove a topic, which keeps its id."""
    name = (after or before or NO_TOPIC).name
    configs = config_records(
        ResourceKind.TOPIC,
        name,
        NO_CONFIGS if before is None else before.configs,
        NO_CONFIGS if after is None else after.configs,
    )
    if after is None:
        yield from configs
        if before is not None:
            yield RemoveTopicRecord(topic_id=before.topic_id), 0
        return
    if before is None:
        yield TopicRecord(name=name, topic_id=after.topic_id), 0
    known = {} if before is None else before.partitions
    version = 1 if has_directories else 0
    for index, partition in after.partitions.items():
        was = known.get(index)
        if was is not partition and was != partition:
            yield partition_record(after, index, partition, version), version
    yield from configs


def partition_record(
    topic: TopicImage, index: int, partition: PartitionImage, version: int
) -> PartitionRecord:
    """The complete state of a partition as a record, which replaces an earlier such record."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=[],
        adding_replicas=[],
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories) if version else [],
    )


def config_records(
    kind: int, resource: str, old: Configs, new: Configs
) -> Iterator[VersionedRecord]:
    """The records that change the settings of a resource."""
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            value = new.get(name)
            yield (
                ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value),
                0,
            )


def _quotas(old: MetadataImage, new: MetadataImage) -> Iterator[VersionedRecord]:
    nothing: Mapping[str, float] = {}
    for entity in sorted({*old.quotas, *new.quotas}, key=repr):
        before, after = (one.quotas.get(entity, nothing) for one in (old, new))
        yield from quota_records(entity, before, after)


def quota_records(
    entity: QuotaNames, before: Mapping[str, float], after: Mapping[str, float]
) -> Iterator[VersionedRecord]:
    """The records that change the quotas of an entity."""
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            parts = [QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity]
            yield (
                ClientQuotaRecord(
                    entity=parts,
                    key=key,
                    value=after.get(key, 0.0),
                    remove=key not in after,
                ),
                0,
            )


def _security(old: MetadataImage, new: MetadataImage) -> Iterator[VersionedRecord]:
    yield from credential_changes(_altered(old.credentials, new.credentials))
    yield from _acls(old.acls, new.acls)
    yield from token_changes(_altered(old.tokens, new.tokens))


def _altered(old: Mapping[K, V], new: Mapping[K, V]) -> dict[K, V | None]:
    """The values that differ; `None` for those that are gone."""
    gone: dict[K, V | None] = dict.fromkeys(one for one in old if one not in new)
    return gone | {key: value for key, value in new.items() if old.get(key) != value}


def _acls(old: Acls, new: Acls) -> Iterator[VersionedRecord]:
    nothing: Mapping[Entry, tuple[Uuid, ...]] = {}
    for pattern in {**old, **new}:
        before, after = old.get(pattern, nothing), new.get(pattern, nothing)
        for entry in {**before, **after}:
            ids, wanted = before.get(entry, ()), after.get(entry, ())
            for gone in ids:
                if gone not in wanted:
                    yield RemoveAccessControlEntryRecord(id=gone), 0
            for one in wanted:
                if one not in ids:
                    yield acl_record(one, Acl(pattern, entry)), 0
