"""The active controller's decisions about topics, their leaders and their replicas.

What they are is decided by `metadata/deciding`; here they become the outcomes of requests. Kafka's
counterpart: `ReplicationControlManager`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid, is_reserved
from ottla.base.partitions import TopicPartition
from ottla.base.turns import InParts
from ottla.broker.controlling.outcomes import ByPartition, CreatedTopic, Outcome, Reassignments
from ottla.broker.controlling.pending_records import PendingRecords
from ottla.broker.controlling.plans import FEW_AT_ONCE, MOST_AT_ONCE, decide_in_parts
from ottla.broker.controlling.staging import staged
from ottla.config.broker import BrokerConfig
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.assignments import ReplicaAssignment
from ottla.metadata.deciding.balancing import off_balance
from ottla.metadata.deciding.creation import (
    NewPartitions,
    create_topic,
    delete_topic,
    grow_topic,
)
from ottla.metadata.deciding.elections import (
    elect_leaders,
    to_elect_for,
    unclean_elections,
)
from ottla.metadata.deciding.isr import IsrAnswer, alter_partition
from ottla.metadata.deciding.partition_changes import TopicDefaults
from ottla.metadata.deciding.reassignments import alter_reassignments, list_reassignments, to_list
from ottla.metadata.deciding.replica_directories import PlacedReplica, assign_replicas_to_dirs
from ottla.metadata.deciding.topic_rules import new_topic_config
from ottla.metadata.deciding.topics import Defaults, NewTopic, TopicGrowth, check_total_count
from ottla.metadata.image import NO_TOPIC, MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.records import PartitionRecord

T = TypeVar("T")


def topic_defaults(config: BrokerConfig) -> TopicDefaults:
    """What topics have without a setting, by this node's properties."""
    defaults = config.topic_defaults
    return TopicDefaults(defaults.min_insync_replicas, defaults.unclean_leader_election_enable)


class _Known(NamedTuple):
    """What there is before a topic is created: an image, and what its request has created since."""

    image: MetadataImage
    ids: dict[Uuid, str]
    """All of them."""
    created: set[str]


