"""Settings of one group that override those of its coordinator (KIP-848, KIP-932).

Kafka's counterpart: `GroupConfig`. Left out: the settings of streams groups.
"""

from ottla.base.values import dataclass
from ottla.config.offset_reset import LATEST, read_offset_reset
from ottla.config.setting import setting


def _dead_letter_topic(text: str) -> None:
    if text.startswith("__"):
        raise ValueError("a topic for dead letters, whose name does not begin with __")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of one consumer group of the new protocol, or share group; attributes are
    Kafka's names with underscores.

    `GroupCoordinatorConfig` provides the defaults and the bounds (`check_group`).
    """

    consumer_heartbeat_interval_ms: int = setting(
        "consumer.heartbeat.interval.ms",
        "int",
        5000,
        "Interval of the heartbeats of the group's members.",
        at_least=1,
        broker_name="group.consumer.heartbeat.interval.ms",
    )
    consumer_session_timeout_ms: int = setting(
        "consumer.session.timeout.ms",
        "int",
        45_000,
        "How long the group waits for a member's next heartbeat.",
        at_least=1,
        broker_name="group.consumer.session.timeout.ms",
    )
    errors_deadletterqueue_copy_record_enable: bool = setting(
        "errors.deadletterqueue.copy.record.enable",
        "boolean",
        False,
        "Whether dead letters have the key, value and headers of their records.",
    )
    errors_deadletterqueue_topic_name: str = setting(
        "errors.deadletterqueue.topic.name",
        "string",
        "",
        "The topic for records that the share group gives up; empty for none.",
        reading=_dead_letter_topic,
    )
    ottla_share_scheduling_enable: bool = setting(
        "ottla.share.scheduling.enable",
        "boolean",
        False,
        "Whether the headers ottla.deliver-at (ms since the epoch) and ottla.priority (an integer) "
        "say when the share group's records are delivered, and which before others.",
    )
    share_assignment_interval_ms: int = setting(
        "share.assignment.interval.ms",
        "int",
        1000,
        "The least time between two assignments of the share group.",
        at_least=0,
        broker_name="group.share.assignment.interval.ms",
    )
    share_auto_offset_reset: str = setting(
        "share.auto.offset.reset",
        "string",
        LATEST,
        "Where the share group begins in a partition that it has not read: earliest, latest, or "
        "by_duration: and a duration such as PT12H.",
        reading=read_offset_reset,
    )
    share_delivery_count_limit: int = setting(
        "share.delivery.count.limit",
        "int",
        5,
        "How often a record is delivered to members before it is given up.",
        at_least=2,
        broker_name="group.share.delivery.count.limit",
    )
    share_heartbeat_interval_ms: int = setting(
        "share.heartbeat.interval.ms",
        "int",
        5000,
        "Interval of the heartbeats of the share group's members.",
        at_least=1,
        broker_name="group.share.heartbeat.interval.ms",
    )
    share_isolation_level: str = setting(
        "share.isolation.level",
        "string",
        "read_uncommitted",
        "Whether records of transactions that are open or aborted are delivered.",
        one_of=("read_committed", "read_uncommitted"),
    )
    share_partition_max_record_locks: int = setting(
        "share.partition.max.record.locks",
        "int",
        2000,
        "The most records of a partition that the share group has in flight.",
        at_least=100,
        broker_name="group.share.partition.max.record.locks",
    )
    share_record_lock_duration_ms: int = setting(
        "share.record.lock.duration.ms",
        "int",
        30_000,
        "How long a member has a record before it is delivered again.",
        at_least=1000,
        broker_name="group.share.record.lock.duration.ms",
    )
    share_renew_acknowledge_enable: bool = setting(
        "share.renew.acknowledge.enable",
        "boolean",
        True,
        "Whether members may renew the locks of records that they have.",
    )
    share_session_timeout_ms: int = setting(
        "share.session.timeout.ms",
        "int",
        45_000,
        "How long the share group waits for a member's next heartbeat.",
        at_least=1,
        broker_name="group.share.session.timeout.ms",
    )
