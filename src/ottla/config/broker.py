"""The settings of a broker, with Kafka's names and defaults (`KafkaConfig`).

A broker's settings also give every topic its defaults, under names of their own: the topic's
`segment.bytes` starts from the broker's `log.segment.bytes`. `TopicConfig` names them
(`Setting.broker_name`), so they are not declared twice.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from functools import cache
from posixpath import normpath

from ottla.base.values import dataclass
from ottla.config.cluster import CLUSTER_SETTINGS, ZOOKEEPER_SETTINGS, ClusterConfig
from ottla.config.connections import connection_overrides
from ottla.config.cross_checks import check_broker
from ottla.config.kafka_version import honours_old_formats, magic_of, release_of
from ottla.config.quorum import FIRST_NODE_ID, QUORUM_SETTINGS, is_listener
from ottla.config.security import LISTENER_PREFIX, jaas_setting
from ottla.config.setting import (
    INT64_MAX,
    Setting,
    SettingError,
    Value,
    setting,
    settings_of,
    unknown_setting,
    with_values,
)
from ottla.config.tls import TLS_SETTINGS
from ottla.config.topic import TopicConfig
from ottla.config.without_effect import is_without_effect

EVERY_DIRECTORY = "*"
FORMAT_NAME = "log.message.format.version"
UNKNOWN_KIND = "unknown"
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BrokerConfig(ClusterConfig):
    """The settings of one broker; attributes are Kafka's names with underscores."""

    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable",
        "boolean",
        True,
        "Whether a request for an unknown topic creates it.",
        is_dynamic=False,
    )
    broker_id: int = setting(
        "broker.id",
        "int",
        -1,
        "Former name of node.id.",
        at_least=-1,
        is_dynamic=False,
    )
    cordoned_log_dirs: tuple[str, ...] = setting(
        "cordoned.log.dirs",
        "list",
        (),
        "Directories of log.dirs that get no new partitions; * for all.",
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        "int",
        1,
        "Default number of a topic's replicas; a single broker can hold one.",
        at_least=1,
        is_dynamic=False,
    )
    delete_topic_enable: bool = setting(
        "delete.topic.enable",
        "boolean",
        True,
        "Whether clients may delete topics.",
        is_dynamic=False,
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        "int",
        57_671_680,
        "Maximum bytes of a fetch response, whatever the request asks for.",
        at_least=1024,
        is_dynamic=False,
    )
    inter_broker_protocol_version: str = setting(
        "inter.broker.protocol.version",
        "string",
        "3.9-IV0",
        "Kafka version whose protocol brokers use between each other. Before 3.0, topics are "
        "stored in the format of their message.format.version; from 3.0 on that setting is "
        "ignored, as in Kafka.",
        reading=release_of,
        is_dynamic=False,
    )
    log_cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        "long",
        15_000,
        "How long the cleaner sleeps when no log is due.",
        at_least=0,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        "long",
        134_217_728,
        "Memory for the keys of one pass, for all cleaner threads together; 24 bytes each. Each "
        "thread needs more than 1 MiB.",
    )
    log_cleaner_enable: bool = setting(
        "log.cleaner.enable",
        "boolean",
        True,
        "Whether compacted topics are compacted; otherwise they grow forever.",
        is_dynamic=False,
    )
    log_cleaner_io_buffer_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor",
        "double",
        0.9,
        "How full the memory for keys may get.",
        at_least=0,
        at_most=1,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        "double",
        1.7976931348623157e308,
        "Bytes that all cleaner threads together read and write in a second.",
        at_least=0,
    )
    log_cleaner_threads: int = setting(
        "log.cleaner.threads",
        "int",
        1,
        "How many logs are compacted at the same time.",
        at_least=1,
    )
    log_dir: str = setting(
        "log.dir",
        "string",
        "",
        "One directory of logs, unless log.dirs is given.",
        is_dynamic=False,
    )
    log_dirs: tuple[str, ...] = setting(
        "log.dirs",
        "list",
        (),
        "The directories of the logs. There is no default: name them here or as an argument.",
        is_dynamic=False,
    )
    metadata_log_dir: str | None = setting(
        "metadata.log.dir",
        "string",
        None,
        "Which of log.dirs a new metadata log is created in, if not the first one.",
        is_dynamic=False,
    )
    metadata_log_max_record_bytes_between_snapshots: int = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        "long",
        20 << 20,
        "Bytes of the metadata log after which a snapshot of the metadata is made.",
        at_least=1,
        is_dynamic=False,
    )
    metadata_max_retention_bytes: int = setting(
        "metadata.max.retention.bytes",
        "long",
        100 << 20,
        "Bytes of the metadata log and its snapshots above which the oldest are deleted.",
        is_dynamic=False,
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms",
        "int",
        60_000,
        "How often the recovery points, from which a restart checks the logs, are written.",
        at_least=0,
        is_dynamic=False,
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        "int",
        60_000,
        "How often log start offsets are written; deletions take effect immediately.",
        at_least=0,
        is_dynamic=False,
    )
    log_initial_task_delay_ms: int = setting(
        "log.initial.task.delay.ms",
        "long",
        30_000,
        "Delay after startup before retention and the checkpoints first run.",
        at_least=0,
        is_dynamic=False,
    )
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        "long",
        300_000,
        "How often all logs are checked for segments to delete.",
        at_least=1,
        is_dynamic=False,
    )
    log_retention_hours: int = setting(
        "log.retention.hours",
        "int",
        168,
        "retention.ms of topics in hours, unless minutes or milliseconds are given.",
        is_dynamic=False,
    )
    log_retention_minutes: int | None = setting(
        "log.retention.minutes",
        "int",
        None,
        "retention.ms of topics in minutes, unless milliseconds are given.",
        is_dynamic=False,
    )
    log_roll_hours: int = setting(
        "log.roll.hours",
        "int",
        168,
        "segment.ms of topics in hours, unless log.roll.ms is given.",
        at_least=1,
        is_dynamic=False,
    )
    log_roll_jitter_hours: int = setting(
        "log.roll.jitter.hours",
        "int",
        0,
        "segment.jitter.ms of topics in hours, unless log.roll.jitter.ms is given.",
        at_least=0,
        is_dynamic=False,
    )
    max_auto_create_topics_per_minute: int = setting(
        "max.auto.create.topics.per.minute",
        "int",
        1000,
        "How many topics per minute requests for unknown topics may create; -1 for no limit. "
        "Kafka has none.",
        at_least=-1,
        is_dynamic=False,
    )
    max_auto_create_topics_per_request: int = setting(
        "max.auto.create.topics.per.request",
        "int",
        100,
        "How many unknown topics one request may create; a client gets more by repeating the "
        "request. -1 for no limit. Kafka has none.",
        at_least=-1,
        is_dynamic=False,
    )
    max_incremental_fetch_session_cache_partitions: int = setting(
        "max.incremental.fetch.session.cache.partitions",
        "int",
        200_000,
        "Maximum number of partitions in all fetch sessions together; fetches beyond it get full "
        "responses. Kafka has no such limit.",
        at_least=0,
        is_dynamic=False,
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        "int",
        1000,
        "How many fetch sessions are kept at most.",
        at_least=0,
        is_dynamic=False,
    )
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit",
        "int",
        2000,
        "How many partitions one page of DescribeTopicPartitions has at most.",
        at_least=1,
        is_dynamic=False,
    )
    node_id: int = setting(
        "node.id",
        "int",
        -1,
        "The broker's id; -1 for the id stored in its directories, or 1 for new ones.",
        at_least=-1,
        is_dynamic=False,
    )
    num_partitions: int = setting(
        "num.partitions",
        "int",
        1,
        "Default number of a topic's partitions.",
        at_least=1,
        is_dynamic=False,
    )
    quota_window_num: int = setting(
        "quota.window.num",
        "int",
        11,
        "Number of windows over which clients' rates are measured.",
        at_least=1,
        is_dynamic=False,
    )
    quota_window_size_seconds: int = setting(
        "quota.window.size.seconds",
        "int",
        1,
        "Length of one of those windows.",
        at_least=1,
        is_dynamic=False,
    )
    num_recovery_threads_per_data_dir: int = setting(
        "num.recovery.threads.per.data.dir",
        "int",
        2,
        "How many partitions of a directory are loaded at a time when the broker starts.",
        at_least=1,
    )
    ottla_decompressed_max_bytes: int = setting(
        "ottla.decompressed.max.bytes",
        "int",
        104_857_600,
        "Largest size of a batch after decompression; Kafka has no such limit.",
        at_least=1_048_576,
        at_most=268_435_456,
        is_dynamic=False,
    )
    ottla_decompressed_max_ratio: int = setting(
        "ottla.decompressed.max.ratio",
        "int",
        1_100,
        "Maximum ratio of a batch's decompressed to its compressed size, for more than 16 MiB "
        "decompressed.",
        at_least=1,
        is_dynamic=False,
    )
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms",
        "int",
        600_000,
        "How often inactive producers are looked for.",
        at_least=1,
        is_dynamic=False,
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        "int",
        86_400_000,
        "Time after which an inactive producer is forgotten, unless it is in a transaction.",
        at_least=1,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "long",
        INT64_MAX,
        "Bytes per second at which partitions are copied between log directories.",
        at_least=0,
    )
    topic_defaults: TopicConfig = dataclasses.field(default_factory=TopicConfig)
    given: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    """The texts that were parsed, including settings without effect."""

    @property
    def without_effect(self) -> list[str]:
        """The names that were given and have no effect here."""
        known = broker_settings()
        nothing = {one for one in self.given if one not in known and is_without_effect(one)}
        nothing -= {one for one in nothing if listener_setting(one) is not None}
        if self.remote_log_storage_system_enable:
            prefixes = (
                self.remote_log_metadata_manager_impl_prefix,
                self.remote_log_storage_manager_impl_prefix,
            )
            nothing -= {one for one in nothing if one.startswith(prefixes)}
        if not self.zookeeper_connect:
            nothing |= (
                ZOOKEEPER_SETTINGS if self.is_quorate else CLUSTER_SETTINGS
            ) & self.given.keys()
        if not self.is_quorate:
            nothing |= QUORUM_SETTINGS & self.given.keys()
        if self.topic_defaults.is_format_ignored:
            nothing.add(FORMAT_NAME)
        return sorted(nothing)

    @property
    def unknown(self) -> list[str]:
        """The names that were given and that neither Kafka nor Ottla knows: perhaps a plugin's."""
        return sorted(filter(is_unknown_name, self.given))

    @property
    def wanted_node_id(self) -> int | None:
        """Returns the node id that the settings give; raises `SettingError` if there are two."""
        wanted = {one for one in (self.node_id, self.broker_id) if one >= 0}
        if len(wanted) > 1:
            message = f"broker.id={self.broker_id}: must be the same as node.id={self.node_id}"
            raise SettingError("broker.id", message, message)
        return wanted.pop() if wanted else None

    @property
    def has_other_nodes(self) -> bool:
        """Whether a node of a KRaft cluster is not all of it: it has one role, or the settings
        name a node that is not known to be this one. Raises `SettingError`.
        """
        if not self.is_quorate or not (self.has_broker_role and self.has_controller_role):
            return self.is_quorate
        if self.controller_quorum_voters:
            own_id = FIRST_NODE_ID if self.wanted_node_id is None else self.wanted_node_id
            return any(one.id != own_id for one in self.voters)
        own = *self.listeners, *self.advertised_listeners
        return not all(is_listener(one, own) for one in self.bootstrap_controllers)

    def given_to(self, listener: str) -> dict[str, str]:
        """Returns the texts of a listener's own settings, by the names that all listeners share."""
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        names = [name for name in self.given if name.startswith(prefix)]
        own = {name.removeprefix(prefix): self.given[name] for name in names}
        return {name: text for name, text in own.items() if name in OF_LISTENERS}

    def of_listener(self, listener: str) -> "BrokerConfig":
        """Returns the settings as they apply to one listener."""
        return with_values(self, self.given_to(listener))

    def check_replicas(self) -> None:
        """Raises `SettingError` for topics that a single broker could never create.

        Kafka starts, and a client that needs a coordinator waits forever.
        """
        impossible = {
            name: value for name in ONE_HERE if (value := self.value_of(name)) not in (None, 1)
        }
        if impossible:
            given = ", ".join(f"{name}={value}" for name, value in impossible.items())
            fix = " ".join(f"-o {name}=1" for name in impossible)
            message = (
                f"{given}: a single broker holds one replica of a partition, and consumers, "
                f"transactions or new topics would wait for more forever; set {fix}"
            )
            raise SettingError(next(iter(impossible)), message, message)

    def is_cordoned(self, path: str) -> bool:
        """Whether a log directory is one that gets no new partitions."""
        if self.cordoned_log_dirs == (EVERY_DIRECTORY,):
            return True
        return normpath(path) in map(normpath, self.cordoned_log_dirs)

    def check_cordons(self, paths: Iterable[str]) -> None:
        """Raises `SettingError` if a cordoned directory is not one of `paths`."""
        cordoned = self.cordoned_log_dirs
        known = {normpath(path) for path in paths}
        if cordoned == (EVERY_DIRECTORY,):
            return
        for path in cordoned:
            if normpath(path) not in known:
                raise SettingError(
                    "cordoned.log.dirs",
                    f"cordoned.log.dirs={path}: must be one of log.dirs, or * alone for all",
                    "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
                    f"Found {','.join(cordoned)}.",
                )

    def value_of(self, name: str) -> Value:
        """Returns a setting's value by Kafka's name, including the defaults of topics."""
        row = OWN_SETTINGS.get(name)
        if row is not None:
            return self._value(self, row)
        return self._value(self.topic_defaults, topic_settings_by_broker_name()[name])

    @staticmethod
    def _value(config: object, row: Setting) -> Value:
        value: Value = getattr(config, row.attribute)
        return value


