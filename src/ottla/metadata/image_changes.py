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
from ottla.metadata.acls import Acl, Entry
from ottla.metadata.image import (
    FIRST_WITHOUT_CONTROLLERS,
    NO_CONFIGS,
    NO_TOPIC,
    Acls,
    Configs,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.quotas import QuotaEntity as QuotaNames
from ottla.metadata.record_versions import VersionedRecord as VersionedRecord
from ottla.metadata.record_versions import record_version, versioned
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
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
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

NO_OWNER = -1


def image_changes(old: MetadataImage, new: MetadataImage) -> Iterator[VersionedRecord]:
    """The records, each with its version for the new image's `metadata.version`."""
    for name in sorted({*old.features, *new.features}):
        level = new.features.get(name, 0)
        if old.features.get(name, 0) != level:
            yield FeatureLevelRecord(name=name, feature_level=level), 0
    if old.zk_migration_state != new.zk_migration_state:
        yield ZkMigrationStateRecord(zk_migration_state=new.zk_migration_state), 0
    yield from _nodes(old, new)
    yield from _topics(old, new)
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


def _nodes(old: MetadataImage, new: MetadataImage) -> Iterator[VersionedRecord]:
    """Before level 33 there is no record for a controller that has gone."""
    if new.level >= FIRST_WITHOUT_CONTROLLERS:
        for number in sorted(old.controllers.keys() - new.controllers.keys()):
            yield UnregisterControllerRecord(controller_id=number), 0
    for number, controller in sorted(new.controllers.items()):
        if old.controllers.get(number) != controller:
            yield controller, 0
    for number in sorted(old.brokers.keys() - new.brokers.keys()):
        epoch = old.brokers[number].epoch
        yield UnregisterBrokerRecord(broker_id=number, broker_epoch=epoch), 0
    for number, broker in sorted(new.brokers.items()):
        if old.brokers.get(number) != broker:
            yield versioned(broker_record(number, broker), new.level)


def _topics(old: MetadataImage, new: MetadataImage) -> Iterator[VersionedRecord]:
    for name, gone in old.topics.items():
        if name not in new.topics or new.topics[name].topic_id != gone.topic_id:
            yield from topic_records(gone, None, new.level)
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is not None and before.topic_id != topic.topic_id:
            before = None
        yield from topic_records(before, topic, new.level)


def topic_records(
    before: TopicImage | None, after: TopicImage | None, level: int
) -> Iterator[VersionedRecord]:
    """The records that create, change or remove a topic, which keeps its id, at a level of
    `metadata.version`.
    """
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
    for index, partition in after.partitions.items():
        was = known.get(index)
        if was is not partition and was != partition:
            yield partition_record(after.topic_id, index, partition, level)
    yield from configs


def partition_record(
    topic_id: Uuid, index: int, partition: PartitionImage, level: int
) -> VersionedRecord:
    """The complete state of a partition as a record, which replaces an earlier such record.

    What the level has no field for is left out.
    """
    version = record_version(PartitionRecord, level)
    record = PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories) if version >= 1 else [],
        eligible_leader_replicas=(list(partition.elr) or None) if version >= 2 else None,
        last_known_elr=(list(partition.last_known_elr) or None) if version >= 2 else None,
    )
    return record, version


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
