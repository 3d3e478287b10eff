"""The settings of a consumer, with Kafka's names and defaults.

Kafka's counterpart: `ConsumerConfig`.
"""

from collections.abc import Mapping
from typing import Any

from ottla.base.times import duration_ms
from ottla.base.values import dataclass
from ottla.config.client import ClientConfig
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
class ConsumerConfig(ClientConfig):
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
    check_crcs: bool = setting(
        "check.crcs", "boolean", True, "Whether the checksum of each batch is verified."
    )
    client_rack: str = setting("client.rack", "string", "", "Rack of this consumer.")
    enable_auto_commit: bool = setting(
        "enable.auto.commit",
        "boolean",
        True,
        "Whether offsets of delivered records are committed automatically.",
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes", "int", 52_428_800, "Maximum bytes of a fetch response.", at_least=0
    )
    fetch_max_wait_ms: int = setting(
        "fetch.max.wait.ms",
        "int",
        500,
        "How long a broker may wait for fetch.min.bytes to be available.",
        at_least=0,
    )
    fetch_min_bytes: int = setting(
        "fetch.min.bytes", "int", 1, "Bytes that a broker waits for before it answers.", at_least=0
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
    max_poll_interval_ms: int = setting(
        "max.poll.interval.ms",
        "int",
        300_000,
        "A consumer that polls no record for this long leaves the group, and rejoins at its next "
        "poll.",
        at_least=1,
    )
    max_poll_records: int = setting(
        "max.poll.records",
        "int",
        500,
        "Maximum number of records returned by one poll.",
        at_least=1,
    )
    metadata_max_age_ms: int = setting(
        "metadata.max.age.ms",
        "int",
        300_000,
        "How often topics and partitions are looked up again.",
        at_least=1,
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
