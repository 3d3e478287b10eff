"""The metadata of a cluster: its topics, settings, quotas, users, access rules, tokens and nodes.

Images are immutable and share what is the same in them. Kafka's counterpart: `MetadataImage`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.scram import Credentials
from ottla.base.turns import in_turns, turn_dict, turn_list, yield_turn
from ottla.base.values import dataclass
from ottla.metadata.acls import Acl, Entry, ResourcePattern
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.cluster_view import NO_CONTROLLER, NO_EPOCH, NO_LEADER, PartitionView
from ottla.metadata.directories import MIGRATING, directory_of, is_online
from ottla.metadata.quotas import Quotas
from ottla.metadata.tokens import DelegationToken

if TYPE_CHECKING:  # Lazy: a start on an empty directory needs no records.
    from ottla.metadata.records import RegisterControllerRecord

K = TypeVar("K")
V = TypeVar("V")

METADATA_VERSION = "metadata.version"
FIRST_WITH_SCRAM = 11
FIRST_WITH_TRANSACTIONS = 13
FIRST_WITH_TOKENS = 14
FIRST_WITH_DIRECTORIES = 17
FIRST_WITH_ELR = 23
FIRST_WITH_CORDONED = 30
FIRST_WITHOUT_CONTROLLERS = 33
"""The first levels of `metadata.version` with credentials (3.5-IV2), with metadata transactions
(3.6-IV1, KIP-868), with delegation tokens (3.6-IV2), with log directories in the records of
partitions (3.7-IV2, KIP-858), with eligible leaders in them (4.0-IV1, KIP-966), with cordoned
directories in those of brokers (4.3-IV0), and with controllers that go (4.4-IV2).
"""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""The recovery states of a partition (KIP-704): recovering after an unclean election, until its
leader says that it has recovered.
"""

ALL_BROKERS = ""
"""The name of the resource with the settings of all brokers."""

Configs = Mapping[str, str]

Acls = Mapping[ResourcePattern, Mapping[Entry, tuple[Uuid, ...]]]
"""The rules of each pattern of resources, with the ids of their records in a metadata log: an equal
rule may have several, and none where ZooKeeper has the rules. No pattern is without rules.
"""


