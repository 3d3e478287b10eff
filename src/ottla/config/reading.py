"""The settings that consumers and share consumers have in common, with Kafka's names and defaults.

Kafka's counterpart: `ConsumerConfig`.
"""

from ottla.base.values import dataclass
from ottla.config.client import ClientConfig
from ottla.config.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingConfig(ClientConfig):
    """Attributes are Kafka's names with underscores."""

    check_crcs: bool = setting(
        "check.crcs", "boolean", True, "Whether the checksum of each batch is verified."
    )
    client_rack: str = setting("client.rack", "string", "", "Rack of this consumer.")
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
