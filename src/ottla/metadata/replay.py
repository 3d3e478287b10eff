"""Replays the metadata records of a KRaft cluster, which make its image.

A snapshot and the log after it are replayed in order when they are read. Records of a metadata
transaction are applied when it ends (KIP-868). Kafka's counterparts: `MetadataImage`,
`MetadataDelta`, `MetadataBatchLoader`. In Kafka, a topic that is deleted and created again within
one delta inherits the settings of the deleted topic; here records are applied one by one, and it
does not.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.base.scram import ScramCredential
from ottla.base.values import dataclass
from ottla.codec.schema import Message
from ottla.metadata.acls import Acl, Entry, ResourcePattern
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata.quotas import QuotaEntity
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
from ottla.metadata.tokens import DelegationToken
from ottla.metadata.values import acl_of, broker_of, credential_of, mechanism_of, token_of

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")

SCRAM_AGAIN = "SCRAM credentials"
"""The name of the metadata transaction in which all credentials are written again."""


@dataclass(slots=True)
class MetadataReplay:
    """Replays records in the log's order; `image` returns what they have made so far."""

    epoch: int = 0
    end_offset: int = 0
    _names: dict[Uuid, str] = field(default_factory=dict)
    _partitions: dict[Uuid, dict[int, PartitionImage]] = field(default_factory=dict)
    _configs: dict[int, dict[str, dict[str, str]]] = field(default_factory=dict)
    """By the type of resource and its name."""
    _quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    _credentials: dict[tuple[str, str], ScramCredential] = field(default_factory=dict)
    _acls: dict[ResourcePattern, dict[Entry, tuple[Uuid, ...]]] = field(default_factory=dict)
    _acls_by_id: dict[Uuid, Acl] = field(default_factory=dict)
    _tokens: dict[str, DelegationToken] = field(default_factory=dict)
    _features: dict[str, int] = field(default_factory=dict)
    _brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    _controllers: dict[int, RegisterControllerRecord] = field(default_factory=dict)
    _next_producer_id: int = 0
    _zk_migration_state: int = 0
    voters: frozenset[int] = frozenset()
    _removed: set[Uuid] = field(default_factory=set)
    _same: dict[PartitionImage, PartitionImage] = field(default_factory=dict)
    """One object for all partitions in the same state, of which there may be 100,000."""
    _transaction: list[Message] | None = None
    """The records of the open transaction, if any."""
    _transaction_name: str | None = None
    has_removed_credential: bool = False
    """Whether a SCRAM credential was removed since all were written again (`credentials_again`)."""

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

    # Topics

    def _topic(self, record: TopicRecord) -> None:
        self._names[record.topic_id] = record.name
        self._partitions[record.topic_id] = {}
        self._removed.discard(record.topic_id)

    def _partition(self, record: PartitionRecord) -> None:
        self._put(
            record,
            PartitionImage(
                replicas=tuple(record.replicas),
                isr=tuple(record.isr),
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                directories=tuple(record.directories or [ZERO_UUID] * len(record.replicas)),
            ),
        )

    def _put(self, record: PartitionRecord | PartitionChangeRecord, image: PartitionImage) -> None:
        partitions = self._partitions[record.topic_id]
        partitions[record.partition_id] = self._same.setdefault(image, image)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        """Applies the changed fields of a partition."""
        # A leader in the record begins an epoch, even the same leader (`PartitionRegistration`).
        old = self._partitions[record.topic_id][record.partition_id]
        has_leader_change = record.leader != NO_LEADER_CHANGE
        changed = record.replicas
        replicas = old.replicas if changed is None else tuple(changed)
        directories = old.directories
        if record.directories is not None:
            directories = tuple(record.directories)
        elif replicas != old.replicas:
            known = dict(zip(old.replicas, old.directories, strict=False))
            directories = tuple(known.get(one, ZERO_UUID) for one in replicas)
        image = PartitionImage(
            replicas=replicas,
            isr=old.isr if record.isr is None else tuple(record.isr),
            leader=record.leader if has_leader_change else old.leader,
            leader_epoch=old.leader_epoch + has_leader_change,
            partition_epoch=old.partition_epoch + 1,
            directories=directories,
        )
        self._put(record, image)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._names.pop(record.topic_id)
        del self._partitions[record.topic_id]
        self._configs.get(ResourceKind.TOPIC, {}).pop(name, None)
        self._removed.add(record.topic_id)

    # Settings

    def _config(self, record: ConfigRecord) -> None:
        of_kind = self._configs.setdefault(record.resource_type, {})
        values = of_kind.setdefault(record.resource_name, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del of_kind[record.resource_name]

    def _quota(self, record: ClientQuotaRecord) -> None:
        pairs = sorted((one.entity_type, one.entity_name) for one in record.entity)
        values = self._quotas.setdefault(tuple(pairs), {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if not values:
            del self._quotas[tuple(pairs)]

    def _feature(self, record: FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level
        if not record.feature_level:
            del self._features[record.name]

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _migration_state(self, record: ZkMigrationStateRecord) -> None:
        self._zk_migration_state = record.zk_migration_state

    # Security

    def _add_scram(self, record: UserScramCredentialRecord) -> None:
        self._credentials[record.name, mechanism_of(record.mechanism)] = credential_of(record)

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self._credentials.pop((record.name, mechanism_of(record.mechanism)), None)
        self.has_removed_credential = True

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        pattern, entry = self._acls_by_id[record.id] = acl_of(record)
        entries = self._acls.setdefault(pattern, {})
        entries[entry] = (*entries.get(entry, ()), record.id)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        acl = self._acls_by_id.pop(record.id, None)
        if acl is None:
            return
        entries = self._acls[acl.pattern]
        ids = tuple(one for one in entries.pop(acl.entry) if one != record.id)
        if ids:
            entries[acl.entry] = ids
        if not entries:
            del self._acls[acl.pattern]

    def _add_token(self, record: DelegationTokenRecord) -> None:
        self._tokens[record.token_id] = token_of(record)

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._tokens.pop(record.token_id, None)

    # Nodes

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = broker_of(record)

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._controllers[record.controller_id] = record

    def _unregister_controller(self, record: UnregisterControllerRecord) -> None:
        self._controllers.pop(record.controller_id, None)

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._brokers.pop(record.broker_id, None)

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
        broker = self._brokers.get(broker_id)
        if broker is not None:
            self._brokers[broker_id] = replace(broker, **changes)

    def _pass_over(self, record: Message) -> None:
        """Ignores eligible leaders, which only matter in the cluster."""

    def image(self) -> MetadataImage:
        """What the records have made; what is replayed afterwards does not change it."""
        configs = self._configs.get(ResourceKind.TOPIC, {})
        topics = {
            name: TopicImage(
                name=name,
                topic_id=topic_id,
                partitions=dict(sorted(self._partitions[topic_id].items())),
                configs=dict(configs.get(name, {})),
            )
            for topic_id, name in self._names.items()
        }
        return MetadataImage(
            end_offset=self.end_offset,
            epoch=self.epoch,
            topics=dict(sorted(topics.items())),
            topic_names=dict(self._names),
            configs={
                kind: _copied(of_kind)
                for kind, of_kind in self._configs.items()
                if of_kind and kind != ResourceKind.TOPIC
            },
            quotas=_copied(self._quotas),
            credentials=dict(self._credentials),
            acls=_copied(self._acls),
            tokens=dict(self._tokens),
            features=dict(self._features),
            brokers=dict(self._brokers),
            controllers=dict(self._controllers),
            next_producer_id=self._next_producer_id,
            zk_migration_state=self._zk_migration_state,
            voters=self.voters,
            removed=frozenset(self._removed),
            has_open_transaction=self.is_in_transaction,
        )


def _copied(values: Mapping[K, dict[L, V]]) -> dict[K, dict[L, V]]:
    return {key: dict(of_key) for key, of_key in values.items()}


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
    ClearElrRecord: MetadataReplay._pass_over,
    NoOpRecord: MetadataReplay._pass_over,
}
