"""Decides who leads partitions, and who is in sync, as brokers come and go.

A change is asked for as `Wanted`, and becomes a record of what differs, with everything that
follows from it: another leader, a reassignment that is complete, eligible leaders (KIP-966), a new
leader epoch. Kafka's counterparts: `PartitionChangeBuilder`,
`ReplicationControlManager.generateLeaderAndIsrUpdates`; what is otherwise on purpose is in
docs/architecture/deciding.md.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from enum import Enum, auto
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from ottla.base.ids import Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.base.values import dataclass
from ottla.metadata.cluster_view import NO_LEADER
from ottla.metadata.directories import directory_of, first_directory, is_online
from ottla.metadata.image import (
    ALL_BROKERS,
    FIRST_WITH_DIRECTORIES,
    FIRST_WITH_ELR,
    RECOVERING,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.levels import ELR_VERSION
from ottla.metadata.record_versions import VersionedRecord, record_version
from ottla.metadata.records import PartitionChangeRecord

T = TypeVar("T")

FIRST_WITHOUT_EPOCHS_OF_ISRS: Final = 12
"""The first level at which a smaller ISR begins no leader epoch (3.6-IV0)."""

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

NOBODY: Final = -1


class Election(Enum):
    """A leader is in the ISR, or in the ELR if the ISR is empty; the present one stays if it is
    able to lead.
    """

    ONLINE = auto()
    PREFERRED = auto()
    """The first replica leads if it is able to."""
    UNCLEAN = auto()
    """Any replica leads if no other is able to: what only others have is lost."""


class TopicDefaults(NamedTuple):
    """What a topic has without a setting, its own or of all brokers: what the controller's
    properties say.
    """

    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False


NO_DEFAULTS: Final = TopicDefaults()
"""What Kafka has without properties."""


class Manner(NamedTuple):
    """By which defaults partitions are decided on, and how many of them in one call: at `most`
    so many, all if it is `None`.
    """

    defaults: TopicDefaults = NO_DEFAULTS
    most: int | None = None


ALL_AT_ONCE: Final = Manner()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How a partition is to be; `None` is as it is.

    Without an `election` it is unclean if the topic's settings allow that. `lost_records` are
    brokers that may not have what they had.
    """

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    directories: Mapping[int, Uuid] = field(default_factory=dict)
    recovery_state: int | None = None
    election: Election | None = None
    lost_records: tuple[int, ...] = ()


AS_IT_IS: Final = Wanted()
"""Only a leader is looked for."""


class _Rules(NamedTuple):
    """By which a topic's partitions are led."""

    level: int
    has_elr: bool
    min_isr: int
    election: Election


class PartitionChanges:
    """Changes of partitions of one image.

    The broker `arriving` may lead though it is fenced in the image, and those `leaving` may not
    though they are live in it.
    """

    def __init__(
        self,
        image: MetadataImage,
        defaults: TopicDefaults = NO_DEFAULTS,
        *,
        arriving: int = NOBODY,
        leaving: Collection[int] = (),
    ) -> None:
        self.image = image
        self._defaults = defaults
        self._live = {broker for broker in image.brokers if is_live(image, broker)}
        self._live |= image.brokers.keys() & {arriving}
        self._live -= {*leaving}
        self._version = record_version(PartitionChangeRecord, image.level)
        self._has_elr = image.level >= FIRST_WITH_ELR and bool(image.features.get(ELR_VERSION))
        self._rules: dict[str, _Rules] = {}

    def record(self, topic: TopicImage, index: int, wanted: Wanted) -> VersionedRecord | None:
        """What makes a partition as it is wanted; `None` if nothing changes."""
        fields = self._fields(topic.partitions[index], self._rules_of(topic), wanted)
        return None if fields is None else self._record(topic, index, fields)

    def _record(self, topic: TopicImage, index: int, fields: dict[str, Any]) -> VersionedRecord:
        record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, **fields)
        return record, self._version

    def _fields(self, old: PartitionImage, rules: _Rules, wanted: Wanted) -> dict[str, Any] | None:
        """What a record says of a partition; `None` if nothing changes."""
        draft = _Draft(old, wanted, rules, lambda one: self._may_lead(old, wanted, one))
        draft.decide()
        fields = draft.fields()
        if self.image.level >= FIRST_WITH_DIRECTORIES:
            directories = self._directories(draft.replicas, old, wanted)
            if directories != old.directories:
                fields["directories"] = list(directories)
        return fields or None

    def made(
        self,
        wanted: Callable[[PartitionImage], Wanted | None],
        topics: Mapping[str, TopicImage] | None = None,
    ) -> Iterator[VersionedRecord]:
        """What changes partitions of all topics as `wanted`, which leaves out those of `None`.

        Images have one object for many partitions in the same state: each is decided on once.
        """
        asked: dict[int, Wanted | None] = {}
        decided: dict[tuple[int, _Rules], dict[str, Any] | None] = {}
        for topic in (self.image.topics if topics is None else topics).values():
            for index, partition in topic.partitions.items():
                known = id(partition)
                if known not in asked:
                    asked[known] = wanted(partition)
                to_be = asked[known]
                if to_be is None:
                    continue
                rules = self._rules_of(topic)
                if (known, rules) not in decided:
                    decided[known, rules] = self._fields(partition, rules, to_be)
                fields = decided[known, rules]
                if fields is not None:
                    yield self._record(topic, index, fields)

    def allows_unclean(self, topic: TopicImage) -> bool:
        return self._rules_of(topic).election is Election.UNCLEAN

    def _rules_of(self, topic: TopicImage) -> _Rules:
        known = self._rules.get(topic.name)
        if known is None:
            known = self._rules[topic.name] = self._new_rules(topic)
        return known

    def _new_rules(self, topic: TopicImage) -> _Rules:
        settings = {**self.image.configs_of(ResourceKind.BROKER, ALL_BROKERS), **topic.configs}
        unclean, least = settings.get(UNCLEAN_ELECTION), settings.get(MIN_ISR, "")
        is_unclean = self._defaults.unclean_leader_election_enable
        if unclean is not None:
            is_unclean = unclean.strip().lower() == "true"
        min_isr = int(least) if least.strip().isdigit() else self._defaults.min_insync_replicas
        most = len(next(iter(topic.partitions.values())).replicas)
        return _Rules(
            level=self.image.level,
            has_elr=self._has_elr,
            min_isr=min(min_isr, most),
            election=Election.UNCLEAN if is_unclean else Election.ONLINE,
        )

    def _may_lead(self, old: PartitionImage, wanted: Wanted, broker: int) -> bool:
        if broker not in self._live:
            return False
        directory = wanted.directories.get(broker, directory_of(old, broker))
        return is_online(self.image.brokers[broker], directory)

    def _directories(
        self, replicas: tuple[int, ...], old: PartitionImage, wanted: Wanted
    ) -> tuple[Uuid, ...]:
        if replicas == old.replicas and not wanted.directories and old.directories:
            return old.directories
        known = dict(zip(old.replicas, old.directories, strict=False)) | dict(wanted.directories)
        return tuple(
            known[one] if one in known else first_directory(self.image.brokers.get(one))
            for one in replicas
        )