def merged(known: Mapping[K, V], changed: Mapping[K, V | None]) -> dict[K, V]:
    """Replaces some values, in turns; those that are `None` or empty are removed."""
    result = dict(known)
    for key, value in in_turns(changed.items()):
        if value:
            result[key] = value
        else:
            result.pop(key, None)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """The controller's state of a partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...] = ()
    """The log directory of each replica."""
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    """The replicas that go and come by a reassignment."""
    elr: tuple[int, ...] = ()
    """The eligible leaders that are not in the ISR (KIP-966): they have all that was committed."""
    last_known_elr: tuple[int, ...] = ()
    recovery_state: int = RECOVERED
    offline: tuple[int, ...] = ()
    """The replicas that the controller of a cluster with ZooKeeper has named offline."""


NO_PARTITION: Final = PartitionImage(
    replicas=(), isr=(), leader=NO_LEADER, leader_epoch=0, partition_epoch=0
)
"""Of a partition on a disk, before anybody has said who leads it."""


NO_CONFIGS: Final[Configs] = {}


class TopicImage(NamedTuple):
    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionImage]
    configs: Configs = NO_CONFIGS

    @property
    def partition_count(self) -> int:
        return max(self.partitions, default=-1) + 1


NO_TOPIC: Final = TopicImage("", ZERO_UUID, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """The metadata of a cluster.

    `end_offset` is the offset after the last record, `epoch` the leader epoch of the last batch.
    """

    end_offset: int = 0
    epoch: int = 0
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[Uuid, str] = field(default_factory=dict)
    """By topic id; a topic of a cluster before 2.8 has none."""
    revision: int = field(default=0, compare=False)
    """Changes with each update in which topics are created, deleted, or change their partition
    count.
    """
    configs: Mapping[int, Mapping[str, Configs]] = field(default_factory=dict)
    """The settings of brokers, groups and client metrics, by the type of resource and its name;
    topics have their own.
    """
    quotas: Quotas = field(default_factory=dict)
    credentials: Credentials = field(default_factory=dict)
    acls: Acls = field(default_factory=dict)
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    """In a cluster with ZooKeeper those that are up."""
    controllers: "Mapping[int, RegisterControllerRecord]" = field(default_factory=dict)
    controller: int = NO_CONTROLLER
    """Of a cluster with ZooKeeper."""
    next_producer_id: int = 0
    zk_migration_state: int = 0
    voters: frozenset[int] = frozenset()
    """The controllers that vote, by the last record that names them."""
    removed: frozenset[Uuid] = frozenset()
    """The ids of topics that were deleted since the last snapshot."""
    has_open_transaction: bool = False
    """Whether a metadata transaction was begun and not ended, which another leader must abort."""

    @property
    def level(self) -> int:
        """The level of `metadata.version`, by which records have their versions."""
        return self.features.get(METADATA_VERSION, 0)

    # Topics

    def partition(self, place: TopicPartition) -> PartitionImage | None:
        topic = self.topics.get(place.topic)
        return None if topic is None else topic.partitions.get(place.partition)

    def partitions(
        self, topic: str, listener: str, asked: int = NO_LEADER
    ) -> Iterator[PartitionView]:
        """A topic's partitions for clients of a listener, in order of their numbers.

        `asked` is a broker that they reach already.
        """
        known = self.topics.get(topic)
        partitions = {} if known is None else known.partitions
        last: PartitionImage | None = None
        for number in sorted(partitions):
            one = partitions[number]
            if one is not last:  # partitions of a broker alone have the same image
                last, seen = one, self._view(one, listener, asked)
            yield PartitionView._make((number, *seen))

    def _view(self, known: PartitionImage, listener: str, asked: int) -> tuple[object, ...]:
        """The fields after the number of a partition. A leader that is not live, or has no endpoint
        on the listener, is replaced by none.
        """
        leader, error = known.leader, ErrorCode.NONE
        if not self._is_reached(leader, listener, asked):
            error = ErrorCode.LEADER_NOT_AVAILABLE
            if self.is_live(leader):
                error = ErrorCode.LISTENER_NOT_FOUND
            leader = NO_LEADER
        replicas, directories = known.replicas, known.directories
        if len(directories) != len(replicas):
            directories = (MIGRATING,) * len(replicas)
        offline = tuple(
            one
            for one, directory in zip(replicas, directories, strict=True)
            if one in known.offline
            or not self._is_reached(one, listener, asked)
            or not is_online(self.brokers[one], directory)
        )
        epoch, isr, elr = known.leader_epoch, known.isr, known.elr
        return error, leader, epoch, replicas, isr, offline, elr, known.last_known_elr

    def _is_reached(self, broker: int, listener: str, asked: int) -> bool:
        is_known = broker == asked or self.endpoint(broker, listener) is not None
        return is_known and self.is_live(broker)

    def with_partitions(
        self,
        changes: Iterable[tuple[TopicPartition, PartitionImage | None]],
        topic_ids: Mapping[str, Uuid],
    ) -> "MetadataImage":
        """With other partitions, of which `None` removes one; a topic goes with its last one.

        Yields to other requests between the elements of a large change.
        """
        changed: dict[str, dict[int, PartitionImage]] = turn_dict()
        replaced: list[TopicImage] = turn_list()
        for place, partition in in_turns(changes):
            partitions = changed.get(place.topic)
            if partitions is None:
                topic = self.topics.get(place.topic, NO_TOPIC)
                partitions = changed[place.topic] = dict(topic.partitions)
                # Kept until the request ends, then freed in turns: otherwise all would be freed at
                # once.
                replaced.append(topic)
            if partition is None:
                partitions.pop(place.partition, None)
            else:
                partitions[place.partition] = partition
        names = chain(changed, (one for one in topic_ids if one not in changed))
        return self.with_topics(
            (name, self._changed_topic(name, changed.get(name), topic_ids)) for name in names
        )

    def _changed_topic(
        self, name: str, partitions: Mapping[int, PartitionImage] | None, ids: Mapping[str, Uuid]
    ) -> TopicImage | None:
        """`None` without partitions; `partitions` are `None` if they stay."""
        before = self.topics.get(name, NO_TOPIC)
        now = before.partitions if partitions is None else partitions
        if not now:
            return None
        return TopicImage(name, ids.get(name, before.topic_id), now, before.configs)

    def with_topics(self, changes: Iterable[tuple[str, TopicImage | None]]) -> "MetadataImage":
        """With other topics, of which `None` removes one; in turns."""
        # Whole dictionaries are copied, which is fast, rather than iterated: most changes are of
        # one topic.
        topics = dict(self.topics)
        yield_turn()
        names = dict(self.topic_names)
        has_resized = False
        for name, now in in_turns(changes):
            before = topics.get(name, NO_TOPIC)
            if now is None or now.topic_id != before.topic_id:
                names.pop(before.topic_id, None)
            if now is None:
                has_resized |= topics.pop(name, None) is not None
                continue
            has_resized |= len(now.partitions) != len(before.partitions)
            topics[name] = now
            if now.topic_id != ZERO_UUID:
                names[now.topic_id] = name
        revision = self.revision + has_resized
        return replace(self, topics=topics, topic_names=names, revision=revision)

    # Brokers

    @property
    def has_peers(self) -> bool:
        """Whether other brokers and a controller ask the broker whose image this is: all but a
        broker that is its quorum's only voter. A cluster with ZooKeeper has no voters.
        """
        return self.voters != {self.controller}

    def is_live(self, broker: int) -> bool:
        """Whether a broker is up: registered, and not fenced."""
        known = self.brokers.get(broker)
        return known is not None and not known.is_fenced

    def may_be_in_sync(self, place: TopicPartition, broker: int, epoch: int) -> bool:
        """Whether a replica may join an ISR, on a broker that fetched as one of an epoch; -1 if it
        has not said which (KIP-903). Nor may one whose directory has failed. Kafka:
        `Partition.isReplicaIsrEligible`.
        """
        known, partition = self.brokers.get(broker), self.partition(place)
        if known is None or known.is_fenced or known.is_shutting_down:
            return False
        if partition is not None and not is_online(known, directory_of(partition, broker)):
            return False
        return NO_EPOCH in (epoch, known.epoch) or epoch == known.epoch

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        known = self.brokers.get(broker)
        return None if known is None else known.endpoint(listener)

    @property
    def racks(self) -> dict[int, str | None]:
        """The rack of each broker, in order of their ids."""
        return {broker: one.rack for broker, one in sorted(self.brokers.items())}

    # Settings and access

    def configs_of(self, kind: int, name: str) -> Configs:
        """The settings of one resource."""
        return self.configs.get(kind, {}).get(name, {})

    def with_configs(self, kind: int, changed: Mapping[str, Configs]) -> "MetadataImage":
        """With other settings of some resources of a type."""
        of_kind = merged(self.configs.get(kind, {}), changed)
        return replace(self, configs=merged(self.configs, {kind: of_kind}))

    def all_acls(self) -> Iterator[Acl]:
        for pattern, entries in self.acls.items():
            for entry in entries:
                yield Acl(pattern, entry)

    @property
    def acl_count(self) -> int:
        return sum(map(len, self.acls.values()))


class HasImage(Protocol):
    """Who has the present image, which others ask."""

    image: MetadataImage
