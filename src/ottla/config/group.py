"""Settings of one group that override those of its coordinator (KIP-848).

Kafka's counterpart: `GroupConfig`. Left out: the settings of share and streams groups.
"""

from ottla.base.values import dataclass
from ottla.config.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of one group of the new protocol; attributes are Kafka's names with underscores.

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
