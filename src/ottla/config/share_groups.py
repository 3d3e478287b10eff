"""The settings of share groups that a coordinator has, with Kafka's names and defaults (KIP-932).

Kafka's counterpart: `ShareGroupConfig`. Overrides for one group: `group.py`.
"""

from ottla.base.values import dataclass
from ottla.config.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupsConfig:
    """The settings of share groups; attributes are Kafka's names with underscores."""

    errors_deadletterqueue_auto_create_topics_enable: bool = setting(
        "errors.deadletterqueue.auto.create.topics.enable",
        "boolean",
        False,
        "Whether a topic for dead letters that does not exist is created.",
        is_dynamic=False,
    )
    errors_deadletterqueue_topic_name_prefix: str = setting(
        "errors.deadletterqueue.topic.name.prefix",
        "string",
        "dlq.",
        "What the names of topics for dead letters begin with.",
        is_dynamic=False,
    )
    group_share_assignment_interval_ms: int = setting(
        "group.share.assignment.interval.ms",
        "int",
        1000,
        "The least time between two assignments of a share group.",
        at_least=0,
        is_dynamic=False,
    )
    group_share_delivery_count_limit: int = setting(
        "group.share.delivery.count.limit",
        "int",
        5,
        "How often a record is delivered to members of a share group before it is given up.",
        at_least=2,
        is_dynamic=False,
    )
    group_share_heartbeat_interval_ms: int = setting(
        "group.share.heartbeat.interval.ms",
        "int",
        5000,
        "Interval of the heartbeats of members of a share group.",
        at_least=1,
        is_dynamic=False,
    )
    group_share_initialize_retry_interval_ms: int = setting(
        "group.share.initialize.retry.interval.ms",
        "int",
        30_000,
        "How long share coordinators are waited for that are to begin the states of partitions, "
        "before they are asked again.",
        at_least=1,
        is_dynamic=False,
    )
    group_share_max_assignment_interval_ms: int = setting(
        "group.share.max.assignment.interval.ms",
        "int",
        15_000,
        "The longest group.share.assignment.interval.ms.",
        at_least=0,
        is_dynamic=False,
    )
    group_share_max_delivery_count_limit: int = setting(
        "group.share.max.delivery.count.limit",
        "int",
        10,
        "The highest group.share.delivery.count.limit.",
        at_least=2,
        at_most=25,
        is_dynamic=False,
    )
    group_share_max_heartbeat_interval_ms: int = setting(
        "group.share.max.heartbeat.interval.ms",
        "int",
        15_000,
        "The longest group.share.heartbeat.interval.ms.",
        at_least=1,
        is_dynamic=False,
    )
    group_share_max_partition_max_record_locks: int = setting(
        "group.share.max.partition.max.record.locks",
        "int",
        4000,
        "The highest group.share.partition.max.record.locks.",
        at_least=100,
        at_most=20_000,
        is_dynamic=False,
    )
    group_share_max_record_lock_duration_ms: int = setting(
        "group.share.max.record.lock.duration.ms",
        "int",
        60_000,
        "The longest group.share.record.lock.duration.ms.",
        at_least=1000,
        at_most=3_600_000,
        is_dynamic=False,
    )
    group_share_max_session_timeout_ms: int = setting(
        "group.share.max.session.timeout.ms",
        "int",
        60_000,
        "The longest group.share.session.timeout.ms.",
        at_least=1,
        is_dynamic=False,
    )
    group_share_max_share_sessions: int = setting(
        "group.share.max.share.sessions",
        "int",
        2000,
        "The most share sessions, one for each member and broker, that a broker has.",
        at_least=1,
        is_dynamic=False,
    )
    group_share_max_size: int = setting(
        "group.share.max.size",
        "int",
        200,
        "The most members that a share group may have.",
        at_least=1,
        at_most=1000,
        is_dynamic=False,
    )
    group_share_min_assignment_interval_ms: int = setting(
        "group.share.min.assignment.interval.ms",
        "int",
        0,
        "The shortest group.share.assignment.interval.ms.",
        at_least=0,
        is_dynamic=False,
    )
    group_share_min_delivery_count_limit: int = setting(
        "group.share.min.delivery.count.limit",
        "int",
        2,
        "The lowest group.share.delivery.count.limit.",
        at_least=2,
        is_dynamic=False,
    )
    group_share_min_heartbeat_interval_ms: int = setting(
        "group.share.min.heartbeat.interval.ms",
        "int",
        5000,
        "The shortest group.share.heartbeat.interval.ms.",
        at_least=1,
        is_dynamic=False,
    )
    group_share_min_partition_max_record_locks: int = setting(
        "group.share.min.partition.max.record.locks",
        "int",
        100,
        "The lowest group.share.partition.max.record.locks.",
        at_least=100,
        is_dynamic=False,
    )
    group_share_min_record_lock_duration_ms: int = setting(
        "group.share.min.record.lock.duration.ms",
        "int",
        15_000,
        "The shortest group.share.record.lock.duration.ms.",
        at_least=1000,
        is_dynamic=False,
    )
    group_share_min_session_timeout_ms: int = setting(
        "group.share.min.session.timeout.ms",
        "int",
        45_000,
        "The shortest group.share.session.timeout.ms.",
        at_least=1,
        is_dynamic=False,
    )
    group_share_partition_max_record_locks: int = setting(
        "group.share.partition.max.record.locks",
        "int",
        2000,
        "The most records of a partition that a share group has in flight.",
        at_least=100,
        is_dynamic=False,
    )
    group_share_record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms",
        "int",
        30_000,
        "How long a member of a share group has a record before it is delivered again.",
        at_least=1000,
        is_dynamic=False,
    )
    group_share_session_timeout_ms: int = setting(
        "group.share.session.timeout.ms",
        "int",
        45_000,
        "How long a share group waits for a member's next heartbeat.",
        at_least=1,
        is_dynamic=False,
    )
