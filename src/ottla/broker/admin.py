"""Changes by admin clients to a running broker: topics, groups, settings, quotas.

Every change is durable and in effect when the call returns. A call that raises `ApiError` has
changed nothing. Kafka's counterparts: `ControllerApis`, `ConfigAdminManager`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.base.events import OnEvent
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import in_turns, kept, turn_list
from ottla.broker.configs.config_changes import Alteration
from ottla.broker.configs.config_decisions import (
    AlteredGroups,
    altered_client_metrics,
    altered_groups,
    with_configs,
)
from ottla.broker.configs.settings import (
    BrokerSettings,
    ConfigSource,
    ScopedSetting,
    Stored,
    check_dynamic,
    stored_configs,
)
from ottla.broker.events import PartitionsAdded, TopicDeleted, setting_changes
from ottla.broker.metadata.image_store import Decision, ImageStore
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.quota_changes import (
    QuotaAlteration,
    QuotaFilter,
    altered_quotas,
    with_quotas,
)
from ottla.broker.records.appends import Appends
from ottla.broker.records.fetches import Fetches
from ottla.broker.topics.storage_failures import storage_failures_answered
from ottla.broker.topics.topic_changes import TopicChanges
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.topics.topics import Topic, created
from ottla.config.broker import BrokerConfig, broker_settings
from ottla.config.cross_checks import check_reconfiguration
from ottla.config.listeners import client_listeners
from ottla.config.setting import SettingError, settings_of
from ottla.config.topic import TopicConfig
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS
from ottla.metadata.deciding.topics import (
    Defaults,
    NewTopic,
    TopicGrowth,
)
from ottla.metadata.image import (
    ALL_BROKERS,
    Configs,
    MetadataImage,
)
from ottla.metadata.quotas import QuotaEntity, Quotas
from ottla.storage.directory.log_directory import LogDirectory

T = TypeVar("T")


class AdminBroker(Protocol):
    """The parts of a broker that changes concern."""

    node_id: int
    topic_store: TopicStore
    topic_changes: TopicChanges
    settings: BrokerSettings
    appends: Appends
    fetches: Fetches
    quotas: ClientQuotas

    @property
    def on_event(self) -> OnEvent: ...

    def topics_deleted(self, names: Iterable[str], /) -> None: ...


class Admin:
    def __init__(self, broker: AdminBroker, metadata: ImageStore) -> None:
        self._store = broker.topic_store
        self._changes = broker.topic_changes
        self._topics = broker.topic_store.topics
        self._metadata = metadata
        self._settings = broker.settings
        self._broker = broker
        self._on_event = broker.on_event

    # Topics

    def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> Topic:
        """Creates a topic durably; if it raises `ApiError`, nothing is left of it."""
        topic = self._changes.create(new, self._defaults, validate_only=validate_only)
        if not validate_only:
            self._on_event(created(topic))
        return topic

    def create_topics(self, wanted: Sequence[NewTopic]) -> list[Topic | ApiError]:
        """Creates topics durably; returns the result of each."""
        results = self._changes.create_all(wanted, self._defaults)
        for result in in_turns(results):
            if isinstance(result, Topic):
                self._on_event(created(result))
        return results

    @property
    def _defaults(self) -> Defaults:
        config = self._settings.config
        return Defaults(config.num_partitions, config.default_replication_factor)

    def delete_topic(self, topic: Topic) -> None:
        """Deletes a topic; its files are removed after `file.delete.delay.ms`.

        Raises `ApiError`.
        """
        self.check_deletion(topic.name)
        self.delete_topics([topic])

    def check_deletion(self, name: str) -> None:
        """Raises `ApiError` if a topic of this name must not be deleted."""
        if not self._settings.config.delete_topic_enable:
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
        if name in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{name}' is internal.")

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Deletes topics that `check_deletion` accepts; raises `ApiError`."""
        self._broker.appends.write_out()
        partitions = [one for topic in topics for one in topic.partitions.values()]
        self._changes.delete(topics)
        # Before others have their turn, who may commit offsets of a new topic of such a name.
        self._broker.topics_deleted(topic.name for topic in topics)
        for partition in in_turns(partitions):
            self._broker.fetches.waiting.wake(partition)
        for topic in in_turns(topics):
            self._on_event(TopicDeleted(topic=topic.name, partition_count=topic.partition_count))

    def grow_topic(self, growth: TopicGrowth, *, validate_only: bool = False) -> None:
        """Adds partitions to a topic."""
        (refusal,) = self.grow_topics([growth], validate_only=validate_only)
        if refusal is not None:
            raise refusal

    def grow_topics(
        self, growths: Sequence[TopicGrowth], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Adds partitions to topics, each named once; returns one error, or `None`, for each."""
        if not validate_only:
            refusals = self._changes.grow_all(growths)
            for growth, refusal in zip(growths, refusals, strict=True):
                if refusal is None:
                    count = growth.partition_count
                    self._on_event(PartitionsAdded(topic=growth.name, partition_count=count))
            return refusals
        results: list[ApiError | None] = []
        for growth in growths:
            try:
                self._changes.grown(growth)
                results.append(None)
            except ApiError as error:
                results.append(error.without_traceback())
        return results

    def alter_topic(
        self, name: str, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        """Changes a topic's settings."""

        def altered(known: Configs) -> Mapping[str, str]:
            return alteration.apply(known, settings_of(TopicConfig))

        before, after = self._changes.configure(
            self._topics.get(name), altered, validate_only=validate_only
        )
        if not validate_only:
            self._report(f"topic {name}", before, after, alteration.by)

    def confirm_topics(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Records topics of which a user has confirmed the settings; raises `ApiError`."""
        self._changes.confirm(settings)

    def follow_topic(self, name: str, overrides: Mapping[str, str], by: str | None) -> None:
        """Takes a topic's settings over from the cluster, also if some are not valid here.

        `by` has changed them; `None` if nobody has, since they are only known now.
        """
        topic = self._topics.get(name)
        before = topic.overrides
        self._store.configure(topic, overrides)
        if by is not None:
            self._report(f"topic {name}", before, topic.overrides, by)

    def _report(
        self, owner: str, before: Mapping[str, str], after: Mapping[str, str], by: str
    ) -> None:
        for event in setting_changes(owner, before, after, by):
            self._on_event(event)

    # Settings

    def alter_broker(
        self, scope: ConfigSource, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        """Changes the broker's own settings, or those of all brokers."""
        assert scope in (ConfigSource.BROKER, ConfigSource.ALL_BROKERS)
        is_ours = scope is ConfigSource.BROKER
        owner = f"broker {self._broker.node_id}" if is_ours else "all brokers"
        name = self._resource_of(scope)
        before: Configs = {}
        values: Configs = {}
        config = self._settings.config

        def changed(image: MetadataImage) -> Decision | None:
            nonlocal before, values, config
            before = image.configs_of(ResourceKind.BROKER, name)
            values = alteration.apply(before, broker_settings())
            check_dynamic(values, scope)
            config = self._checked_config({**self._stored(image), scope: values})
            return (
                None if validate_only else with_configs(image, ResourceKind.BROKER, {name: values})
            )

        with storage_failures_answered():
            self._metadata.change(changed)
        if validate_only:
            return
        self._apply(config)
        self._report(owner, before, values, alteration.by)

    def follow_broker(self, before: Stored, by: str | None) -> None:
        """Applies the broker's settings of the present image, which were others `before`; `by` as
        in `follow_topic`.

        Raises `ApiError` if some are not valid here; those in effect stay.
        """
        stored = self._stored(self._metadata.image)
        self._apply(self._checked_config(stored))
        if by is None:
            return
        mine = f"broker {self._broker.node_id}"
        for scope, owner in (ConfigSource.ALL_BROKERS, "all brokers"), (ConfigSource.BROKER, mine):
            self._report(owner, before[scope], stored[scope], by)

    def _resource_of(self, scope: ConfigSource) -> str:
        return str(self._broker.node_id) if scope is ConfigSource.BROKER else ALL_BROKERS

    def _stored(self, image: MetadataImage) -> Stored:
        return stored_configs(image, self._broker.node_id)

    def _apply(self, config: BrokerConfig) -> None:
        """Applies the config of the present image."""
        self._settings.follow(self._stored(self._metadata.image), config)
        self._store.change_defaults(config.topic_defaults)

    def adopt_configs(
        self, theirs: Sequence[ScopedSetting]
    ) -> tuple[list[ScopedSetting], list[ScopedSetting]]:
        """Adds another cluster's settings of brokers; those that are set here stay.

        Returns the added ones, and those that were refused, as from a client. Raises
        `StorageError`.
        """
        image, config = self._metadata.image, self._settings.config
        ours = stored = self._stored(image)

        def is_taken(one: ScopedSetting) -> bool:
            nonlocal stored, config
            wanted = {**stored, one.scope: {**stored[one.scope], one.name: one.value}}
            try:
                check_dynamic({one.name: one.value}, one.scope)
                config, stored = self._checked_config(wanted), wanted
            except ApiError:
                return False
            return True

        new = [one for one in theirs if one.name not in ours[one.scope]]
        left, refused = new, [one for one in new if not is_taken(one)]
        while len(refused) < len(left):
            # A setting may need another that came after it, as a certificate needs its key.
            left, refused = refused, [one for one in refused if not is_taken(one)]
        if stored is not ours:
            changed = {self._resource_of(scope): values for scope, values in stored.items()}
            self._metadata.replace(*with_configs(image, ResourceKind.BROKER, changed))
            self._apply(config)
        return [one for one in new if one not in refused], refused

    def _checked_config(self, stored: Stored) -> BrokerConfig:
        """Returns the config that results; raises `ApiError` for invalid settings."""
        try:
            config = self._settings.config_under(stored)
            check_reconfiguration(self._settings.config, config)
            client_listeners(config)  # raises for invalid listeners
            self._settings.check(config)
        except SettingError as error:
            # Kafka's code where one would expect INVALID_CONFIG (KAFKA-13609).
            raise ApiError(ErrorCode.INVALID_REQUEST, error.api_message) from error
        self._store.check_defaults(config.topic_defaults)
        return config

    def alter_groups(
        self,
        alterations: Mapping[str, Callable[[], Alteration]],
        *,
        validate_only: bool = False,
    ) -> dict[str, ApiError]:
        """Changes the settings of groups, which need not exist, with one write for all groups.

        Returns the errors of the groups whose changes were refused.
        """
        altered = AlteredGroups()
        before: Mapping[str, Configs] = {}

        def decide(image: MetadataImage) -> Decision | None:
            nonlocal altered, before
            before = image.configs.get(ResourceKind.GROUP, {})
            altered = altered_groups(before, alterations, self._settings.groups.check)
            if validate_only or not altered.changed:
                return None
            return with_configs(image, ResourceKind.GROUP, altered.changed)

        def follow() -> None:
            if not validate_only:
                for group_id in altered.changed:
                    values = self._metadata.image.configs_of(ResourceKind.GROUP, group_id)
                    self._settings.groups.change(group_id, values)

        try:
            self._metadata.change(decide, follow)
        except StorageError as error:
            refusal = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return altered.refusals | dict.fromkeys(altered.changed, refusal)
        for group_id, values in () if validate_only else altered.changed.items():
            self._report(
                f"group {group_id}", before.get(group_id, {}), values, altered.by[group_id]
            )
        return altered.refusals

    def alter_client_metrics(
        self, name: str, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        """Changes a subscription to clients' metrics, which need not exist."""
        before: Configs = {}
        values: Configs = {}
        kind = ResourceKind.CLIENT_METRICS

        def decide(image: MetadataImage) -> Decision | None:
            nonlocal before, values
            before = image.configs_of(kind, name)
            values = altered_client_metrics(name, before, alteration)
            return None if validate_only else with_configs(image, kind, {name: values})

        with storage_failures_answered():
            self._metadata.change(decide)
        if not validate_only:
            self._settings.client_metrics = self._metadata.image.configs.get(kind, {})
            self._report(f"client metrics {name}", before, values, alteration.by)

    # Quotas

    def adopt_quotas(self, quotas: Quotas) -> Quotas:
        """Adds another cluster's quotas; entities that have quotas here keep them.

        Returns the added quotas; raises `StorageError`.
        """
        image = self._metadata.image
        taken = {entity: limits for entity, limits in quotas.items() if entity not in image.quotas}
        if taken:
            self._metadata.replace(*with_quotas(image, taken))
            self._broker.quotas.change(self._metadata.image.quotas)
        return taken

    def follow_quotas(self, quotas: Quotas) -> None:
        """Applies the quotas that ZooKeeper has."""
        self._metadata.follow(dataclasses.replace(self._metadata.image, quotas=quotas))
        self._broker.quotas.change(quotas)

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: Callable[[T], QuotaAlteration],
        *,
        validate_only: bool = False,
    ) -> list[ApiError | None]:
        """Changes the quotas of entities, each named in one entry, with one write for all entities.

        Returns one error, or `None`, for each entry.
        """
        results: list[ApiError | None] = turn_list()

        def decide(image: MetadataImage) -> Decision | None:
            nonlocal results
            of_entities, results = altered_quotas(image.quotas, entries, alteration_of)
            if validate_only or not of_entities:
                return None
            return with_quotas(image, of_entities)

        try:
            self._metadata.change(decide)
        except StorageError as error:
            refusal = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return [result or refusal for result in results]
        self._broker.quotas.change(self._metadata.image.quotas)
        return results

    def select_quotas(self, wanted: QuotaFilter) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        """Returns the quotas that match a filter."""
        wanted.check()
        return list(wanted.select(self._metadata.image.quotas))

    # Records

    def delete_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | ApiError]:
        """Moves the log start offset of partitions forward (-1: to the end).

        Returns the new start of each, or its error.
        """
        results: dict[TopicPartition, int | ApiError] = {}
        directories: dict[str, LogDirectory] = {}
        with kept():  # the new starts are written even if the client has disconnected
            for (topic, index), offset in in_turns(offsets.items()):
                where = TopicPartition(topic, index)
                try:
                    results[where] = self._delete_records(topic, index, offset)
                except ApiError as error:
                    results[where] = error.without_traceback()
                else:
                    directory = self._topics.partition(topic, index).directory
                    directories[directory.path] = directory
            for directory in directories.values():
                try:
                    directory.checkpoints.write_log_starts()
                except StorageError as error:
                    refusal = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
                    results.update((key, refusal) for key in offsets if key in directory.logs)
        return results

    def _delete_records(self, topic: str, index: int, offset: int) -> int:
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{topic}' is internal.")
        partition = self._topics.online_partition(topic, index)
        partition.check_leader()
        log = partition.log
        if "delete" not in log.config.cleanup_policy:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{log.name} is compacted: its records cannot be deleted.",
            )
        with storage_failures_answered():
            return log.maintenance.delete_records_before(offset)
