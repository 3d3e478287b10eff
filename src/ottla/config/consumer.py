"""The settings of a consumer, with Kafka's names and defaults.

Kafka's counterpart: `ConsumerConfig`.
"""

from collections.abc import Mapping
from typing import Any

from ottla.base.times import duration_ms
from ottla.base.values import dataclass
from ottla.config.reading import ReadingConfig
from ottla.config.setting import setting, value_text, with_values

BY_DURATION = "by_duration:"


def reset_duration_ms(policy: str) -> int | None:
    """Returns the duration of `by_duration:PT1H`, and `None` for the other policies; raises
    `ValueError`.
    """
    if policy in ("earliest", "latest", "none"):
        return None
    if not policy.startswith(BY_DURATION):
        raise ValueError("one of earliest, latest, none, by_duration:PT1H")
    return duration_ms(policy.removeprefix(BY_DURATION))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ReadingConfig):
    """Attributes are Kafka's names with underscores."""

    auto_commit_interval_ms: int = setting(
        "auto.commit.interval.ms",
        "int",
        5000,
        "How often offsets are committed with enable.auto.commit.",
        at_least=0,
    )
    auto_offset_reset: str = setting(
        "auto.offset.reset",
        "string",
        "latest",
        "Where to start in a partition without a committed offset: earliest, latest, none (an "
        "error), or by_duration:PT1H for the records of the last hour.",
        reading=reset_duration_ms,
    )
    enable_auto_commit: bool = setting(
        "enable.auto.commit",
        "boolean",
        True,
        "Whether offsets of delivered records are committed automatically.",
    )
    group_instance_id: str = setting(
        "group.instance.id",
        "string",
        "",
        "Name of a static member, which keeps its partitions if it rejoins within "
        "session.timeout.ms.",
    )
    group_protocol: str = setting(
        "group.protocol",
        "string",
        "classic",
        "classic: a member assigns the partitions; consumer: the broker does (KIP-848); "
        "zookeeper: each member claims its share itself, in ZooKeeper, as with Kafka 0.7.",
        one_of=("classic", "consumer", "zookeeper"),
    )
    group_remote_assignor: str = setting(
        "group.remote.assignor",
        "string",
        "",
        "Server-side assignor for group.protocol=consumer; empty for the broker's default.",
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms",
        "int",
        3000,
        "How often a member of a classic group reports to the coordinator.",
        at_least=1,
    )
    isolation_level: str = setting(
        "isolation.level",
        "string",
        "read_uncommitted",
        "read_committed: records of open and aborted transactions are left out.",
        one_of=("read_uncommitted", "read_committed"),
    )
    max_partition_fetch_bytes: int = setting(
        "max.partition.fetch.bytes",
        "int",
        1_048_576,
        "Maximum bytes of one partition in a fetch response; a larger first batch is returned "
        "whole.",
        at_least=0,
    )
    partition_assignment_strategy: tuple[str, ...] = setting(
        "partition.assignment.strategy",
        "list",
        ("range", "cooperative-sticky"),
        "Assignors that a member of a classic group supports, in order of preference.",
    )
    queued_max_bytes: int = setting(
        "queued.max.bytes",
        "int",
        67_108_864,
        "Bytes that may be fetched ahead.",
        at_least=1,
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        "int",
        45_000,
        "A member of a classic group without a heartbeat for this long is removed.",
        at_least=1,
    )
    zookeeper_connect: str = setting(
        "zookeeper.connect",
        "string",
        "",
        "The ZooKeeper of a group with group.protocol=zookeeper: host:port[,host:port][/chroot].",
    )
    zookeeper_registration: str = setting(
        "zookeeper.registration",
        "string",
        "streams",
        "What a member of such a group registers. streams: its topics with their streams, like "
        "Kafka's own consumers; topic: the name of its one topic, like pykafka's.",
        one_of=("streams", "topic"),
    )


def consumer_config(settings: Mapping[str, Any]) -> ConsumerConfig:
    """Parses settings by Kafka's names; raises `SettingError`."""
    texts = {name: _text(value) for name, value in settings.items()}
    return with_values(ConsumerConfig(), texts, "consumer")


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list | tuple) else value_text(value)
