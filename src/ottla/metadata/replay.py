"""Replays the metadata records of a KRaft cluster, which make its image.

Images share what is the same in them: a dictionary that an image has is copied before its first
change, so that `image` costs what has changed. Records of a metadata transaction are applied when
it ends (KIP-868). Kafka's counterparts: `MetadataImage`, `MetadataDelta`, `MetadataBatchLoader`. In
Kafka, a topic that is deleted and created again within one delta inherits the settings of the
deleted topic; here records are applied one by one, and it does not.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.codec.schema import Message
from ottla.metadata.acls import Acl
from ottla.metadata.changes import ImageChanges
from ottla.metadata.image import NO_CONFIGS, Acls, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.records import (
    NO_LEADER_CHANGE,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from ottla.metadata.values import acl_of, broker_of, credential_of, mechanism_of, token_of

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")

SCRAM_AGAIN = "SCRAM credentials"
"""The name of the metadata transaction in which all credentials are written again."""

CONTENT: Final = (
    "topics",
    "topic_names",
    "configs",
    "quotas",
    "credentials",
    "acls",
    "tokens",
    "features",
    "brokers",
    "controllers",
)
"""The fields of an image that are dictionaries."""

FLAGS: Final = ("quotas", "credentials", "acls", "tokens", "features", "controllers")
"""Those of which `ImageChanges` only says that they have changed."""


class MetadataReplay:
    """Replays records in the log's order; `image` returns what they have made so far.

    `end_offset`, `epoch` and `voters` are set by who reads the log.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.end_offset = 0
        self.voters: frozenset[int] = frozenset()
        self.has_removed_credential = False
        """Whether a SCRAM credential was removed since all were written again
        (`credentials_again`).
        """
        self._seed(MetadataImage())

    @classmethod
    def of(cls, image: MetadataImage) -> "MetadataReplay":
        """A replay that goes on from an image."""
        replay = cls()
        replay.epoch, replay.end_offset = image.epoch, image.end_offset
        replay.voters = image.voters
        replay._seed(image)
        return replay

    def _seed(self, image: MetadataImage) -> None:
        self._content: dict[str, dict[Any, Any]] = {one: getattr(image, one) for one in CONTENT}
        self._own: dict[int, dict[Any, Any]] = {}
        """By their `id` the dictionaries that no image has."""
        self._acls_by_id = _acls_by_id(image.acls)
        self._next_producer_id = image.next_producer_id
        self._zk_migration_state = image.zk_migration_state
        self._removed = image.removed
        self._revision = image.revision
        self._has_resized = False
        self._unsorted: set[str] = set()
        """Topics with partitions that did not come in order; "" if topics did not."""
        self._same: dict[PartitionImage, PartitionImage] = {}
        """One object for all partitions in the same state, of which there may be 100,000."""
        self._transaction: list[Message] | None = None
        """The records of the open transaction, if any."""
        self._transaction_name: str | None = None
        self.forget_changes()

    def forget_changes(self) -> None:
        """Has the next `take_changes` tell of what changes from now on."""
        self._partitions: dict[str, set[int]] = {}
        self._removed_topics: dict[str, Uuid] = {}
        self._configs: set[tuple[int, str]] = set()
        self._brokers: set[int] = set()
        self._kinds: set[str] = set()
        """The other fields of the image that have changed."""

    def replay(self, record: Message) -> None:
        """Applies a record; raises `KeyError` for a change of an unknown topic or partition."""
        match record:
            case BeginTransactionRecord():
                self._transaction = []
                self._transaction_name = record.name
            case AbortTransactionRecord():
                self._transaction = None
            case EndTransactionRecord():
                ended, self._transaction = self._transaction or [], None
                for one in ended:
                    self._take(one)
                if self._transaction_name == SCRAM_AGAIN:
                    self.has_removed_credential = False
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                self._take(record)

    def _take(self, record: Message) -> None:
        REPLAYS[type(record)](self, record)

    @property
    def is_in_transaction(self) -> bool:
        """Whether a metadata transaction was begun and not ended."""
        return self._transaction is not None

    # What images share

    def _known(self, name: str) -> dict[Any, Any]:
        """A field of the image, to be read."""
        return self._content[name]

    def _changed(self, name: str) -> dict[Any, Any]:
        """A field of the image, to be changed."""
        self._kinds.add(name)
        return self._owned_in(self._content, name)

    def _owned_in(self, holder: dict[K, dict[Any, Any]], key: K) -> dict[Any, Any]:
        """The dictionary at a key, or a new one: a copy if an image has it."""
        known = holder.get(key)
        if known is None or id(known) not in self._own:
            known = holder[key] = dict(known or ())
            self._own[id(known)] = known
        return known

    def _set_in(self, holder: dict[K, dict[L, V]], key: K, name: L, value: V | None) -> None:
        """Sets a value of the dictionary at a key, or removes it; none is left empty."""
        values = self._owned_in(holder, key)
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value
        if not values:
            del holder[key]

    # Topics

    def _topic(self, record: TopicRecord) -> None:
        known: TopicImage | None = self._known("topics").get(record.name)
        configs = NO_CONFIGS if known is None else known.configs
        self._put_topic(TopicImage(record.name, record.topic_id, {}, configs))
        self._changed("topic_names")[record.topic_id] = record.name
        self._removed -= {record.topic_id}
        self._has_resized = True

    def _put_topic(self, topic: TopicImage) -> None:
        topics = self._changed("topics")
        if topic.name not in topics and topics and topic.name < next(reversed(topics)):
            self._unsorted.add("")
        topics[topic.name] = topic

    def _partition(self, record: PartitionRecord) -> None:
        name = self._known("topic_names")[record.topic_id]
        self._put(name, record.partition_id, partition_of(record))

    def add_partitions(self, name: str, added: Mapping[int, PartitionImage]) -> None:
        """New partitions of a topic, in order and after those that it has, all at once: as their
        records would add them, in a hundredth of the time.
        """
        topic: TopicImage = self._known("topics")[name]
        partitions = {**topic.partitions, **added}
        self._own[id(partitions)] = partitions
        self._put_topic(topic._replace(partitions=partitions))
        self._partitions.setdefault(name, set()).update(added)
        self._has_resized = True

    def _put(self, name: str, index: int, image: PartitionImage) -> None:
        topic: TopicImage = self._known("topics")[name]
        partitions: Any = topic.partitions
        if id(partitions) not in self._own:
            partitions = dict(partitions)
            self._own[id(partitions)] = partitions
            self._put_topic(topic._replace(partitions=partitions))
        if index not in partitions:
            self._has_resized = True
            if partitions and index < next(reversed(partitions)):
                self._unsorted.add(name)
        partitions[index] = self._same.setdefault(image, image)
        self._partitions.setdefault(name, set()).add(index)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        name = self._known("topic_names")[record.topic_id]
        old = self._known("topics")[name].partitions[record.partition_id]
        self._put(name, record.partition_id, changed_partition(old, record))

    def _clear_elr(self, record: ClearElrRecord) -> None:
        """Of one topic or of all, each partition that has eligible leaders changes."""
        topics = self._known("topics")
        for name in [record.topic_name] if record.topic_name else list(topics):
            for index, known in list(topics[name].partitions.items()):
                if known.elr or known.last_known_elr:
                    self._put(name, index, changed_partition(known, WITHOUT_ELR))

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._changed("topic_names").pop(record.topic_id)
        topic: TopicImage = self._changed("topics").pop(name)
        if topic.configs:
            self._configs.add((ResourceKind.TOPIC, name))
        self._partitions.pop(name, None)
        self._removed_topics.setdefault(name, record.topic_id)
        self._removed |= {record.topic_id}
        self._has_resized = True

    # Settings

    def _config(self, record: ConfigRecord) -> None:
        kind, resource = record.resource_type, record.resource_name
        if kind == ResourceKind.TOPIC:
            self._topic_config(resource, record.name, record.value)
        else:
            of_kind = self._owned_in(self._changed("configs"), kind)
            self._set_in(of_kind, resource, record.name, record.value)
            if not of_kind:
                del self._known("configs")[kind]
        self._configs.add((kind, resource))

    def _topic_config(self, name: str, setting: str, value: str | None) -> None:
        """The settings of a topic follow its own record, and go with it."""
        topic: TopicImage | None = self._known("topics").get(name)
        if topic is None:
            return
        configs = dict(topic.configs)
        if value is None:
            configs.pop(setting, None)
        else:
            configs[setting] = value
        self._put_topic(topic._replace(configs=configs))

    def _quota(self, record: ClientQuotaRecord) -> None:
        pairs = sorted((one.entity_type, one.entity_name) for one in record.entity)
        value = None if record.remove else record.value
        self._set_in(self._changed("quotas"), tuple(pairs), record.key, value)

    def _feature(self, record: FeatureLevelRecord) -> None:
        features = self._changed("features")
        features[record.name] = record.feature_level
        if not record.feature_level:
            del features[record.name]

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _migration_state(self, record: ZkMigrationStateRecord) -> None:
        self._zk_migration_state = record.zk_migration_state

    # Security

    def _add_scram(self, record: UserScramCredentialRecord) -> None:
        credentials = self._changed("credentials")
        credentials[record.name, mechanism_of(record.mechanism)] = credential_of(record)

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        name = record.name, mechanism_of(record.mechanism)
        self._changed("credentials").pop(name, None)
        self.has_removed_credential = True

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        pattern, entry = self._acls_by_id[record.id] = acl_of(record)
        acls = self._changed("acls")
        ids = acls.get(pattern, {}).get(entry, ())
        self._set_in(acls, pattern, entry, (*ids, record.id))

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        acl = self._acls_by_id.pop(record.id, None)
        if acl is None:
            return
        acls = self._changed("acls")
        ids = tuple(one for one in acls[acl.pattern][acl.entry] if one != record.id)
        self._set_in(acls, acl.pattern, acl.entry, ids or None)

    def _add_token(self, record: DelegationTokenRecord) -> None:
        self._changed("tokens")[record.token_id] = token_of(record)

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._changed("tokens").pop(record.token_id, None)

    # Nodes

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._changed("brokers")[record.broker_id] = broker_of(record)
        self._brokers.add(record.broker_id)

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._changed("controllers")[record.controller_id] = record

    def _unregister_controller(self, record: UnregisterControllerRecord) -> None:
        self._changed("controllers").pop(record.controller_id, None)

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._changed("brokers").pop(record.broker_id, None)
        self._brokers.add(record.broker_id)

    def _fence(self, record: FenceBrokerRecord) -> None:
        self._change_broker(record.id, is_fenced=True)

    def _unfence(self, record: UnfenceBrokerRecord) -> None:
        self._change_broker(record.id, is_fenced=False)

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        """Each number is -1 or 1 for a change, and 0 for none; so are no directories."""
        changes: dict[str, object] = {}
        if record.fenced:
            changes["is_fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["is_shutting_down"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned"] = tuple(record.cordoned_log_dirs)
        self._change_broker(record.broker_id, **changes)

    def _change_broker(self, broker_id: int, **changes: Any) -> None:
        """A broker whose registration has a version that is not known here is passed over."""
        broker = self._known("brokers").get(broker_id)
        if broker is not None:
            self._changed("brokers")[broker_id] = replace(broker, **changes)
            self._brokers.add(broker_id)

    def _pass_over(self, record: Message) -> None:
        """Ignores a record."""

    # Results

    def image(self) -> MetadataImage:
        """What the records have made; what is replayed afterwards does not change it."""
        self._sort()
        if self._has_resized:
            # Grows also where a snapshot replaces what was replayed before.
            self._revision = max(self._revision + 1, self.end_offset)
            self._has_resized = False
        self._own.clear()
        self._same.clear()
        return MetadataImage(
            end_offset=self.end_offset,
            epoch=self.epoch,
            revision=self._revision,
            next_producer_id=self._next_producer_id,
            zk_migration_state=self._zk_migration_state,
            voters=self.voters,
            removed=self._removed,
            has_open_transaction=self.is_in_transaction,
            **self._content,  # type: ignore[arg-type]
        )

    def _sort(self) -> None:
        topics = self._known("topics")
        for name in self._unsorted & topics.keys():
            partitions = dict(sorted(topics[name].partitions.items()))
            topics[name] = topics[name]._replace(partitions=partitions)
        if "" in self._unsorted:
            # Names alone: a pair of each topic would have the collector look at all there is.
            names = sorted(topics)
            self._content["topics"] = dict(zip(names, map(topics.__getitem__, names), strict=True))
        self._unsorted.clear()

    def take_changes(self) -> ImageChanges:
        """What has changed since the last call."""
        changes = ImageChanges(
            partitions={
                TopicPartition(name, index)
                for name, indexes in self._partitions.items()
                for index in indexes
            },
            removed_topics=self._removed_topics,
            configs=self._configs,
            brokers=self._brokers,
            **{one: one in self._kinds for one in FLAGS},
        )
        self.forget_changes()
        return changes


