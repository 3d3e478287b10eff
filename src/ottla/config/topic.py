"""The settings of a topic, with Kafka's names and defaults (`LogConfig`, `TopicConfig`)."""

from dataclasses import field
from typing import Any, Final

from ottla.base.values import dataclass
from ottla.config.kafka_version import magic_of
from ottla.config.setting import INT64_MAX, SettingError, setting

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _derived() -> Any:
    return field(init=False, repr=False, compare=False)


DECIDING: Final = frozenset(
    {
        "cleanup.policy",
        "local.retention.bytes",
        "local.retention.ms",
        "min.compaction.lag.ms",
        "remote.log.copy.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
    }
)
"""These settings decide which records a topic keeps. While the value of one is not supported, or
not valid, nothing of the topic is deleted or compacted.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings of one topic; attributes are Kafka's names with underscores."""

    cleanup_policy: tuple[str, ...] = setting(
        "cleanup.policy",
        "list",
        ("delete",),
        "Treatment of old segments: delete, compact by key, or both.",
        one_of=("compact", "delete"),
        broker_name="log.cleanup.policy",
    )
    compression_type: str = setting(
        "compression.type",
        "string",
        "producer",
        "Codec in which batches are stored; 'producer' keeps the producer's.",
        one_of=COMPRESSION_TYPES,
        broker_name="compression.type",
    )
    compression_gzip_level: int = setting(
        "compression.gzip.level",
        "int",
        -1,
        "Level of gzip where the broker compresses; -1 is the codec's default.",
        at_least=-1,
        at_most=9,
        broker_name="compression.gzip.level",
    )
    compression_lz4_level: int = setting(
        "compression.lz4.level",
        "int",
        9,
        "Level of lz4 where the broker compresses.",
        at_least=1,
        at_most=17,
        broker_name="compression.lz4.level",
    )
    compression_zstd_level: int = setting(
        "compression.zstd.level",
        "int",
        3,
        "Level of zstd where the broker compresses.",
        at_least=-131072,
        at_most=22,
        broker_name="compression.zstd.level",
    )
    delete_retention_ms: int = setting(
        "delete.retention.ms",
        "long",
        86_400_000,
        "How long a tombstone stays after compaction first sees it, so that readers see the "
        "deletion.",
        at_least=0,
        broker_name="log.cleaner.delete.retention.ms",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        "follower.replication.throttled.replicas",
        "list",
        (),
        "Replicas whose fetching is throttled in a cluster: PARTITION:BROKER, or * for all.",
    )
    errors_deadletterqueue_group_enable: bool = setting(
        "errors.deadletterqueue.group.enable",
        "boolean",
        False,
        "Whether share groups may write dead letters to the topic.",
    )
    file_delete_delay_ms: int = setting(
        "file.delete.delay.ms",
        "long",
        60_000,
        "Time for which a file stays under its .deleted name before it is removed.",
        at_least=0,
        broker_name="log.segment.delete.delay.ms",
    )
    flush_messages: int = setting(
        "flush.messages",
        "long",
        INT64_MAX,
        "fsync after this many records; by default the operating system decides.",
        at_least=1,
        broker_name="log.flush.interval.messages",
    )
    flush_ms: int = setting(
        "flush.ms",
        "long",
        INT64_MAX,
        "fsync at the latest after this time; by default the operating system decides.",
        at_least=0,
        broker_name="log.flush.interval.ms",
    )
    index_interval_bytes: int = setting(
        "index.interval.bytes",
        "int",
        4096,
        "Bytes of log between two entries of the offset and time index.",
        at_least=0,
        broker_name="log.index.interval.bytes",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        "leader.replication.throttled.replicas",
        "list",
        (),
        "Replicas whose serving is throttled in a cluster: PARTITION:BROKER, or * for all.",
    )
    local_retention_bytes: int = setting(
        "local.retention.bytes",
        "long",
        -2,
        "Size of a tiered partition's local segments above which the oldest are deleted, if they "
        "are in the tier; -2 uses retention.bytes, -1 keeps all.",
        at_least=-2,
        broker_name="log.local.retention.bytes",
    )
    local_retention_ms: int = setting(
        "local.retention.ms",
        "long",
        -2,
        "How long a segment that is in the tier stays on the local disk after its largest "
        "timestamp; -2 uses retention.ms, -1 keeps it forever.",
        at_least=-2,
        broker_name="log.local.retention.ms",
    )
    max_compaction_lag_ms: int = setting(
        "max.compaction.lag.ms",
        "long",
        INT64_MAX,
        "Maximum time until a record is compacted.",
        at_least=1,
        broker_name="log.cleaner.max.compaction.lag.ms",
    )
    max_message_bytes: int = setting(
        "max.message.bytes",
        "int",
        1_048_588,
        "Maximum size of a record batch.",
        at_least=0,
        broker_name="message.max.bytes",
    )
    message_downconversion_enable: bool = setting(
        "message.downconversion.enable",
        "boolean",
        True,
        "Whether consumers from before record batches (Fetch 0 to 3) get records in their format; "
        "if not, they get UNSUPPORTED_VERSION.",
        broker_name="log.message.downconversion.enable",
    )
    message_format_version: str = setting(
        "message.format.version",
        "string",
        "3.0-IV1",
        "Kafka version whose message format the log uses: v0 before 0.10, v1 before "
        "0.11, then v2. Ignored unless the broker's inter.broker.protocol.version is before 3.0.",
        reading=magic_of,
        broker_name="log.message.format.version",
    )
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms",
        "long",
        INT64_MAX,
        "How far a CreateTime timestamp may be ahead of the broker's clock.",
        at_least=0,
        broker_name="log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms",
        "long",
        INT64_MAX,
        "How far a CreateTime timestamp may be before the broker's clock.",
        at_least=0,
        broker_name="log.message.timestamp.before.max.ms",
    )
    message_timestamp_difference_max_ms: int = setting(
        "message.timestamp.difference.max.ms",
        "long",
        INT64_MAX,
        "How far a CreateTime timestamp may be before or ahead of the broker's clock, if the "
        "setting for that side is not set.",
        at_least=0,
        broker_name="log.message.timestamp.difference.max.ms",
    )
    message_timestamp_type: str = setting(
        "message.timestamp.type",
        "string",
        "CreateTime",
        "Timestamps of records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        one_of=("CreateTime", "LogAppendTime"),
        broker_name="log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio",
        "double",
        0.5,
        "The share of uncompacted bytes from which a log is compacted.",
        at_least=0,
        at_most=1,
        broker_name="log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = setting(
        "min.compaction.lag.ms",
        "long",
        0,
        "Minimum time that a record stays uncompacted.",
        at_least=0,
        broker_name="log.cleaner.min.compaction.lag.ms",
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        "int",
        1,
        "acks=all needs this many replicas in sync; a single broker has one.",
        at_least=1,
        broker_name="min.insync.replicas",
    )
    preallocate: bool = setting(
        "preallocate",
        "boolean",
        False,
        "Whether a segment's file is allocated at its full size when it is created.",
        broker_name="log.preallocate",
    )
    remote_copy_lag_bytes: int = setting(
        "remote.copy.lag.bytes",
        "long",
        -1,
        "Size of newer local segments from which a segment is copied to the tier; 0 copies at "
        "once, -1 uses the local retention's size.",
        at_least=-1,
        broker_name="log.remote.copy.lag.bytes",
    )
    remote_copy_lag_ms: int = setting(
        "remote.copy.lag.ms",
        "long",
        0,
        "Age of a segment's largest timestamp from which it is copied to the tier; 0 copies at "
        "once, -1 uses the local retention's time.",
        at_least=-1,
        broker_name="log.remote.copy.lag.ms",
    )
    remote_log_copy_disable: bool = setting(
        "remote.log.copy.disable",
        "boolean",
        False,
        "Whether no more segments are copied to the tier; what is there stays readable.",
    )
    remote_log_delete_on_disable: bool = setting(
        "remote.log.delete.on.disable",
        "boolean",
        False,
        "Whether the tier's segments are deleted when remote.storage.enable becomes false.",
    )
    remote_storage_enable: bool = setting(
        "remote.storage.enable",
        "boolean",
        False,
        "Whether segments are copied to the remote tier, and read from there.",
    )
    retention_bytes: int = setting(
        "retention.bytes",
        "long",
        -1,
        "Size of a partition above which its oldest segments are deleted; -1 keeps all.",
        broker_name="log.retention.bytes",
    )
    retention_ms: int = setting(
        "retention.ms",
        "long",
        604_800_000,
        "How long a segment stays after its largest timestamp; -1 keeps it forever.",
        at_least=-1,
        broker_name="log.retention.ms",
    )
    segment_bytes: int = setting(
        "segment.bytes",
        "int",
        1_073_741_824,
        "The size at which the active segment is rolled.",
        at_least=14,
        broker_name="log.segment.bytes",
    )
    segment_index_bytes: int = setting(
        "segment.index.bytes",
        "int",
        10_485_760,
        "The size that an index file is allocated at, which bounds its entries.",
        at_least=4,
        broker_name="log.index.size.max.bytes",
    )
    segment_jitter_ms: int = setting(
        "segment.jitter.ms",
        "long",
        0,
        "Maximum random time subtracted from segment.ms, so that logs do not roll simultaneously.",
        at_least=0,
        broker_name="log.roll.jitter.ms",
    )
    segment_ms: int = setting(
        "segment.ms",
        "long",
        604_800_000,
        "The age at which the active segment is rolled.",
        at_least=1,
        broker_name="log.roll.ms",
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable",
        "boolean",
        False,
        "Reserved: a single broker holds no elections.",
        broker_name="unclean.leader.election.enable",
    )
    ottla_decompressed_max_bytes: int = 104_857_600
    """The broker's setting of this name."""
    ottla_decompressed_max_ratio: int = 1_100
    honours_format_version: bool = False
    """Whether the broker's protocol version is so old that `message.format.version` applies."""
    has_remote_storage: bool = False
    """Whether the broker has a remote tier (`remote.log.storage.system.enable`)."""

    # Values that every append needs, derived once from the settings above.
    magic: int = _derived()
    """The message format of what is appended: 0, 1 or 2 (Kafka: `LogConfig.recordVersion`)."""
    timestamp_before_max_ms: int = _derived()
    """How far a timestamp may be before the clock, by the newer of two settings if it is set."""
    timestamp_after_max_ms: int = _derived()
    checks_timestamps: bool = _derived()
    is_compacted: bool = _derived()
    is_append_time: bool = _derived()

    def __post_init__(self) -> None:
        before, after = self.message_timestamp_before_max_ms, self.message_timestamp_after_max_ms
        either = self.message_timestamp_difference_max_ms
        is_append_time = self.message_timestamp_type == "LogAppendTime"
        derived = {
            "magic": magic_of(self.message_format_version) if self.honours_format_version else 2,
            "timestamp_before_max_ms": either if before == INT64_MAX else before,
            "timestamp_after_max_ms": either if after == INT64_MAX else after,
            "checks_timestamps": not is_append_time and min(before, after, either) < INT64_MAX,
            "is_compacted": "compact" in self.cleanup_policy,
            "is_append_time": is_append_time,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def check(self) -> None:
        """Raises `SettingError` for settings that are valid individually but not together."""
        if self.max_compaction_lag_ms < self.min_compaction_lag_ms:
            message = (
                f"conflict topic config setting max.compaction.lag.ms "
                f"({self.max_compaction_lag_ms}) < min.compaction.lag.ms "
                f"({self.min_compaction_lag_ms})"
            )
            raise SettingError("max.compaction.lag.ms", message, message)
        if self.remote_storage_enable:
            self._check_tiering()

    def _check_tiering(self) -> None:
        # The error names what may change: a topic that is no longer tiered loses its log start.
        if self.cleanup_policy != ("delete",):
            message = "Remote log storage only supports topics with cleanup.policy=delete"
            raise SettingError("cleanup.policy", message, message)
        if self.remote_log_copy_disable:
            self._check_without_copies()
        limits = (
            ("ms", self.retention_ms, self.local_retention_ms, self.remote_copy_lag_ms),
            ("bytes", self.retention_bytes, self.local_retention_bytes, self.remote_copy_lag_bytes),
        )
        for unit, total, local, lag in limits:
            name, effective = f"local.retention.{unit}", total if local == -2 else local
            if total > -1 and local == -1:
                what = f"Value must not be -1 as retention.{unit} value is set as {total}."
                raise _invalid(name, local, what)
            if total > -1 and local > total:
                what = f"Value must not be more than property: retention.{unit} value {total}"
                raise _invalid(name, local, what)
            if -1 < effective < lag:
                what = f"Value must not be more than the local retention, {effective}."
                raise _invalid(f"remote.copy.lag.{unit}", lag, what)

    def _check_without_copies(self) -> None:
        for unit, total, local in (
            ("ms", self.retention_ms, self.local_retention_ms),
            ("bytes", self.retention_bytes, self.local_retention_bytes),
        ):
            if local not in (-2, total):
                message = (
                    f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` "
                    f"and `retention.{unit}` must be set to the identical value because there will "
                    "be no more logs copied to the remote storage."
                )
                raise SettingError(f"local.retention.{unit}", message, message)

    @property
    def copies_to_tier(self) -> bool:
        """Whether segments are copied to the tier, so that local retention has its own limits."""
        return self.remote_storage_enable and not self.remote_log_copy_disable

    def local_limit_name(self, unit: str) -> str:
        """The setting that limits local segments; `unit` is ms or bytes."""
        own = self.local_retention_ms if unit == "ms" else self.local_retention_bytes
        return (
            f"local.retention.{unit}" if self.copies_to_tier and own != -2 else f"retention.{unit}"
        )

    @property
    def local_limit_ms(self) -> int:
        """How long local segments stay; -1 is forever."""
        is_own = self.copies_to_tier and self.local_retention_ms != -2
        return self.local_retention_ms if is_own else self.retention_ms

    @property
    def local_limit_bytes(self) -> int:
        """The size up to which local segments stay; -1 is any."""
        is_own = self.copies_to_tier and self.local_retention_bytes != -2
        return self.local_retention_bytes if is_own else self.retention_bytes

    @property
    def is_format_ignored(self) -> bool:
        """Whether an old format is asked for but not used."""
        return not self.honours_format_version and magic_of(self.message_format_version) < 2

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by age and size, and not only below the log start
        offset.
        """
        return "delete" in self.cleanup_policy


def _invalid(name: str, value: int, what: str) -> SettingError:
    return SettingError(
        name, f"{name}={value}: {what}", f"Invalid value {value} for configuration {name}: {what}"
    )
