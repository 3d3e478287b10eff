"""Producers of topics, and the lag of groups."""

from collections.abc import Collection
from contextlib import suppress

from ottla.base.errors import ApiError, UnknownNameError, UnreachableError
from ottla.base.partitions import TopicPartition
from ottla.client.administration.descriptions import (
    ActiveProducer,
    GroupDescription,
    PartitionLag,
    TopicDescription,
    led_partitions,
)
from ottla.client.administration.group_members import SHARE
from ottla.client.administration.lags import first_time, lags_of
from ottla.client.administration.records_in_flight import InFlightAdmin
from ottla.client.administration.share_groups import ShareGroupAdmin
from ottla.client.administration.topic_activity import TopicActivityAdmin
from ottla.client.administration.transactions import TransactionAdmin
from ottla.client.bulk.reading import FetchFrom, fetch
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import RefusedError
from ottla.record.batch import iter_batches

ONE_BATCH = 1
"""A fetch of one byte returns the whole first batch."""


class ActivityAdmin(TopicActivityAdmin, TransactionAdmin, ShareGroupAdmin, InFlightAdmin):
    """Methods that combine several requests."""

    def producers_of(self, topic: TopicDescription) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers with a producer id, such as idempotent ones, of each partition.

        >>> topic, = admin.describe_topics(["orders"])
        >>> producers = admin.producers_of(topic)
        >>> producers[ottla.TopicPartition("orders", 0)]
        []
        """
        return self.describe_producers(led_partitions(topic))

    def group_lag(
        self, group: GroupDescription, *, now_ms: int | None = None
    ) -> list[PartitionLag]:
        """The lag of a group in each partition of topics of which it has committed or is assigned
        some; `None` where it has not committed.

        Partitions that it has not committed are listed even if their leader does not answer. With
        `now_ms` also in time, for which one batch of each partition is read. Raises
        `RefusedError`. Partitions of deleted topics are left out.

        >>> admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 2})
        >>> group, = admin.describe_groups(["billing"])
        >>> lags = admin.group_lag(group)
        >>> [one.lag for one in lags]
        [1, None]
        """
        if group.kind == SHARE:
            return lags_of(group, self.share_group_offsets(group.group), self, now_ms)
        committed = {place: one.offset for place, one in self.group_offsets(group.group).items()}
        return lags_of(group, committed, self, now_ms)

    def known_bounds(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Like `bounds`, without the partitions that have no leader, or one that does not answer.

        >>> admin.known_bounds([ottla.TopicPartition("orders", 1)])
        {TopicPartition(topic='orders', partition=1): (0, 1)}
        """
        by_node: dict[int, list[TopicPartition]] = {}
        for place, leader in self._cluster.leaders(places).items():
            by_node.setdefault(leader.node_id, []).append(place)
        found: dict[TopicPartition, tuple[int, int]] = {}
        for several in by_node.values():
            with suppress(ApiError, RefusedError, UnknownNameError, UnreachableError):
                found |= self.bounds(several)
        return found

    def timestamp_at(self, place: TopicPartition, offset: int) -> int | None:
        """The timestamp of the first record from an offset on; `None` without one.

        >>> admin.timestamp_at(ottla.TopicPartition("orders", 0), 1)
        1767225602000
        """
        wanted = FetchFrom(
            topic=place.topic,
            partition=place.partition,
            offset=offset,
            max_size=ONE_BATCH,
            max_wait_ms=0,
        )

        def ask(broker: Connection) -> int | None:
            found = fetch(broker, wanted)
            return first_time(iter_batches(found.records, allow_torn_tail=True), offset)

        try:
            return self._cluster.ask_leader(place.topic, place.partition, ask)
        except ApiError:
            return None  # Retention deleted the offset meanwhile.
