"""What `inter.broker.protocol.version` decides in a cluster over ZooKeeper, and in one of KRaft
the level of `metadata.version`.

All brokers of a cluster use the same version, the oldest that one of them needs; it is raised once
all are upgraded. Kafka's counterpart: `MetadataVersion`.
"""

from typing import Final

from ottla.base.values import dataclass
from ottla.config.kafka_version import step_of

OLDEST: Final = step_of("0.10.0-IV0")
NEWEST: Final = step_of("3.9")
"""The last release that uses ZooKeeper."""


@dataclass(frozen=True, slots=True, order=True)
class InterBrokerVersion:
    """Ordered by age; `step` is that of `kafka_version.step_of`."""

    step: tuple[int, ...]

    def has(self, name: str) -> bool:
        """Whether the version is the named one or a later one."""
        return self.step >= step_of(name)

    @property
    def truncates_on_fetch(self) -> bool:
        """Followers detect a divergence by Fetch instead of OffsetForLeaderEpoch."""
        return self.has("2.7-IV1")

    @property
    def has_features(self) -> bool:
        """`/feature` is enabled (KIP-584)."""
        return self.has("2.7-IV0")

    @property
    def has_alter_partition(self) -> bool:
        """Leaders request ISR changes from the controller; earlier versions write to ZooKeeper."""
        return self.has("2.7-IV2")

    @property
    def has_topic_ids(self) -> bool:
        return self.has("2.8-IV0")

    @property
    def has_producer_id_requests(self) -> bool:
        """The controller assigns blocks of producer ids; in earlier versions ZooKeeper does."""
        return self.has("3.0-IV0")

    @property
    def has_leader_recovery(self) -> bool:
        """The state of a partition says whether its leader was elected uncleanly (KIP-704)."""
        return self.has("3.2-IV0")


def parse_inter_broker_version(text: str) -> InterBrokerVersion:
    """Parses "2.4" or "2.4-IV1"; raises `ValueError` for a version that has no ZooKeeper."""
    step = step_of(text)
    if not OLDEST <= step <= NEWEST:
        raise ValueError(
            f"Version {text} is not one of brokers with ZooKeeper; set one from 0.10.0 to 3.9"
        )
    return InterBrokerVersion(step)


LATEST: Final = InterBrokerVersion(NEWEST)
