"""The settings of a broker's remote tier, with Kafka's names and defaults.

They have no effect unless `remote.log.storage.system.enable` is true. Kafka's counterparts:
`RemoteLogManagerConfig`, `TopicBasedRemoteLogMetadataManagerConfig`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ottla.base.values import dataclass
from ottla.config.security import SecurityConfig
from ottla.config.setting import INT64_MAX, SettingError, setting, settings_of, with_values

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

METADATA_MANAGER: Final = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)

ENABLE_NAME: Final = "remote.log.storage.system.enable"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TieringConfig(SecurityConfig):
    """Attributes are Kafka's names with underscores."""

    remote_fetch_max_wait_ms: int = setting(
        "remote.fetch.max.wait.ms",
        "int",
        500,
        "How long a fetch waits for records from the tier before it is answered without them.",
        at_least=1,
    )
    remote_list_offsets_request_timeout_ms: int = setting(
        "remote.list.offsets.request.timeout.ms",
        "long",
        30_000,
        "How long ListOffsets waits for the search of a timestamp in the tier.",
        at_least=1,
    )
    remote_log_index_file_cache_total_size_bytes: int = setting(
        "remote.log.index.file.cache.total.size.bytes",
        "long",
        1 << 30,
        "Bytes of indexes from the tier that are kept on the local disk.",
        at_least=1,
    )
    remote_log_index_file_cache_ttl_ms: int = setting(
        "remote.log.index.file.cache.ttl.ms",
        "long",
        900_000,
        "How long an index from the tier is kept after its last use.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_manager_copier_thread_pool_size: int = setting(
        "remote.log.manager.copier.thread.pool.size",
        "int",
        -1,
        "How many segments are copied to the tier at the same time; -1 means "
        "remote.log.manager.thread.pool.size.",
        at_least=-1,
    )
    remote_log_manager_copy_max_bytes_per_second: int = setting(
        "remote.log.manager.copy.max.bytes.per.second",
        "long",
        INT64_MAX,
        "Bytes per second that are copied to the tier.",
        at_least=1,
    )
    remote_log_manager_copy_quota_window_num: int = setting(
        "remote.log.manager.copy.quota.window.num",
        "int",
        11,
        "Number of samples that the rate of copying is measured over.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_manager_copy_quota_window_size_seconds: int = setting(
        "remote.log.manager.copy.quota.window.size.seconds",
        "int",
        1,
        "Time span of one such sample.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_manager_expiration_thread_pool_size: int = setting(
        "remote.log.manager.expiration.thread.pool.size",
        "int",
        -1,
        "How many partitions have segments deleted from the tier at the same time; -1 means "
        "remote.log.manager.thread.pool.size.",
        at_least=-1,
    )
    remote_log_manager_fetch_max_bytes_per_second: int = setting(
        "remote.log.manager.fetch.max.bytes.per.second",
        "long",
        INT64_MAX,
        "Bytes per second that fetches read from the tier.",
        at_least=1,
    )
    remote_log_manager_fetch_quota_window_num: int = setting(
        "remote.log.manager.fetch.quota.window.num",
        "int",
        11,
        "Number of samples that the rate of these fetches is measured over.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_manager_fetch_quota_window_size_seconds: int = setting(
        "remote.log.manager.fetch.quota.window.size.seconds",
        "int",
        1,
        "Time span of one such sample.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_manager_task_interval_ms: int = setting(
        "remote.log.manager.task.interval.ms",
        "long",
        30_000,
        "How often a partition is checked for segments to copy to the tier, or to delete there.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_manager_task_retry_backoff_ms: int = setting(
        "remote.log.manager.task.retry.backoff.ms",
        "long",
        500,
        "How long a partition waits after the tier has failed it; doubled after each failure.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_manager_task_retry_backoff_max_ms: int = setting(
        "remote.log.manager.task.retry.backoff.max.ms",
        "long",
        30_000,
        "The longest such wait.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_manager_task_retry_jitter: float = setting(
        "remote.log.manager.task.retry.jitter",
        "double",
        0.2,
        "Which part of such a wait is random, so that partitions do not try together.",
        at_least=0,
        at_most=0.5,
        is_dynamic=False,
    )
    remote_log_manager_thread_pool_size: int = setting(
        "remote.log.manager.thread.pool.size",
        "int",
        10,
        "Number of threads for copying and for deleting, where these have no number of their own.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_metadata_custom_metadata_max_bytes: int = setting(
        "remote.log.metadata.custom.metadata.max.bytes",
        "int",
        128,
        "Bytes that a storage plug-in may add to the metadata of a segment. If it adds more, the "
        "upload is deleted, and the partition is no longer copied.",
        at_least=0,
        is_dynamic=False,
    )
    remote_log_metadata_manager_class_name: str = setting(
        "remote.log.metadata.manager.class.name",
        "string",
        METADATA_MANAGER,
        "Keeper of the list of uploads; only Kafka's own, the topic __remote_log_metadata, is "
        "supported.",
        is_dynamic=False,
    )
    remote_log_metadata_manager_impl_prefix: str = setting(
        "remote.log.metadata.manager.impl.prefix",
        "string",
        "rlmm.config.",
        "Prefix of the settings of the topic __remote_log_metadata.",
        is_dynamic=False,
    )
    remote_log_reader_max_pending_tasks: int = setting(
        "remote.log.reader.max.pending.tasks",
        "int",
        100,
        "How many reads may wait for a thread that reads the tier; further fetches are refused.",
        at_least=1,
        is_dynamic=False,
    )
    remote_log_reader_threads: int = setting(
        "remote.log.reader.threads",
        "int",
        10,
        "How many reads of the tier run at the same time.",
        at_least=1,
    )
    remote_log_storage_manager_class_name: str | None = setting(
        "remote.log.storage.manager.class.name",
        "string",
        None,
        "Layout of the tier, named by Kafka's class for it; required if the tier is enabled.",
        is_dynamic=False,
    )
    remote_log_storage_manager_impl_prefix: str = setting(
        "remote.log.storage.manager.impl.prefix",
        "string",
        "rsm.config.",
        "Prefix of the settings of the tier's layout and store.",
        is_dynamic=False,
    )
    remote_log_storage_system_enable: bool = setting(
        ENABLE_NAME,
        "boolean",
        False,
        "Whether topics may have a remote tier.",
        is_dynamic=False,
    )

    @property
    def copier_count(self) -> int:
        """How many copies may run at the same time."""
        own = self.remote_log_manager_copier_thread_pool_size
        return own if own > 0 else self.remote_log_manager_thread_pool_size

    @property
    def expiration_count(self) -> int:
        """How many partitions may be expired at the same time."""
        own = self.remote_log_manager_expiration_thread_pool_size
        return own if own > 0 else self.remote_log_manager_thread_pool_size


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopicConfig:
    """The settings of the topic `__remote_log_metadata`, which are given under a prefix."""

    remote_log_metadata_topic_replication_factor: int = setting(
        "remote.log.metadata.topic.replication.factor",
        "short",
        3,
        "Number of the topic's replicas.",
        at_least=1,
    )
    remote_log_metadata_topic_num_partitions: int = setting(
        "remote.log.metadata.topic.num.partitions",
        "int",
        50,
        "Number of the topic's partitions; an existing topic keeps its own.",
        at_least=1,
    )
    remote_log_metadata_topic_retention_ms: int = setting(
        "remote.log.metadata.topic.retention.ms",
        "long",
        -1,
        "How long its records are kept; what they say of older uploads is lost then.",
        at_least=-1,
    )
    remote_log_metadata_topic_min_isr: int = setting(
        "remote.log.metadata.topic.min.isr",
        "short",
        2,
        "Number of replicas that must have a record before it counts (KIP-1235).",
        at_least=1,
    )
    remote_log_metadata_consume_wait_ms: int = setting(
        "remote.log.metadata.consume.wait.ms",
        "long",
        120_000,
        "How long a writer waits for its own record before it tries again.",
        at_least=0,
    )
    remote_log_metadata_initialization_retry_max_timeout_ms: int = setting(
        "remote.log.metadata.initialization.retry.max.timeout.ms",
        "long",
        120_000,
        "How long the creation of the topic is tried.",
        at_least=0,
    )
    remote_log_metadata_initialization_retry_interval_ms: int = setting(
        "remote.log.metadata.initialization.retry.interval.ms",
        "long",
        100,
        "How long to wait between these attempts.",
        at_least=0,
    )