def is_live(image: MetadataImage, broker_id: int) -> bool:
    """Whether a broker may lead, and may join an ISR."""
    known = image.brokers.get(broker_id)
    return known is not None and not known.is_fenced and not known.is_shutting_down


class _Draft:
    """A partition as it is to be."""

    def __init__(
        self,
        old: PartitionImage,
        wanted: Wanted,
        rules: _Rules,
        may_lead: Callable[[int], bool],
    ) -> None:
        self._old = old
        self._wanted = wanted
        self._rules = rules
        self._may_lead = may_lead
        self.isr = _or_old(wanted.isr, old.isr)
        self.replicas = _or_old(wanted.replicas, old.replicas)
        self.removing = _or_old(wanted.removing, old.removing)
        self.adding = _or_old(wanted.adding, old.adding)
        self.recovery_state = _or_old(wanted.recovery_state, old.recovery_state)
        self.leader = old.leader
        self.elr: tuple[int, ...] = ()
        self.last_known_elr = old.last_known_elr
        self.begins_epoch = False

    def decide(self) -> None:
        self._complete_reassignment()
        self._keep_eligible()
        self._elect()
        # Kafka completes what an election has completed with the partition's next change.
        self._complete_reassignment()
        self.elr = tuple(one for one in self.elr if one in self.replicas)
        old = self._old
        if not self.isr and not self._rules.has_elr:
            self.isr = old.isr  # the last one in sync is waited for
        has_removed = not set(old.replicas) <= set(self.replicas)
        has_shrunk = not set(old.isr) <= set(self.isr)
        has_shrunk &= self._rules.level < FIRST_WITHOUT_EPOCHS_OF_ISRS
        self.begins_epoch |= has_removed or has_shrunk
        self._remember_leader()

    def _complete_reassignment(self) -> None:
        """Takes the target for the replicas if all of it is in sync."""
        if not (self.removing or self.adding):
            return
        target, isr = without(self.replicas, self.removing), without(self.isr, self.removing)
        if isr and set(target) <= set(isr):
            self.replicas, self.isr = target, isr
            self.removing = self.adding = ()

    def _keep_eligible(self) -> None:
        """Who leaves an ISR that is too small for writes has all that was committed before."""
        if not self._rules.has_elr or len(self.isr) >= self._rules.min_isr:
            return
        candidates = dict.fromkeys((*self._old.elr, *self._old.isr))
        gone = {*self.isr, *self._wanted.lost_records}
        self.elr = without(tuple(candidates), gone)

    def _elect(self) -> None:
        leader, is_clean = self._elected()
        if leader == self._old.leader and (leader in self.isr or leader == NO_LEADER):
            return
        self.leader, self.begins_epoch = leader, True
        if leader in self.elr or not is_clean:
            self.isr, self.elr = (leader,), without(self.elr, (leader,))
        if not is_clean:
            self.elr, self.recovery_state = (), RECOVERING

    def _elected(self) -> tuple[int, bool]:
        """The leader, and whether it has all that was committed."""
        election = self._wanted.election or self._rules.election
        before = self._old.leader
        candidates = [before, *self.replicas]
        if election is Election.PREFERRED:
            candidates.insert(0, self.replicas[0])
        able = self.isr or self.elr
        for one in candidates:
            if one in able and self._may_lead(one):
                return one, True
        for one in self._unclean_candidates(election):
            if one in self.replicas and self._may_lead(one):
                return one, False
        return NO_LEADER, True

    def _unclean_candidates(self, election: Election) -> list[int]:
        """First the last leader of a partition that has lost its ISR and ELR (KIP-966), and last
        those that a move adds, which may have nothing yet; Kafka takes them in their order.
        """
        last, found = self._old.last_known_elr, list[int]()
        if self._rules.has_elr and not self.isr and not self.elr and len(last) == 1:
            found += last
        if election is Election.UNCLEAN:
            found += sorted(self.replicas, key=self.adding.__contains__)
        return found

    def _remember_leader(self) -> None:
        if not self._rules.has_elr:
            return
        if self.leader != NO_LEADER:
            self.last_known_elr = ()
        elif not self.isr and self._old.isr and self._old.leader != NO_LEADER:
            self.last_known_elr = (self._old.leader,)

    def fields(self) -> dict[str, Any]:
        """What differs, by the names of `PartitionChangeRecord`."""
        old, fields = self._old, dict[str, Any]()
        if self.begins_epoch:
            fields["leader"] = self.leader
        if self.recovery_state != old.recovery_state:
            fields["leader_recovery_state"] = self.recovery_state
        for name, new, before in (
            ("isr", self.isr, old.isr),
            ("replicas", self.replicas, old.replicas),
            ("removing_replicas", self.removing, old.removing),
            ("adding_replicas", self.adding, old.adding),
            ("eligible_leader_replicas", self.elr, old.elr),
            ("last_known_elr", self.last_known_elr, old.last_known_elr),
        ):
            if new != before:
                fields[name] = list(new)
        return fields


