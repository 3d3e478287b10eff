"""The settings of share coordinators and of their topic, with Kafka's names and defaults.

Kafka's counterpart: `ShareCoordinatorConfig`.
"""

from ottla.base.values import dataclass
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.config.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateConfig(GroupCoordinatorConfig):
    """The settings of the share coordinators; attributes are Kafka's names with underscores.

    Inherits the groups' settings, since dataclasses with slots have one base.
    """

    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "long",
        300_000,
        "After which time a state in __share_group_state that does not change is written again, so "
        "that older records can be deleted.",
        at_least=1,
        is_dynamic=False,
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        "share.coordinator.snapshot.update.records.per.snapshot",
        "int",
        500,
        "After how many changes a state in __share_group_state is written as a whole.",
        at_least=0,
        at_most=500,
        is_dynamic=False,
    )
    share_coordinator_state_topic_compression_codec: int = setting(
        "share.coordinator.state.topic.compression.codec",
        "int",
        0,
        "Codec of the records in __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        at_least=0,
        at_most=4,
        is_dynamic=False,
    )
    share_coordinator_state_topic_min_isr: int = setting(
        "share.coordinator.state.topic.min.isr",
        "short",
        1,
        "min.insync.replicas of __share_group_state; 2 in a cluster, a single broker can have one.",
        at_least=1,
        is_dynamic=False,
    )
    share_coordinator_state_topic_num_partitions: int = setting(
        "share.coordinator.state.topic.num.partitions",
        "int",
        50,
        "Partitions of __share_group_state; cannot change once the topic exists.",
        at_least=1,
        is_dynamic=False,
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        "share.coordinator.state.topic.prune.interval.ms",
        "int",
        300_000,
        "How often records of __share_group_state are deleted that no state needs any more.",
        at_least=1,
        is_dynamic=False,
    )
    share_coordinator_state_topic_replication_factor: int = setting(
        "share.coordinator.state.topic.replication.factor",
        "short",
        1,
        "Replicas of __share_group_state; 3 in a cluster, a single broker can hold one.",
        at_least=1,
        is_dynamic=False,
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        "share.coordinator.state.topic.segment.bytes",
        "int",
        104_857_600,
        "segment.bytes of __share_group_state, small for fast loading.",
        at_least=1,
        is_dynamic=False,
    )
    share_coordinator_write_timeout_ms: int = setting(
        "share.coordinator.write.timeout.ms",
        "int",
        5000,
        "In a cluster, how long changes of the states of share groups wait until they are "
        "replicated.",
        at_least=1,
        is_dynamic=False,
    )
