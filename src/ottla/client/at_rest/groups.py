"""Groups from the records of `__consumer_offsets`: members, committed offsets, and lag."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

from ottla.base.errors import ApiError, ProtocolError, UnknownNameError, UnreachableError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timers import Timers
from ottla.broker.coordinator_losses import GROUPS
from ottla.broker.stored_records import StoredRecord
from ottla.broker.topics.topic_rules import CONSUMER_OFFSETS
from ottla.client.administration.descriptions import (
    GroupDescription,
    GroupMember,
    ListedGroup,
    PartitionLag,
    TopicDescription,
)
from ottla.client.administration.group_members import CLASSIC, CONSUMER, classic_members
from ottla.client.administration.lags import first_time, lags_of
from ottla.client.at_rest.topics import TopicsAtRest, bounds_of
from ottla.coordinator.catalog import CatalogTopic
from ottla.coordinator.consumer.partitions import Assignment
from ottla.coordinator.consumer.requests import ConsumerMemberDescription
from ottla.coordinator.offsets.records import decode_key, decode_value
from ottla.coordinator.shard import GroupCoordinatorShard
from ottla.diagnosis.internal_records import OnLost, kept_records, refuse_loss, undecodable
from ottla.storage.reading.read_only_log import ReadOnlyLog


class GroupList(Protocol):
    """Lists and describes groups: an `Admin`, or the files of a directory."""

    def list_groups(
        self,
        *,
        states: Collection[str] = (),
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> list[ListedGroup]: ...

    def describe_groups(self, groups: Iterable[str | ListedGroup]) -> list[GroupDescription]: ...

    def group_lag(
        self, group: GroupDescription, *, now_ms: int | None = None
    ) -> list[PartitionLag]: ...


class GroupsAtRest:
    """The groups of log directories; the methods are those of `Admin`.

    Members are those whose sessions had not ended when the last record was written.
    """

    def __init__(self, paths: Sequence[str], on_lost: OnLost = refuse_loss) -> None:
        """Raises `UserError` if a path is not a log directory.

        `on_lost` takes a line for each partition of the offsets topic of which a part cannot be
        read, once groups are asked for.
        """
        self._topics = TopicsAtRest(paths)
        self._on_lost = on_lost

    def list_groups(
        self,
        *,
        states: Collection[str] = (),
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> list[ListedGroup]:
        """`on_unreachable` is never called."""
        wanted = {one.lower() for one in states}
        found = [
            ListedGroup(
                group=one.group_id,
                state=one.state,
                kind=one.group_type,
                coordinator=self._topics.node_id,
            )
            for one in self._shard.list_groups()
            if not wanted or one.state.lower() in wanted
        ]
        return sorted(found, key=lambda one: one.group)

    def describe_groups(self, groups: Iterable[str | ListedGroup]) -> list[GroupDescription]:
        return [self._described(one if isinstance(one, str) else one.group) for one in groups]

    def _described(self, group: str) -> GroupDescription:
        classic = self._shard.describe(group)
        if classic is not None:
            return GroupDescription(
                group=group,
                kind=CLASSIC,
                state=classic.state,
                assignor=classic.protocol,
                coordinator=self._topics.node_id,
                members=classic_members(classic.protocol_type, classic.members),
            )
        consumer = self._shard.describe_consumer(group)
        if consumer is None:
            raise UnknownNameError("group", group, [one.group for one in self.list_groups()])
        return GroupDescription(
            group=group,
            kind=CONSUMER,
            state=consumer.state,
            assignor=consumer.assignor,
            coordinator=self._topics.node_id,
            members=tuple(map(self._consumer_member, consumer.members)),
            epoch=consumer.epoch,
        )

    def _consumer_member(self, one: ConsumerMemberDescription) -> GroupMember:
        pattern = (f"/{one.topic_regex}/",) if one.topic_regex else ()
        return GroupMember(
            member_id=one.member_id,
            instance_id=one.instance_id,
            client_id=one.client_id,
            host=one.client_host,
            topics=(*one.topic_names, *pattern),
            assigned=tuple(sorted(self._places(one.assigned))),
            epoch=one.epoch,
        )

    def _places(self, assigned: Assignment) -> Iterator[TopicPartition]:
        """Leaves out topics that were deleted since."""
        names = {one.topic_id: one.name for one in self._known}
        for topic_id, index in assigned:
            if topic_id in names:
                yield TopicPartition(names[topic_id], index)

    def group_lag(
        self, group: GroupDescription, *, now_ms: int | None = None
    ) -> list[PartitionLag]:
        committed = {
            place: one.offset
            for place, one in self._shard.offsets.of(group.group).items()
            if one.offset >= 0
        }
        return lags_of(group, committed, self, now_ms)

    def existing_of(self, topics: Collection[str]) -> list[TopicPartition]:
        names = sorted({one.name for one in self._known} & {*topics})
        return [place for name in names for place in self._topics.places_of(name)]

    def bounds(self, places: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return {one: self._topics.ask(one, bounds_of) for one in places}

    known_bounds = bounds
    """Damage is not left out: it is an error, as everywhere."""

    def timestamp_at(self, place: TopicPartition, offset: int) -> int | None:
        def ask(log: ReadOnlyLog) -> int | None:
            return first_time(log.batches.read(offset), offset)

        try:
            return self._topics.ask(place, ask)
        except ApiError:
            return None  # Retention deleted the offset meanwhile.

    @cached_property
    def _known(self) -> list[TopicDescription]:
        return self._topics.describe_topics(internal=True)

    @cached_property
    def _shard(self) -> GroupCoordinatorShard:
        """A shard filled from the topic; it is only read, and decides nothing."""
        broker = self._topics.broker
        shard = GroupCoordinatorShard(
            broker, _NoTopics(), _no_id, lambda _: broker.group_defaults, Timers()
        )
        for place in self._topics.places_of(CONSUMER_OFFSETS):
            path = self._topics.directory_of(place)
            for record in kept_records(path, place, GROUPS, self._on_lost):
                self._replay(shard, place, record)
        return shard

    def _replay(
        self, shard: GroupCoordinatorShard, place: TopicPartition, record: StoredRecord
    ) -> None:
        try:
            key = decode_key(record.key)
            value = None if key is None else decode_value(key, record.value)
        except ProtocolError as error:
            self._on_lost(undecodable(place, record.offset, error))
            return
        if key is not None:
            shard.replay(key, value, record.offset, producer_id=record.producer_id)


class _NoTopics:
    """The catalog for members that join, of which there are none."""

    revision = 0

    def __iter__(self) -> Iterator[CatalogTopic]:
        return iter(())

    def find(self, name: str) -> CatalogTopic | None:
        return None


def _no_id() -> Uuid:
    raise AssertionError("no member joins a group at rest")
