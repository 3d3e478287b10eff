"""The controller of a broker alone: it decides on the image, records it, and its disks follow."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_turns, turn_dict, turn_list, yield_turn
from ottla.broker.admin import Admin
from ottla.broker.configs.config_changes import Alteration, ResourceAlteration
from ottla.broker.configs.resources import check_broker_name, check_group_name, no_settings
from ottla.broker.configs.settings import BrokerSettings, ConfigSource
from ottla.broker.controlling.access_verbs import AccessVerbs, outcome_of
from ottla.broker.controlling.outcomes import (
    NOT_YET,
    ByPartition,
    CreatedTopic,
    Outcome,
    Reassignments,
)
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.security.security import Security
from ottla.broker.topics.topics import Topic, Topics, known_topic
from ottla.metadata.deciding.topic_rules import check_name
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth, check_replicas, check_total_count

if TYPE_CHECKING:
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.quotas.quota_changes import QuotaAlteration

T = TypeVar("T")

UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

LEADERLESS: Final = {
    False: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    True: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
"""The error of a partition on an offline disk, by whether an unclean election was asked for."""


class TopicBroker(Protocol):
    """The part of a broker that has the topics."""

    node_id: int
    topics: Topics
    admin: Admin
    security: Security

    settings: BrokerSettings
    image_store: ImageStore

    @property
    def groups(self) -> "GroupCoordinator": ...


class AloneController(AccessVerbs):
    has_client_metrics: Final = True

    def __init__(self, broker: TopicBroker) -> None:
        super().__init__(broker.security)
        self._broker = broker
        self._node_id = broker.node_id
        self._topics = broker.topics
        self._admin = broker.admin

    # Topics

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool, deadline_ms: float
    ) -> Sequence[CreatedTopic | ApiError]:
        try:
            check_total_count(sum(map(self._count_of, wanted)))
        except ApiError as error:
            return [error.without_traceback()] * len(wanted)
        if validate_only:
            made = [self._validated(new) for new in wanted]
        else:
            made = self._admin.create_topics(wanted)
        return [_created(one, validate_only) for one in turn_list(made)]

    def _count_of(self, new: NewTopic) -> int:
        if new.assignments:
            return len(new.assignments)
        count = new.partition_count
        return self._broker.settings.config.num_partitions if count == -1 else max(0, count)

    def _validated(self, new: NewTopic) -> Topic | ApiError:
        try:
            return self._admin.create_topic(new, validate_only=True)
        except ApiError as error:
            return error.without_traceback()

    def create_named(self, names: Sequence[str]) -> Mapping[str, ApiError]:
        """They exist at once; all are created together, so that the files with all topics are
        written once.
        """
        news = [NewTopic(name=name) for name in names]
        refusals: dict[str, ApiError] = turn_dict()
        for new, made in zip(news, self._admin.create_topics(news), strict=True):
            if isinstance(made, ApiError):
                is_made_by_another = made.code is ErrorCode.TOPIC_ALREADY_EXISTS
                refusals[new.name] = NOT_YET if is_made_by_another else made
        return refusals

    def create_partitions(
        self, wanted: Sequence[TopicGrowth], *, validate_only: bool, deadline_ms: float
    ) -> Sequence[Outcome]:
        return self._admin.grow_topics(wanted, validate_only=validate_only)

    def delete_topics(
        self, names: Sequence[str], at: Timestamps, *, deadline_ms: float
    ) -> Sequence[Outcome]:
        found = turn_list([(name, self._topics.find(name)) for name in names])
        try:
            self._admin.delete_topics([topic for _, topic in found if topic is not None])
            while self._broker.groups.forget_some(at):
                yield_turn()
        except ApiError as error:
            return [error.without_traceback()] * len(names)
        return [None if topic else ApiError(UNKNOWN) for _, topic in found]

    def find_topics(self, names: Sequence[str]) -> Mapping[str, Topic]:
        broker = self._broker
        image, defaults = broker.image_store.image, broker.settings.config.topic_defaults
        found = ((name, known_topic(self._topics, image, name, defaults)) for name in names)
        return turn_dict((name, topic) for name, topic in found if topic is not None)

    # Settings and quotas

    def alter_configs(
        self, wanted: Sequence[ResourceAlteration], *, validate_only: bool
    ) -> Sequence[Outcome]:
        """All groups are written together."""
        results: list[Outcome] = turn_list()
        groups: dict[str, Callable[[], Alteration]] = turn_dict()
        for one in wanted:
            try:
                if one.resource_type == ResourceKind.GROUP:
                    check_group_name(one.resource_name)
                    groups[one.resource_name] = one.alteration
                else:
                    self._alter(one, validate_only=validate_only)
                results.append(None)
            except ApiError as error:
                results.append(error.without_traceback())
        if not groups:
            return results
        refusals = self._admin.alter_groups(groups, validate_only=validate_only)
        return [
            result
            or (
                refusals.get(one.resource_name) if one.resource_type == ResourceKind.GROUP else None
            )
            for one, result in zip(wanted, results, strict=True)
        ]

    def _alter(self, wanted: ResourceAlteration, *, validate_only: bool) -> None:
        admin, name, alteration = self._admin, wanted.resource_name, wanted.alteration()
        match wanted.resource_type:
            case ResourceKind.TOPIC:
                check_name(name)
                admin.alter_topic(name, alteration, validate_only=validate_only)
            case ResourceKind.BROKER:
                scope = ConfigSource.ALL_BROKERS
                if name:
                    check_broker_name(name, self._node_id)
                    scope = ConfigSource.BROKER
                admin.alter_broker(scope, alteration, validate_only=validate_only)
            case ResourceKind.CLIENT_METRICS:
                admin.alter_client_metrics(name, alteration, validate_only=validate_only)
            case _:
                raise no_settings(wanted.resource_type)

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: "Callable[[T], QuotaAlteration]",
        *,
        validate_only: bool,
    ) -> Sequence[Outcome]:
        return self._admin.alter_quotas(entries, alteration_of, validate_only=validate_only)

    # Leaders and replicas

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, is_unclean: bool
    ) -> ByPartition:
        """This broker leads all that it has, but for partitions on a disk that is offline."""
        if partitions is None:
            partitions = turn_list(
                [
                    TopicPartition(topic.name, index)
                    for topic in in_turns(list(self._topics))
                    for index in topic.leaderless_indexes
                ]
            )
        outcomes = ((one, self._not_elected(one, is_unclean=is_unclean)) for one in partitions)
        return ByPartition(None, turn_dict(outcomes))

    def _not_elected(self, place: TopicPartition, *, is_unclean: bool) -> ApiError:
        try:
            self._topics.online_partition(*place)
        except ApiError as error:
            is_offline = error.code is ErrorCode.KAFKA_STORAGE_ERROR
            return ApiError(LEADERLESS[is_unclean]) if is_offline else error.without_traceback()
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED, "The leader is elected already.")

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_count: bool,
    ) -> ByPartition:
        """The only place for a partition is the broker that it is on."""
        outcomes = (
            (place, outcome_of(partial(self._check_replicas, place), replicas))
            for place, replicas in wanted.items()
        )
        return ByPartition(None, turn_dict(outcomes))

    def _check_replicas(self, place: TopicPartition, wanted: tuple[int, ...] | None) -> None:
        """Raises `ApiError` unless the partition is to stay where it is."""
        self._topics.partition(*place)
        if wanted is None:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        check_replicas(wanted, (self._node_id,), f"{place}")

    def list_reassignments(self, partitions: Sequence[TopicPartition] | None) -> Reassignments:
        return Reassignments(None, {})


def _created(made: Topic | ApiError, validate_only: bool) -> CreatedTopic | ApiError:
    if isinstance(made, ApiError):
        return made
    topic_id = ZERO_UUID if validate_only else made.topic_id
    return CreatedTopic(topic_id, made.partition_count, 1, made.config, made.overrides)
