"""The settings of a broker that has replicas in a cluster, with Kafka's names and defaults.

A broker that is alone takes them and does nothing with them. Kafka's counterparts:
`ReplicationConfigs`, `QuotaConfig`.
"""

from dataclasses import dataclass

from ottla.config.security import SecurityConfig
from ottla.config.setting import INT64_MAX, setting

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SELECTORS = ("", "org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE)
"""Kafka's two; without one consumers read from leaders."""


# As of `NetworkConfig`, no method is made: only `BrokerConfig` is.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReplicationConfig(SecurityConfig):
    """Attributes are Kafka's names with underscores."""

    follower_replication_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        "long",
        INT64_MAX,
        "Bytes a second that this broker fetches of follower.replication.throttled.replicas.",
        at_least=0,
    )
    leader_replication_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        "long",
        INT64_MAX,
        "Bytes a second that followers get of leader.replication.throttled.replicas.",
        at_least=0,
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        "long",
        5_000,
        "How often a broker in a cluster writes down what is committed of its replicas.",
        at_least=1,
        is_dynamic=False,
    )
    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        "long",
        30_000,
        "A follower that has not caught up with its leader for so long leaves the ISR.",
        at_least=1,
        is_dynamic=False,
    )
    replica_selector_class: str = setting(
        "replica.selector.class",
        "string",
        "",
        "Kafka's RackAwareReplicaSelector, to have consumers read from a replica in their rack; "
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