def metadata_topic_config(config: "BrokerConfig") -> MetadataTopicConfig:
    """Parses what is given under the prefix; raises `SettingError`.

    Settings of clients (`remote.log.metadata.common.client.*` and the like) have no effect: the
    topic is written and read without a client. A broker alone holds one replica.
    """
    rows = settings_of(MetadataTopicConfig)
    prefix = config.remote_log_metadata_manager_impl_prefix
    given = under_prefix(config.given, prefix)
    own = {name: text for name, text in given.items() if name in rows}
    try:
        made = with_values(MetadataTopicConfig(), own)
    except SettingError as error:
        message = f"{prefix}{error.name}: {error}"
        raise SettingError(prefix + error.name, message, error.api_message) from error
    if config.zookeeper_connect:
        return made
    factor = "remote.log.metadata.topic.replication.factor"
    if made.remote_log_metadata_topic_replication_factor > 1 and factor in own:
        message = f"{prefix}{factor}={own[factor]}: a single broker holds one replica; set it to 1"
        raise SettingError(prefix + factor, message, message)
    return replace(
        made, remote_log_metadata_topic_replication_factor=1, remote_log_metadata_topic_min_isr=1
    )


def under_prefix(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The settings whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): text for name, text in given.items() if name.startswith(prefix)
    }


def check_tiering(config: "BrokerConfig") -> None:
    """Raises `SettingError` for settings with which no tier could be opened."""
    if not config.remote_log_storage_system_enable:
        return
    if not config.remote_log_storage_manager_class_name:
        name = "remote.log.storage.manager.class.name"
        raise SettingError(
            name,
            f"{name}: required with {ENABLE_NAME}=true; set the class of the tier's layout",
            f"{name} must be set when {ENABLE_NAME} is true",
        )
    manager = config.remote_log_metadata_manager_class_name
    if manager != METADATA_MANAGER:
        name = "remote.log.metadata.manager.class.name"
        message = f"{name}={manager}: only {METADATA_MANAGER} is supported; leave it out"
        raise SettingError(name, message, message)
    metadata_topic_config(config)