class TopicDecisions:
    """`config` returns the settings of this node, `chance` a large random number."""

    def __init__(
        self,
        pending: PendingRecords,
        config: Callable[[], BrokerConfig],
        new_id: Callable[[], Uuid],
        chance: Callable[[], int],
    ) -> None:
        self._pending = pending
        self._config = config
        self._new_id = new_id
        self._chance = chance
        self._off_balance: Iterator[TopicPartition] | None = None
        """Those that are still to be led by their preferred replicas."""

    @property
    def _defaults(self) -> TopicDefaults:
        return topic_defaults(self._config())

    # Topics

    def create(
        self, wanted: Sequence[NewTopic], *, validate_only: bool
    ) -> InParts[Sequence[CreatedTopic | ApiError]]:
        """Each topic is a batch of its own. Those of a part are decided on by one image: thousands
        of images, each of as many topics, would take minutes.
        """
        try:
            check_total_count(sum(map(self._count_of, wanted)))
        except ApiError as error:
            return [error.without_traceback()] * len(wanted)
        made: list[CreatedTopic | ApiError] = []
        is_wanted = not validate_only
        known, count = self._known(), 0
        for new in wanted:
            if count >= MOST_AT_ONCE:
                yield
                known, count = self._known(), 0
            of_new = self._count_of(new)
            try:
                if of_new > MOST_AT_ONCE:
                    made.append((yield from self._created_in_parts(new, is_wanted=is_wanted)))
                else:
                    made.append(self._created(new, known, is_wanted=is_wanted))
            except ApiError as error:
                made.append(error.without_traceback())
            count += max(1, of_new)
        return made

    def _known(self) -> _Known:
        image = self._pending.image
        return _Known(image, {**image.topic_names}, set())

    def _count_of(self, new: NewTopic) -> int:
        if new.assignments:
            return len(new.assignments)
        count = new.partition_count
        return self._config().num_partitions if count == -1 else max(0, count)

    def _created(self, new: NewTopic, known: _Known, *, is_wanted: bool) -> CreatedTopic:
        decided = self._decided(new, known)
        partitions = [*decided.partitions]
        shown = self._shown(new, len(partitions), _factor_of(partitions))
        if not is_wanted:
            return shown
        self._pending.write([*decided.head, *partitions])
        known.ids[decided.topic_id] = new.name
        known.created.add(new.name)
        return shown._replace(topic_id=decided.topic_id)

    def _created_in_parts(self, new: NewTopic, *, is_wanted: bool) -> InParts[CreatedTopic]:
        def begin() -> NewPartitions:
            decided = self._decided(new, self._known())
            self._shown(new, 0, 0)  # refuses settings before thousands of partitions are decided on
            return decided

        made = yield from staged(lambda: self._pending.image, begin)
        shown = self._shown(new, len(made.partitions), len(made.partitions[0].replicas))
        if not is_wanted:
            return shown
        self._pending.write_staged(made)
        return shown._replace(topic_id=made.new.topic_id)

    def _decided(self, new: NewTopic, known: _Known) -> NewPartitions:
        config = self._config()
        defaults = Defaults(config.num_partitions, config.default_replication_factor)
        topic_id = self._id_for(new, known.ids)
        return create_topic(known.image, new, topic_id, defaults, self._chance, known.created)

    def _shown(self, new: NewTopic, count: int, factor: int) -> CreatedTopic:
        """Raises `ApiError` for settings that cannot be."""
        config = new_topic_config(new.name, self._config().topic_defaults, new.overrides)
        return CreatedTopic(ZERO_UUID, count, factor, config, new.settings)

    def _id_for(self, new: NewTopic, known: Mapping[Uuid, str]) -> Uuid:
        if new.topic_id is None:
            while (candidate := self._new_id()) in known or is_reserved(candidate):
                pass
            return candidate
        if new.topic_id in known:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Topic '{known[new.topic_id]}' has the id that '{new.name}' is to have.",
            )
        return new.topic_id

    def grow(
        self, wanted: Sequence[TopicGrowth], *, validate_only: bool
    ) -> InParts[Sequence[Outcome]]:
        outcomes: list[Outcome] = []
        for is_large, growths in groupby(wanted, self._is_large):
            grown = self._grown_in_parts if is_large else self._grown
            outcomes += yield from grown(growths, validate_only)
        return outcomes

    def _is_large(self, growth: TopicGrowth) -> bool:
        topic = self._pending.image.topics.get(growth.name, NO_TOPIC)
        return growth.partition_count - topic.partition_count > MOST_AT_ONCE

    def _grown(
        self, wanted: Iterable[TopicGrowth], validate_only: bool
    ) -> InParts[Sequence[Outcome]]:
        def decide(growth: TopicGrowth) -> list[VersionedRecord]:
            return grow_topic(self._pending.image, growth).records()

        return self._each(wanted, decide, validate_only)

    def _grown_in_parts(
        self, wanted: Iterable[TopicGrowth], validate_only: bool
    ) -> InParts[Sequence[Outcome]]:
        outcomes: list[Outcome] = []
        for one in wanted:
            yield
            begin = partial(lambda growth: grow_topic(self._pending.image, growth), one)
            try:
                made = yield from staged(lambda: self._pending.image, begin)
                if not validate_only:
                    self._pending.write_staged(made)
                outcomes.append(None)
            except ApiError as error:
                outcomes.append(error.without_traceback())
        return outcomes

    def delete(self, names: Sequence[str]) -> InParts[Sequence[Outcome]]:
        return self._each(names, lambda name: delete_topic(self._pending.image, name), False)

    def _each(
        self,
        wanted: Iterable[T],
        decide: Callable[[T], list[VersionedRecord]],
        validate_only: bool,
    ) -> InParts[Sequence[Outcome]]:
        """Decides on elements, each named once. The records of one are in one batch, with those of
        others if they are few.
        """
        outcomes: list[Outcome] = []
        records: list[VersionedRecord] = []
        count = 0
        for one in wanted:
            if count >= FEW_AT_ONCE or len(records) >= MOST_AT_ONCE:
                self._write_unless(validate_only, records)
                records, count = [], 0
                yield
            count += 1
            try:
                records += decide(one)
                outcomes.append(None)
            except ApiError as error:
                outcomes.append(error.without_traceback())
        self._write_unless(validate_only, records)
        return outcomes

    def _write_unless(self, validate_only: bool, records: list[VersionedRecord]) -> None:
        if not validate_only:
            self._pending.write(records)

    # Leaders and replicas

    def elect(
        self, partitions: Sequence[TopicPartition] | None, *, is_unclean: bool
    ) -> InParts[ByPartition]:
        outcomes: dict[TopicPartition, Outcome] = {}

        def decide(part: list[TopicPartition]) -> None:
            records, decided = elect_leaders(
                self._pending.image, part, self._defaults, is_unclean=is_unclean
            )
            self._pending.write(records)
            outcomes.update(decided)

        if partitions is None:
            yield from decide_in_parts(
                to_elect_for(self._pending.image, is_unclean=is_unclean), decide
            )
        else:
            yield from decide_in_parts(dict.fromkeys(partitions), decide)
        return ByPartition(None, outcomes)

    def reassign(
        self,
        wanted: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_count: bool,
    ) -> InParts[ByPartition]:
        outcomes: dict[TopicPartition, Outcome] = {}

        def decide(part: list[tuple[TopicPartition, tuple[int, ...] | None]]) -> None:
            records, decided = alter_reassignments(
                self._pending.image, dict(part), self._defaults, may_change_count=may_change_count
            )
            self._pending.write(records)
            outcomes.update(decided)

        yield from decide_in_parts(wanted.items(), decide)
        return ByPartition(None, outcomes)

    def reassignments(self, partitions: Sequence[TopicPartition] | None) -> InParts[Reassignments]:
        moves: dict[TopicPartition, ReplicaAssignment] = {}
        image = self._pending.image

        def look(part: list[TopicPartition]) -> None:
            moves.update(list_reassignments(image, part))

        asked = to_list(image) if partitions is None else partitions
        yield from decide_in_parts(asked, look)
        return Reassignments(None, moves)

    def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: Sequence[AlteredIsr]
    ) -> InParts[Sequence[IsrAnswer]]:
        """Raises `ApiError`."""
        answers: list[IsrAnswer] = []

        def decide(part: list[AlteredIsr]) -> None:
            image, defaults = self._pending.image, self._defaults
            records, decided = alter_partition(image, broker_id, broker_epoch, part, defaults)
            self._pending.write(records)
            answers.extend(decided)

        yield from decide_in_parts(changes, decide)
        return answers

    def assign_directories(
        self, broker_id: int, broker_epoch: int, placed: Sequence[PlacedReplica]
    ) -> InParts[Sequence[ErrorCode]]:
        """Raises `ApiError`."""
        codes: list[ErrorCode] = []

        def decide(part: list[PlacedReplica]) -> None:
            image, defaults = self._pending.image, self._defaults
            records, decided = assign_replicas_to_dirs(
                image, broker_id, broker_epoch, part, defaults
            )
            self._pending.write(records)
            codes.extend(decided)

        yield from decide_in_parts(placed, decide)
        return codes

    # From time to time

    def balance(self) -> bool:
        """Has preferred replicas lead; returns whether there may be more to do."""
        percentage = self._config().leader_imbalance_per_broker_percentage
        if self._off_balance is None:
            self._off_balance = iter(off_balance(self._pending.image, percentage))
        part = [*islice(self._off_balance, MOST_AT_ONCE)]
        records, _ = elect_leaders(self._pending.image, part, self._defaults, is_unclean=False)
        self._pending.write(records)
        if len(part) < MOST_AT_ONCE:
            self._off_balance = None
        return self._off_balance is not None

    def elect_uncleanly(self) -> bool:
        """Has any replica lead where nobody does, and settings allow it."""
        records = unclean_elections(self._pending.image, MOST_AT_ONCE, self._defaults)
        self._pending.write(records)
        return len(records) >= MOST_AT_ONCE


def _factor_of(partitions: Sequence[VersionedRecord]) -> int:
    record, _ = partitions[0]
    assert isinstance(record, PartitionRecord)
    return len(record.replicas)
