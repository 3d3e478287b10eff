"""The settings of a group coordinator and of committed offsets, with Kafka's names and defaults.

Kafka's counterpart: `GroupCoordinatorConfig`. Overrides for one group: `group.py`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ottla.base.values import dataclass
from ottla.config.group import GroupConfig
from ottla.config.setting import INT32_MAX, Setting, SettingError, setting, settings_of
from ottla.config.share_groups import ShareGroupsConfig

INITIAL_REBALANCE_DELAY: Final = "group.initial.rebalance.delay.ms"

LOCAL_DEFAULTS: Final = {INITIAL_REBALANCE_DELAY: "0"}
"""Defaults for a log that only its own machine can reach.

Kafka lets the first member of a group wait for three seconds, since the consumers of a fleet start
together and each would trigger a rebalance. Tests, notebooks and single programs start one consumer
and would only lose the three seconds.
"""


def with_local_defaults(values: Mapping[str, str], *hosts: str) -> dict[str, str]:
    """Applies the local defaults if clients can only come to loopback `hosts`; given settings
    stay.
    """
    return {**LOCAL_DEFAULTS, **values} if all(map(_is_loopback, hosts)) else dict(values)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig(ShareGroupsConfig):
    """The settings of a group coordinator; attributes are Kafka's names with underscores.

    Inherits those of share groups, since dataclasses with slots have one base.
    """

    group_consumer_assignors: tuple[str, ...] = setting(
        "group.consumer.assignors",
        "list",
        ("uniform", "range"),
        "The assignors that consumers of the new protocol may ask for; the first is the default.",
        one_of=("uniform", "range"),
        is_dynamic=False,
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms",
        "int",
        5000,
        "Interval of the heartbeats of members of a group of the new protocol.",
        at_least=1,
        is_dynamic=False,
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms",
        "int",
        15_000,
        "The longest group.consumer.heartbeat.interval.ms.",
        at_least=1,
        is_dynamic=False,
    )
    group_consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms",
        "int",
        60_000,
        "The longest group.consumer.session.timeout.ms.",
        at_least=1,
        is_dynamic=False,
    )
    group_consumer_max_size: int = setting(
        "group.consumer.max.size",
        "int",
        INT32_MAX,
        "The most members that a group of the new protocol may have.",
        at_least=1,
        is_dynamic=False,
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms",
        "int",
        5000,
        "The shortest group.consumer.heartbeat.interval.ms.",
        at_least=1,
        is_dynamic=False,
    )
    group_consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms",
        "int",
        45_000,
        "The shortest group.consumer.session.timeout.ms.",
        at_least=1,
        is_dynamic=False,
    )
    group_consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms",
        "int",
        45_000,
        "How long a group of the new protocol waits for a member's next heartbeat.",
        at_least=1,
        is_dynamic=False,
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting(
        "group.coordinator.rebalance.protocols",
        "list",
        ("classic", "consumer"),
        "Supported group protocols; consumer is the new one (KIP-848).",
        one_of=("classic", "consumer"),
        is_dynamic=False,
    )
    group_initial_rebalance_delay_ms: int = setting(
        INITIAL_REBALANCE_DELAY,
        "int",
        3000,
        "How long an empty group waits for more members after its first has come. The default is "
        "0 where only this machine can connect: embedded, and serving on a loopback address.",
        at_least=0,
        is_dynamic=False,
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        "int",
        1_800_000,
        "The longest session that a member may ask for.",
        is_dynamic=False,
    )
    group_max_size: int = setting(
        "group.max.size",
        "int",
        INT32_MAX,
        "The most members that a group may have.",
        at_least=1,
        is_dynamic=False,
    )
    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        "int",
        6000,
        "The shortest session that a member may ask for.",
        is_dynamic=False,
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        "int",
        4096,
        "Maximum size of the metadata that a client may commit with an offset.",
        is_dynamic=False,
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms",
        "int",
        5000,
        "In a cluster, how long commits and changes of groups wait until they are replicated.",
        at_least=1,
        is_dynamic=False,
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        "long",
        600_000,
        "How often committed offsets are checked for expiration.",
        at_least=1,
        is_dynamic=False,
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        "int",
        10_080,
        "How long offsets are kept after their group has become empty; for consumers without a "
        "group, and for topics that a group no longer reads, after they were committed.",
        at_least=1,
        is_dynamic=False,
    )
    offsets_topic_compression_codec: int = setting(
        "offsets.topic.compression.codec",
        "int",
        0,
        "Codec of the records in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        at_least=0,
        at_most=4,
        is_dynamic=False,
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        "int",
        50,
        "Partitions of __consumer_offsets; cannot change once the topic exists.",
        at_least=1,
        is_dynamic=False,
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        "short",
        1,
        "Replicas of __consumer_offsets; 3 in a cluster, a single broker can hold one.",
        at_least=1,
        is_dynamic=False,
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        "int",
        104_857_600,
        "segment.bytes of __consumer_offsets, small for fast compaction and loading.",
        at_least=1,
        is_dynamic=False,
    )

    @property
    def group_defaults(self) -> GroupConfig:
        """Returns the settings of a group without overrides."""
        return GroupConfig(
            **{
                row.attribute: getattr(self, row.broker_name.replace(".", "_"))
                for row in settings_of(GroupConfig).values()
                if row.broker_name
            }
        )

    def check_groups(self) -> None:
        """Raises `SettingError` for settings that contradict each other."""
        self.check_group(self.group_defaults, prefix="group.")
        if not self.group_consumer_assignors:
            name = "group.consumer.assignors"
            raise SettingError(name, f"{name}: name at least one", "must not be empty")
        if "classic" not in self.group_coordinator_rebalance_protocols:
            name = "group.coordinator.rebalance.protocols"
            raise SettingError(name, f"{name}: must name classic", "must contain classic")

    def check_group(self, group: GroupConfig, *, prefix: str = "") -> None:
        """Raises `SettingError` for settings that no group may have; `prefix` is that of the
        names.
        """
        for row in _bounded_rows():
            value: int = getattr(group, row.attribute)
            least, most = self._bounds(row)
            if not least <= value <= most:
                name = prefix + row.name
                kind, what = row.name.split(".", 1)
                reason = f"group.{kind}.min.{what} and .max.{what} allow {least} to {most}"
                raise SettingError(
                    name,
                    f"{name}={value}: {reason}",
                    f"Invalid value {value} for configuration {name}: {reason}",
                )
        for kind in ("consumer", "share"):
            _check_heartbeats(group, kind, prefix)

    def within_bounds(self, group: GroupConfig) -> GroupConfig:
        """Returns the values within the bounds nearest to those that a group got under other
        bounds.
        """
        values = {}
        for row in _bounded_rows():
            least, most = self._bounds(row)
            values[row.attribute] = min(max(getattr(group, row.attribute), least), most)
        return replace(group, **values)

    def _bounds(self, row: Setting) -> tuple[int, int]:
        """Returns the minimum and maximum of a group setting."""
        kind, what = row.attribute.split("_", 1)
        least: int = getattr(self, f"group_{kind}_min_{what}")
        most: int = getattr(self, f"group_{kind}_max_{what}")
        return least, most


def _bounded_rows() -> list[Setting]:
    """The settings of a group for which its coordinator has a default, and bounds."""
    return [row for row in settings_of(GroupConfig).values() if row.broker_name]


def _check_heartbeats(group: GroupConfig, kind: str, prefix: str) -> None:
    interval_ms: int = getattr(group, f"{kind}_heartbeat_interval_ms")
    timeout_ms: int = getattr(group, f"{kind}_session_timeout_ms")
    if interval_ms >= timeout_ms:
        name = f"{prefix}{kind}.heartbeat.interval.ms"
        message = (
            f"{name} ({interval_ms}) must be less than "
            f"{prefix}{kind}.session.timeout.ms ({timeout_ms})"
        )
        raise SettingError(name, message, message)
