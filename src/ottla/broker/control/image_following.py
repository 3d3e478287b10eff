"""A broker of a KRaft cluster follows the images of its metadata.

Nobody is asked whether an image is right: it is committed, and images come in order. The image that
others ask is replaced at once; what else there is to do is done in turns, so that clients are
served meanwhile: access rules first, then settings, then the replicas. Kafka's counterparts:
`BrokerMetadataPublisher`, `ReplicaManager.applyDelta`, `AclPublisher`,
`DynamicConfigPublisher`.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_turns, parts_in_turns, turn_dict, turn_list
from ottla.broker.admin import Admin
from ottla.broker.configs.settings import BrokerSettings, stored_configs
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.replicas.only_replicas import OnlyReplicas
from ottla.broker.replicas.postponed_orders import NONE_WAITS, waiting_line
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.security.security import Security
from ottla.broker.topics.topics import Topic, Topics
from ottla.broker.topics.unconfirmed import Unconfirmed
from ottla.controller.context import EPOCH_DURING_DELETE
from ottla.controller.requests import LeaderAndIsr, PartitionOrder, StopOrder, StopReplica
from ottla.metadata.acls import ResourcePattern
from ottla.metadata.changes import ImageChanges
from ottla.metadata.directories import MIGRATING, UNASSIGNED, directory_of
from ottla.metadata.image import Acls, MetadataImage, PartitionImage
from ottla.metadata.levels import SHARE_VERSION
from ottla.storage.directory.log_directories import LogDirectories
from ottla.zookeeper.topics import PartitionState, ReplicaAssignment

logger = logging.getLogger(__name__)

MAX_PARTITIONS: Final = 8
"""Partitions that become leader or follower in one step."""

MAX_DELETED: Final = 4
"""Partitions that are deleted in one step, whose directories' names are synced together."""

BY: Final = "the controller"

STOPPED: Final = StopOrder(leader_epoch=EPOCH_DURING_DELETE, delete=True)


class FollowingBroker(Protocol):
    """The parts of a broker that follow."""

    node_id: int
    settings: BrokerSettings
    directories: LogDirectories
    topics: Topics
    image_store: ImageStore
    unconfirmed: Unconfirmed
    security: Security
    quotas: ClientQuotas
    replicas: Replicas | OnlyReplicas
    admin: Admin

    def topics_deleted(self, names: Iterable[str]) -> None: ...

    def stop_shares(self) -> None: ...