def broker_config(values: Mapping[str, str]) -> BrokerConfig:
    """Parses settings from texts by Kafka's broker names; raises `SettingError`.

    Unknown names are accepted, as in Kafka, where plugins read them (`BrokerConfig.unknown`).
    """
    topic_rows = topic_settings_by_broker_name()
    own: dict[str, str] = {}
    for name, text in values.items():
        if name in OWN_SETTINGS:
            own[name] = text
        elif (row := listener_setting(name)) is not None:
            row.parse(text)
        elif is_unknown_name(name):
            unknown_row(name).parse(text)
    config = with_values(BrokerConfig(), own)
    if config.zookeeper_connect or config.has_other_nodes:
        config = with_values(BrokerConfig(), {**IN_A_CLUSTER, **own})
    connection_overrides(config.max_connections_per_ip_overrides)  # raises for an invalid version
    config.check_groups()
    changes = _from_coarser_units(config)
    for name, row in topic_rows.items():
        if name in values:
            changes[row.attribute] = _topic_default(name, row, values[name])
    changes["ottla_decompressed_max_bytes"] = config.ottla_decompressed_max_bytes
    changes["ottla_decompressed_max_ratio"] = config.ottla_decompressed_max_ratio
    changes["has_remote_storage"] = config.remote_log_storage_system_enable
    changes["honours_format_version"] = honours_old_formats(config.inter_broker_protocol_version)
    defaults = dataclasses.replace(config.topic_defaults, **changes)  # type: ignore[arg-type]
    _check_formats(config.inter_broker_protocol_version, defaults)
    whole = dataclasses.replace(config, topic_defaults=defaults, given=dict(values))
    check_broker(whole)
    return whole