def partition_of(record: PartitionRecord) -> PartitionImage:
    """The partition that a record makes."""
    return PartitionImage(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=tuple(record.directories or [ZERO_UUID] * len(record.replicas)),
        removing=tuple(record.removing_replicas),
        adding=tuple(record.adding_replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        recovery_state=record.leader_recovery_state,
    )


def changed_partition(old: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """A partition with the changed fields of a record.

    A leader in the record begins an epoch, even the same leader. Kafka's counterpart:
    `PartitionRegistration.merge`.
    """

    def now(changed: Iterable[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
        return before if changed is None else tuple(changed)

    has_leader_change = record.leader != NO_LEADER_CHANGE
    has_recovery_change = record.leader_recovery_state >= 0
    replicas = now(record.replicas, old.replicas)
    directories = old.directories
    if record.directories is not None:
        directories = tuple(record.directories)
    elif replicas != old.replicas:
        known = dict(zip(old.replicas, old.directories, strict=False))
        directories = tuple(known.get(one, ZERO_UUID) for one in replicas)
    return PartitionImage(
        replicas=replicas,
        isr=now(record.isr, old.isr),
        leader=record.leader if has_leader_change else old.leader,
        leader_epoch=old.leader_epoch + has_leader_change,
        partition_epoch=old.partition_epoch + 1,
        directories=directories,
        removing=now(record.removing_replicas, old.removing),
        adding=now(record.adding_replicas, old.adding),
        elr=now(record.eligible_leader_replicas, old.elr),
        last_known_elr=now(record.last_known_elr, old.last_known_elr),
        recovery_state=record.leader_recovery_state if has_recovery_change else old.recovery_state,
    )


WITHOUT_ELR: Final = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])


def _acls_by_id(acls: Acls) -> dict[Uuid, Acl]:
    return {
        one: Acl(pattern, entry)
        for pattern, entries in acls.items()
        for entry, ids in entries.items()
        for one in ids
    }


REPLAYS: Mapping[type[Message], Callable[[MetadataReplay, Any], None]] = {
    TopicRecord: MetadataReplay._topic,
    PartitionRecord: MetadataReplay._partition,
    PartitionChangeRecord: MetadataReplay._change_partition,
    RemoveTopicRecord: MetadataReplay._remove_topic,
    ConfigRecord: MetadataReplay._config,
    ClientQuotaRecord: MetadataReplay._quota,
    FeatureLevelRecord: MetadataReplay._feature,
    ProducerIdsRecord: MetadataReplay._producer_ids,
    ZkMigrationStateRecord: MetadataReplay._migration_state,
    UserScramCredentialRecord: MetadataReplay._add_scram,
    RemoveUserScramCredentialRecord: MetadataReplay._remove_scram,
    AccessControlEntryRecord: MetadataReplay._add_acl,
    RemoveAccessControlEntryRecord: MetadataReplay._remove_acl,
    DelegationTokenRecord: MetadataReplay._add_token,
    RemoveDelegationTokenRecord: MetadataReplay._remove_token,
    RegisterBrokerRecord: MetadataReplay._register_broker,
    UnregisterBrokerRecord: MetadataReplay._unregister_broker,
    RegisterControllerRecord: MetadataReplay._register_controller,
    UnregisterControllerRecord: MetadataReplay._unregister_controller,
    BrokerRegistrationChangeRecord: MetadataReplay._change_registration,
    FenceBrokerRecord: MetadataReplay._fence,
    UnfenceBrokerRecord: MetadataReplay._unfence,
    ClearElrRecord: MetadataReplay._clear_elr,
    NoOpRecord: MetadataReplay._pass_over,
}