class ImageFollower:
    """Used under the broker's lock. `complain` gets a line about what cannot be applied."""

    def __init__(
        self,
        broker: FollowingBroker,
        read_time: Callable[[], Timestamps],
        complain: Callable[[str], None],
    ) -> None:
        assert isinstance(broker.replicas, Replicas), "assembled as one of a cluster"
        self._broker = broker
        self._replicas = broker.replicas
        self._read_time = read_time
        self._complain = complain
        self._hosts = broker.settings.config.has_broker_role
        self._is_first = True
        self._known = broker.image_store.image
        """The last image that was applied to its end."""

    def follow(
        self, image: MetadataImage, changes: ImageChanges, *, touches_disks: bool = True
    ) -> None:
        """Applies an image, and what is not as in the one before.

        The first image that `touches_disks` must be of all that was committed at that time: what
        the disks have and it does not name is put aside (`-stray`). Later ones have deleted what
        they do not name.
        """
        broker = self._broker
        before = self._known
        broker.security.follow(image)
        self._replicas.image_followed()
        if changes.acls:
            broker.security.follow_rules(before.acls, _differing(before.acls, image.acls))
        broker.security.rules_are_known()
        if changes.features and not image.features.get(SHARE_VERSION):
            broker.stop_shares()
        if changes.quotas:
            broker.quotas.change(image.quotas)
        self._follow_configs(before, changes)
        if touches_disks:
            self._follow_replicas(changes)
        self._known = image

    @property
    def awaits(self) -> bool:
        """Whether partitions lack descriptors or memory: `make_awaited` tries again."""
        return bool(self._replicas.awaited)

    def make_awaited(self) -> None:
        """Also done with each image."""
        self._assume(())

    def _follow_replicas(self, changes: ImageChanges) -> None:
        image = self._image
        if self._hosts and self._is_first:
            self._put_strays_aside()
            self._confirm_topics()
            self._hold_back()
            self._assume(_all_partitions(image))
        elif self._hosts:
            self._follow_topics(changes)
            self._stop(self._gone(changes))
            if changes.removed_topics:
                self._broker.topics_deleted(changes.removed_topics)
            self._assume(changes.partitions)
        self._is_first = False

    @property
    def _image(self) -> MetadataImage:
        return self._broker.image_store.image

    @property
    def _by(self) -> str | None:
        """Who has changed what was not known yet: nobody, in the first image."""
        return None if self._is_first else BY

    # Settings

    def _follow_configs(self, before: MetadataImage, changes: ImageChanges) -> None:
        settings, image = self._broker.settings, self._image
        is_ours = False
        for kind, name in in_turns(changes.configs):
            match kind:
                case ResourceKind.BROKER:
                    is_ours = True
                case ResourceKind.GROUP:
                    settings.groups.change(name, image.configs_of(kind, name))
                case ResourceKind.CLIENT_METRICS:
                    settings.client_metrics = image.configs.get(kind, {})
        if is_ours:
            self._follow_broker(before)

    def _follow_broker(self, before: MetadataImage) -> None:
        node_id = self._broker.node_id
        known = stored_configs(before, node_id)
        if stored_configs(self._image, node_id) == known:
            return
        try:
            self._broker.admin.follow_broker(known, self._by)
        except ApiError as error:
            self._complain(
                "the settings of brokers that the controller has are not valid here, and those in "
                f"effect stay: {error.message or error.code.description}"
            )

    def _follow_topics(self, changes: ImageChanges) -> None:
        for kind, name in in_turns(changes.configs):
            topic = self._broker.topics.find(name) if kind == ResourceKind.TOPIC else None
            if topic is not None:
                self._follow_topic(topic)

    def _confirm_topics(self) -> None:
        """From the first image on the settings of all topics are known."""
        for topic in in_turns(list(self._broker.topics)):
            self._follow_topic(topic)
            self._broker.unconfirmed.forget(topic.name)

    def _follow_topic(self, topic: Topic) -> None:
        known = self._image.topics.get(topic.name)
        if known is not None and topic.topic_id == known.topic_id:
            self._broker.admin.follow_topic(topic.name, known.configs, self._by)

    # Replicas

    def _is_placed(self, topic: Topic, index: int) -> bool:
        """Whether a replica on the disks is one that the image has placed here."""
        known = self._image.topics.get(topic.name)
        if known is None or topic.topic_id != known.topic_id:
            return False
        partition = known.partitions.get(index)
        return partition is not None and self._broker.node_id in partition.replicas

    def _belongs_here(self, place: TopicPartition) -> bool:
        partition = self._image.partition(place)
        return partition is not None and self._broker.node_id in partition.replicas

    def _put_strays_aside(self) -> None:
        """Keeps logs that are not this broker's: while it was down they were deleted or moved away,
        or a person has copied them here. Kafka: `LogManager.isStrayReplica`.
        """
        for topic in in_turns(list(self._broker.topics)):
            for index in in_turns(topic.known_indexes):
                place = TopicPartition(topic.name, index)
                is_lost = index not in topic.partitions
                # What is lost is missed under its name: its topic's id may be lost with it.
                is_wanted = self._belongs_here(place) if is_lost else self._is_placed(topic, index)
                if not is_wanted:
                    self._replicas.set_aside(place)
        self._replicas.save_stopped()

    def _gone(self, changes: ImageChanges) -> Mapping[TopicPartition, StopOrder]:
        """The replicas here of topics that were deleted, and those that were moved away."""
        gone: dict[TopicPartition, StopOrder] = turn_dict()
        for name, topic_id in in_turns(changes.removed_topics.items()):
            topic = self._broker.topics.find(name)
            if topic is not None and topic.topic_id == topic_id:
                for index in in_turns(topic.known_indexes):
                    gone[TopicPartition(name, index)] = STOPPED
        for place in in_turns(changes.partitions):
            topic = self._broker.topics.find(place.topic)
            is_here = topic is not None and place.partition in topic.known_indexes
            if is_here and topic is not None and not self._is_placed(topic, place.partition):
                gone[place] = STOPPED
        return gone

    def _stop(self, gone: Mapping[TopicPartition, StopOrder]) -> None:
        for part in parts_in_turns(gone, MAX_DELETED):
            order = StopReplica(orders={place: gone[place] for place in part})
            self._report(self._replicas.follow(order, self._read_time()).errors)
            self._replicas.sync_stopped()
        self._replicas.save_stopped()

    def _assume(self, places: Iterable[TopicPartition]) -> None:
        """Leads and follows the replicas here as the image says, and those that were awaited."""
        orders: dict[TopicPartition, PartitionOrder] = turn_dict()
        awaited = self._replicas.awaited
        earlier = turn_list(awaited)
        for place in in_turns(chain(places, earlier)):
            partition = self._image.partition(place)
            if partition is not None and self._broker.node_id in partition.replicas:
                orders[place] = self._order(partition)
            else:
                awaited.pop(place, None)
                self._replicas.let_go(place)
        if orders:
            self._replicas.make_logs(self._orders(orders))
        for part in parts_in_turns(orders, MAX_PARTITIONS):
            ready = [place for place in part if place not in awaited]
            order = self._orders({place: orders[place] for place in ready})
            self._report(self._replicas.follow(order, self._read_time()).errors)
        if awaited and not earlier:
            self._complain(waiting_line(awaited))
        elif earlier and not awaited:
            self._complain(NONE_WAITS)

    def _hold_back(self) -> None:
        """A log that nobody has told the controller of may be in a directory that is offline, and
        is not made anew in another one: it would be empty, and might lead. What comes to this
        broker later has no log yet. Kafka makes it.
        """
        if self._broker.directories.is_complete:
            return
        held: dict[TopicPartition, Uuid] = turn_dict()
        for place in in_turns(_all_partitions(self._image)):
            topic, here = self._image.topics[place.topic], self._broker.topics.find(place.topic)
            partition = topic.partitions[place.partition]
            if self._broker.node_id not in partition.replicas:
                continue
            is_unknown = directory_of(partition, self._broker.node_id) in (UNASSIGNED, MIGRATING)
            is_here = here is not None and place.partition in here.known_indexes
            if is_unknown and not is_here:
                held[place] = topic.topic_id
        self._replicas.hold(held)
        if held:
            self._complain(_held_line(held))

    def _order(self, partition: PartitionImage) -> PartitionOrder:
        return PartitionOrder(
            state=PartitionState(
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                controller_epoch=self._image.epoch,
                isr=partition.isr,
                recovery_state=partition.recovery_state,
            ),
            partition_epoch=partition.partition_epoch,
            assignment=ReplicaAssignment(
                partition.replicas, adding=partition.adding, removing=partition.removing
            ),
            is_new=self._may_be_made(partition),
            directory=directory_of(partition, self._broker.node_id),
        )

    def _may_be_made(self, partition: PartitionImage) -> bool:
        """Whether a log that is not here may be made although a directory is offline: the image
        says that it is not in that one.
        """
        assigned = directory_of(partition, self._broker.node_id)
        is_open = assigned in (UNASSIGNED, MIGRATING)
        return is_open or self._broker.directories.online_with(assigned) is not None

    def _orders(self, orders: Mapping[TopicPartition, PartitionOrder]) -> LeaderAndIsr:
        topics = self._image.topics
        ids: dict[str, Uuid] = turn_dict()
        settings: dict[str, Mapping[str, str]] = turn_dict()
        for place in orders:
            if place.topic not in ids:
                topic = topics[place.topic]
                ids[place.topic], settings[place.topic] = topic.topic_id, topic.configs
        return LeaderAndIsr(
            orders=orders, topic_ids=ids, live_leaders={}, settings=settings, is_committed=True
        )

    def _report(self, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        for place, error in errors.items():
            if error is not ErrorCode.NONE and place not in self._replicas.manager.offline:
                logger.error("%s-%d is not as the image has it: %s", *place, error.description)


def _differing(before: Acls, after: Acls) -> Iterator[ResourcePattern]:
    """The patterns with other rules: images share what is the same in them."""
    changed: list[ResourcePattern] = turn_list()
    for pattern, entries in in_turns(after.items()):
        if before.get(pattern) is not entries:
            changed.append(pattern)
    yield from changed
    for pattern in in_turns(before):
        if pattern not in after:
            yield pattern


def _held_line(held: Collection[TopicPartition]) -> str:
    topic, index = next(iter(held))
    others = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return (
        f"{topic}-{index}{others} may have a log in a log directory that is offline, and get no "
        "other one: they wait for it, and other replicas that are in sync lead them; mend the "
        "directory, or take it out of log.dirs if it is lost, and restart the broker"
    )


def _all_partitions(image: MetadataImage) -> Iterator[TopicPartition]:
    for name, topic in image.topics.items():
        for index in topic.partitions:
            yield TopicPartition(name, index)
