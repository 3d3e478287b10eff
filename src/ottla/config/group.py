"""What a group may be told otherwise than all of its coordinator's (KIP-848).

Kafka's counterpart: `GroupConfig`. Left out: the settings of share and streams groups.
"""

from dataclasses import dataclass

from ottla.config.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """What one group of the new protocol is told; attributes are Kafka's names with underscores.

    `GroupCoordinatorConfig` gives the defaults, and the bounds (`check_group`).
    """

    consumer_heartbeat_interval_ms: int = setting(
        "consumer.heartbeat.interval.ms",
        "int",
        5000,
        "How often members of the group are told to send heartbeats.",
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
