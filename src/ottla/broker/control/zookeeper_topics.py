"""Creation, growth and deletion of topics by the controller's broker, which must be this one.

The result comes when leaders are elected and this broker knows them, so that its clients can
continue. Kafka's counterparts: `ZkAdminManager`, `AdminZkClient`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.turns import turn_dict, turn_list
from ottla.broker.controlling.outcomes import CreatedTopic, Outcome
from ottla.broker.membership.membership import ZooKeeperMembership
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.topics.topics import Topic, Topics, topic_elsewhere
from ottla.broker.waiting.rooms import Later
from ottla.config.broker import BrokerConfig
from ottla.controller.events import Answer, CreatePartitions, CreateTopic, DeleteTopic
from ottla.controller.settings import Settings, read_settings
from ottla.metadata.deciding.topic_rules import new_topic_config, topic_config
from ottla.metadata.deciding.topics import (
    Defaults,
    NewTopic,
    TopicGrowth,
    added_placing,
    check_new_name,
    new_placing,
)
from ottla.metadata.image import MetadataImage
from ottla.zookeeper.topics import NO_LEADER

T = TypeVar("T")

Event = CreateTopic | CreatePartitions | DeleteTopic

Places = list[tuple[Event, int]]
"""Requests to the controller, each with the place of its result."""


class Member(NamedTuple):
    """A broker's place in its cluster: whom it asks, and by what it learns of the result."""

    membership: ZooKeeperMembership
    replicas: Replicas

    @property
    def metadata(self) -> MetadataImage:
        return self.replicas.metadata

    def check_is_controller(self) -> None:
        """Raises `ApiError`."""
        if not self.membership.is_controller:
            raise ApiError(ErrorCode.NOT_CONTROLLER)


class Asked(Generic[T]):
    """Requests to the controller, and the results, which say what it refused or was late with.

    `is_heard`: whether this broker knows what an event has led to.
    """

    def __init__(
        self, results: list[T | ApiError], places: Places, is_heard: Callable[[Event], bool]
    ) -> None:
        self._results = results
        self._places = places
        self._is_heard = is_heard

    def ask(self, member: Member, deadline_ms: float) -> Later[list[T | ApiError]]:
        def answered(answers: list[Answer]) -> list[T | ApiError] | Later[list[T | ApiError]]:
            left: Places = turn_list()
            for (event, number), answer in zip(self._places, answers, strict=True):
                if answer.error is ErrorCode.NONE:
                    left.append((event, number))
                else:
                    self._results[number] = ApiError(answer.error)
            self._places = left
            if self._is_over():
                return self._results
            heard = member.replicas.await_metadata(self._is_over, deadline_ms)
            return Later(heard, self._heard)

        events = [event for event, _ in self._places]
        return Later(member.membership.ask(events), answered)

    def _is_over(self) -> bool:
        while self._places and self._is_heard(self._places[-1][0]):
            self._places.pop()
        return not self._places

    def _heard(self, has_come: bool) -> list[T | ApiError]:
        for event, number in self._places:
            if not has_come and not self._is_heard(event):
                self._results[number] = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        return self._results


def _is_led(member: Member, event: Event) -> bool:
    assert not isinstance(event, DeleteTopic)
    topic = member.metadata.topics.get(event.topic)
    known = {} if topic is None else topic.partitions
    return all(index in known and known[index].leader != NO_LEADER for index in event.assignment)


# Creation


def create_topics(
    member: Member,
    config: BrokerConfig,
    wanted: Sequence[NewTopic],
    new_id: Callable[[], Uuid],
    *,
    validate_only: bool,
    deadline_ms: float,
) -> Sequence[CreatedTopic | ApiError] | Later[list[CreatedTopic | ApiError]]:
    results: list[CreatedTopic | ApiError] = []
    places: Places = turn_list()
    for number, new in enumerate(wanted):
        try:
            member.check_is_controller()
            event = _creation(new, member, config, new_id)
        except ApiError as error:
            results.append(error.without_traceback())
            continue
        places.append((event, number))
        results.append(
            CreatedTopic(
                topic_id=ZERO_UUID if validate_only else event.topic_id or ZERO_UUID,
                partition_count=len(event.assignment),
                replication_factor=len(event.assignment[0]),
                config=topic_config(config.topic_defaults, event.settings),
                overrides=event.settings,
            )
        )
    if validate_only or not places:
        return results

    return Asked(results, places, partial(_is_led, member)).ask(member, deadline_ms)


def _creation(
    new: NewTopic, member: Member, config: BrokerConfig, new_id: Callable[[], Uuid]
) -> CreateTopic:
    """Raises `ApiError` for a topic that cannot be created."""
    image = member.metadata
    check_new_name(new.name, image.topics)
    new_topic_config(new.name, config.topic_defaults, new.overrides)
    defaults = Defaults(config.num_partitions, config.default_replication_factor)

    def chance() -> int:
        return int.from_bytes(new_id(), "big")

    return CreateTopic(
        pending_id=None,
        topic=new.name,
        assignment=dict(new_placing(new, image.racks, defaults, chance)),
        topic_id=new_id(),
        settings=new.settings,
    )


# Growth


def create_partitions(
    member: Member, wanted: Sequence[TopicGrowth], *, validate_only: bool, deadline_ms: float
) -> Sequence[Outcome] | Later[list[Outcome]]:
    results: list[Outcome] = []
    places: Places = turn_list()
    for number, growth in enumerate(wanted):
        result: Outcome = None
        try:
            member.check_is_controller()
            image = member.metadata
            known = image.topics.get(growth.name)
            assignment = dict(added_placing(growth, known, image.racks))
        except ApiError as error:
            result = error.without_traceback()
        else:
            event = CreatePartitions(pending_id=None, topic=growth.name, assignment=assignment)
            places.append((event, number))
        results.append(result)
    if validate_only or not places:
        return results

    return Asked(results, places, partial(_is_led, member)).ask(member, deadline_ms)


# Deletion


def delete_topics(
    member: Member, names: Sequence[str], deadline_ms: float
) -> Sequence[Outcome] | Later[list[Outcome]]:
    """The result comes when this broker has removed them."""
    if not member.membership.is_controller:
        return [ApiError(ErrorCode.NOT_CONTROLLER)] * len(names)
    results: list[Outcome] = [None] * len(names)
    places: Places = turn_list(
        [(DeleteTopic(pending_id=None, topic=name), number) for number, name in enumerate(names)]
    )

    def is_gone(event: Event) -> bool:
        return event.topic not in member.metadata.topics

    return Asked(results, places, is_gone).ask(member, deadline_ms)


# Settings of topics without a partition on this broker


def find_topics(
    member: Member, topics: Topics, config: BrokerConfig, names: Sequence[str]
) -> Mapping[str, Topic] | Later[Mapping[str, Topic]]:
    metadata = member.metadata
    here = turn_dict((name, topics.find(name)) for name in names if name in metadata.topics)
    known = turn_dict((name, topic) for name, topic in here.items() if topic is not None)
    elsewhere = turn_list([name for name, topic in here.items() if topic is None])
    if not elsewhere:
        return known

    def found(settings: Settings) -> Mapping[str, Topic]:
        for name in elsewhere:
            overrides = settings.get(f"topics/{name}")
            if overrides is None:
                continue
            image = metadata.topics[name]._replace(configs=overrides)
            known[name] = topic_elsewhere(image, config.topic_defaults)
        return known

    reading = member.membership.run(lambda: read_settings(f"topics/{one}" for one in elsewhere))
    return Later(reading, found)
