"""Loads and unloads what coordinators keep, as this broker begins and ceases to lead.

Only a member of a cluster needs this; leadership is that of the internal topics' partitions.
Kafka's counterparts: `GroupCoordinator.onElection` and `onResignation`,
`RequestHandlerHelper.onLeadershipChange`.
"""

import math
from typing import Any

from ottla.base.partitions import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    TopicPartition,
)
from ottla.broker.coordination.shards import Shards
from ottla.broker.groups.coordinator import GroupCoordinator
from ottla.broker.shares.coordinator import ShareCoordinator
from ottla.broker.topics.partition import Partition
from ottla.broker.transactions.coordinator import TransactionCoordinator


class Coordinators:
    """Listens to a broker's replicas. Work begun here continues in `Answers.advance`."""

    def __init__(
        self,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        shares: ShareCoordinator,
    ) -> None:
        self._shards: dict[str, Shards[Any]] = {
            CONSUMER_OFFSETS: groups.shards,
            TRANSACTION_STATE: transactions.shards,
            SHARE_GROUP_STATE: shares.shards,
        }

    def became_leader(self, partition: TopicPartition, leader_epoch: int) -> None:
        if partition.topic in self._shards:
            self._shards[partition.topic].became_leader(partition.partition, leader_epoch)

    def became_follower(self, partition: TopicPartition, leader_epoch: int) -> None:
        if partition.topic in self._shards:
            self._shards[partition.topic].resigned(partition.partition, leader_epoch)

    def stopped(self, partition: TopicPartition, *, delete: bool) -> None:
        if partition.topic in self._shards:
            self._shards[partition.topic].resigned(partition.partition, math.inf)

    def high_watermark_moved(self, partition: Partition) -> None:
        """Answers requests that waited until their records were committed."""
        if partition.topic in self._shards:
            end = partition.log.high_watermark
            self._shards[partition.topic].committed(partition.index, end)
