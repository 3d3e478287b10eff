"""Decides when leaderships go back to the preferred replicas, the first ones of assignments.

Kafka's counterparts: `ReplicationControlManager.maybeBalancePartitionLeaders`,
`KafkaController.checkAndTriggerAutoLeaderRebalance`. Kafka's KRaft does not look at
leader.imbalance.per.broker.percentage, and balances whatever it can.
"""

from itertools import islice
from typing import Final

from ottla.base.partitions import TopicPartition
from ottla.metadata.balancing import led_elsewhere
from ottla.metadata.deciding.elections import PREFERRED
from ottla.metadata.deciding.partition_changes import (
    NO_DEFAULTS,
    PartitionChanges,
    TopicDefaults,
)
from ottla.metadata.image import MetadataImage
from ottla.metadata.record_versions import VersionedRecord

MOST_AT_ONCE: Final = 1000
"""Elections of one change (`QuorumController.MAX_ELECTIONS_PER_IMBALANCE`)."""


def balance(
    image: MetadataImage, percentage: int, defaults: TopicDefaults = NO_DEFAULTS
) -> list[VersionedRecord]:
    """The elections of preferred replicas that are able to lead, at most `MOST_AT_ONCE`: after so
    many there may be more.
    """
    changes = PartitionChanges(image, defaults)
    partitions = (
        (TopicPartition(topic.name, index), one.replicas[0], one.leader)
        for topic in image.topics.values()
        for index, one in topic.partitions.items()
    )
    records = (
        changes.record(image.topics[place.topic], place.partition, PREFERRED)
        for places in led_elsewhere(partitions, percentage).values()
        for place in places
    )
    return list(islice((one for one in records if one is not None), MOST_AT_ONCE))
