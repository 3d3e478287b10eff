"""The settings of a subscription to clients' metrics (KIP-714).

Kafka's counterpart: `ClientMetricsConfigs`.
"""

from ottla.base.values import dataclass
from ottla.config.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsConfig:
    """The settings of one subscription; attributes are Kafka's names with underscores."""

    interval_ms: int = setting(
        "interval.ms", "int", 300_000, "Interval at which clients send the metrics."
    )
    match: tuple[str, ...] = setting(
        "match", "list", (), "The clients that send them: NAME=REGULAR-EXPRESSION, all of them."
    )
    metrics: tuple[str, ...] = setting(
        "metrics", "list", (), "Prefixes of the names of the metrics; * for all."
    )