def _check_formats(protocol: str, defaults: TopicConfig) -> None:
    """As in Kafka, a format from before 0.11 must also be set for the topics."""
    version = defaults.message_format_version
    if defaults.magic > magic_of(protocol):
        raise SettingError(
            FORMAT_NAME,
            f"{FORMAT_NAME}={version}: must not be later than "
            f"inter.broker.protocol.version={protocol}",
            f"Invalid value {version} for configuration {FORMAT_NAME}: it is later than "
            f"inter.broker.protocol.version={protocol}",
        )


def is_unknown_name(name: str) -> bool:
    """Whether neither Kafka nor Ottla has a broker's setting of that name."""
    is_known = name in broker_settings() or is_without_effect(name)
    return not is_known and listener_setting(name) is None


def unknown_row(name: str) -> Setting:
    """The row of an unknown setting; any text but one with NUL is a value."""
    return Setting(name=name, kind=UNKNOWN_KIND, default=None, doc="", is_dynamic=False)


def check_known(names: Iterable[str]) -> None:
    """Raises `SettingError` for an unknown name, with the one that was perhaps meant."""
    for name in filter(is_unknown_name, names):
        raise unknown_setting(name, list(broker_settings()), "broker")


@cache
def topic_settings_by_broker_name() -> dict[str, Setting]:
    """Returns a topic's rows under the broker settings' names for them."""
    rows = settings_of(TopicConfig).values()
    return {row.broker_name: row for row in rows if row.broker_name is not None}


