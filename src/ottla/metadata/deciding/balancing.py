"""Decides when leaderships go back to the preferred replicas, the first ones of assignments.

Kafka's counterparts: `ReplicationControlManager.maybeBalancePartitionLeaders`,
`KafkaController.checkAndTriggerAutoLeaderRebalance`. Kafka's KRaft does not look at
leader.imbalance.per.broker.percentage, and balances whatever it can.
"""

from ottla.base.partitions import TopicPartition
from ottla.metadata.balancing import led_elsewhere
from ottla.metadata.image import MetadataImage


def off_balance(image: MetadataImage, percentage: int) -> list[TopicPartition]:
    """The partitions that are to go back to their preferred replicas, if these are able to lead."""
    partitions = (
        (TopicPartition(topic.name, index), one.replicas[0], one.leader)
        for topic in image.topics.values()
        for index, one in topic.partitions.items()
    )
    return [place for places in led_elsewhere(partitions, percentage).values() for place in places]
