"""The settings of transactions, with Kafka's names and defaults.

Kafka's counterparts: `TransactionStateManagerConfig`, `TransactionLogConfig`.
"""

from ottla.base.values import dataclass
from ottla.config.setting import setting
from ottla.config.share_coordinator import ShareStateConfig

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig(ShareStateConfig):
    """The settings of the transaction coordinators; attributes are Kafka's names with underscores.

    Inherits the settings of groups, since dataclasses with slots have one base.
    """

    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        "int",
        900_000,
        "The longest transaction.timeout.ms that a producer may ask for.",
        at_least=1,
        is_dynamic=False,
    )
    transaction_partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable",
        "boolean",
        True,
        "Whether a transactional produce must name a partition that was added to the transaction.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "int",
        HOUR_MS,
        "How often transactional ids are checked for expiration.",
        at_least=1,
        is_dynamic=False,
    )
    transaction_state_log_min_isr: int = setting(
        "transaction.state.log.min.isr",
        "int",
        1,
        "min.insync.replicas of __transaction_state; 2 in a cluster, a single broker can have one.",
        at_least=1,
        is_dynamic=False,
    )
    transaction_state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions",
        "int",
        50,
        "Partitions of __transaction_state; cannot change once the topic exists.",
        at_least=1,
        is_dynamic=False,
    )
    transaction_state_log_replication_factor: int = setting(
        "transaction.state.log.replication.factor",
        "short",
        1,
        "Replicas of __transaction_state; 3 in a cluster, a single broker can hold one.",
        at_least=1,
        is_dynamic=False,
    )
    transaction_state_log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        "int",
        104_857_600,
        "segment.bytes of __transaction_state, small for fast compaction and loading.",
        at_least=1,
        is_dynamic=False,
    )
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        "int",
        7 * 24 * HOUR_MS,
        "Time after which an unused transactional id is forgotten, unless its transaction is open.",
        at_least=1,
        is_dynamic=False,
    )