@cache
def broker_settings() -> dict[str, Setting]:
    """Every row of a broker by name, those that are the defaults of topics included."""
    return {**OWN_SETTINGS, **topic_settings_by_broker_name()}


OWN_SETTINGS = settings_of(BrokerConfig)

OF_LISTENERS = (
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "max.connection.creation.rate",
    "max.connections",
    *(row.name for row in TLS_SETTINGS),
    "ssl.endpoint.identification.algorithm",
    *(name for name in OWN_SETTINGS if name.startswith("sasl.oauthbearer.")),
)
"""Settings that a listener can override, as `listener.name.NAME.` and the setting's name."""


def listener_setting(name: str) -> Setting | None:
    """Returns the row of a listener's own setting."""
    if name.startswith(LISTENER_PREFIX):
        for shared in OF_LISTENERS:
            if name.endswith(f".{shared}"):
                return dataclasses.replace(OWN_SETTINGS[shared], name=name)
    return jaas_setting(name)


ONE_HERE = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
"""Settings that count replicas; a single broker holds one of each partition."""

IN_A_CLUSTER = {
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""Kafka's defaults for internal topics, which only a broker without a cluster must lower."""


def _topic_default(name: str, row: Setting, text: str) -> Value:
    """Kafka's broker takes each negative retention time for none; a topic's own is -1 then."""
    if row.name != "retention.ms":
        return dataclasses.replace(row, name=name).parse(text)
    value = dataclasses.replace(row, name=name, at_least=None).parse(text)
    assert isinstance(value, int)
    return max(value, -1)


def _from_coarser_units(config: BrokerConfig) -> dict[str, Value]:
    """Converts hours and minutes to the milliseconds of the topic's settings."""
    minutes = config.log_retention_minutes
    if minutes is not None:
        retention_ms = minutes * MINUTE_MS
    else:
        retention_ms = config.log_retention_hours * HOUR_MS
    return {
        "retention_ms": max(retention_ms, -1),
        "segment_ms": config.log_roll_hours * HOUR_MS,
        "segment_jitter_ms": config.log_roll_jitter_hours * HOUR_MS,
    }