def without(brokers: tuple[int, ...], removed: Collection[int]) -> tuple[int, ...]:
    return tuple(one for one in brokers if one not in removed)


def _or_old(wanted: T | None, old: T) -> T:
    return old if wanted is None else wanted


# Brokers that come and go


def leaving(
    image: MetadataImage,
    broker_id: int,
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    most: int | None = None,
) -> list[VersionedRecord]:
    """A broker is fenced, shuts down or is removed: others lead, without it in the ISRs. At `most`
    so many records, all if it is `None`.

    The last one of an ISR stays in it, and its partition has no leader.
    """
    changes = PartitionChanges(image, defaults, leaving=(broker_id,))
    return list(islice(changes.made(lambda one: _without_broker(one, broker_id)), most))


def _without_broker(partition: PartitionImage, broker_id: int) -> Wanted | None:
    if broker_id not in partition.isr:
        return None
    return Wanted(isr=without(partition.isr, (broker_id,)))


def stopped_uncleanly(
    image: MetadataImage,
    broker_id: int,
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    most: int | None = None,
) -> list[VersionedRecord]:
    """A broker has crashed and is back, perhaps without the end of its logs: as `leaving`, and it
    is no eligible leader of any partition (KIP-966).
    """

    def wanted(partition: PartitionImage) -> Wanted | None:
        if broker_id not in partition.isr and broker_id not in partition.elr:
            return None
        isr = without(partition.isr, (broker_id,))
        return Wanted(isr=isr, lost_records=(broker_id,))

    changes = PartitionChanges(image, defaults, leaving=(broker_id,))
    return list(islice(changes.made(wanted), most))


def arriving(
    image: MetadataImage,
    broker_id: int = NOBODY,
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    leaving: Collection[int] = (),
    most: int | None = None,
) -> list[VersionedRecord]:
    """A broker is unfenced, or is already: partitions without a leader get one, but none of those
    that are being fenced. At `most` so many records, all if it is `None`.
    """
    changes = PartitionChanges(image, defaults, arriving=broker_id, leaving=leaving)
    made = changes.made(lambda one: AS_IT_IS if one.leader == NO_LEADER else None)
    return list(islice(made, most))


def directories_failed(
    image: MetadataImage,
    broker_id: int,
    directories: Collection[Uuid],
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    most: int | None = None,
) -> list[VersionedRecord]:
    """Log directories of a broker have failed: as `leaving`, for the replicas in them."""

    def wanted(partition: PartitionImage) -> Wanted | None:
        if broker_id not in partition.isr:
            return None
        is_there = directory_of(partition, broker_id) in directories
        return _without_broker(partition, broker_id) if is_there else None

    changes = PartitionChanges(image, defaults, leaving=(broker_id,))
    return list(islice(changes.made(wanted), most))
