"""The settings of a broker that has replicas in a cluster, with Kafka's names and defaults.

A broker without a cluster accepts them without effect. Kafka's counterparts: `ReplicationConfigs`,
`QuotaConfig`.
"""

from ottla.base.values import dataclass
from ottla.config.setting import INT64_MAX, setting
from ottla.config.tiering import TieringConfig

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SELECTORS = ("", "org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE)
"""Kafka's two selectors; without one consumers read from leaders."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReplicationConfig(TieringConfig):
    """Attributes are Kafka's names with underscores."""

    follower_replication_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        "long",
        INT64_MAX,
        "Bytes per second that this broker fetches for follower.replication.throttled.replicas.",
        at_least=0,
    )
    leader_replication_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        "long",
        INT64_MAX,
        "Bytes per second that this broker sends to followers for "
        "leader.replication.throttled.replicas.",
        at_least=0,
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        "long",
        5_000,
        "How often a broker in a cluster writes the high watermarks of its replicas.",
        at_least=1,
        is_dynamic=False,
    )
    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        "long",
        30_000,
        "Time after which a follower that has not caught up with its leader leaves the ISR.",
        at_least=1,
        is_dynamic=False,
    )
    replica_selector_class: str = setting(
        "replica.selector.class",
        "string",
        "",
        "Kafka's RackAwareReplicaSelector, to let consumers read from a replica in their rack; "
        "empty: from the leader.",
        one_of=SELECTORS,
        is_dynamic=False,
    )
    replication_quota_window_num: int = setting(
        "replication.quota.window.num",
        "int",
        11,
        "How many windows the rate of throttled replicas is measured over.",
        at_least=1,
        is_dynamic=False,
    )
    replication_quota_window_size_seconds: int = setting(
        "replication.quota.window.size.seconds",
        "int",
        1,
        "How long each of replication.quota.window.num windows is.",
        at_least=1,
        is_dynamic=False,
    )
