"""Runs the machine of groups: decide, append to `__consumer_offsets`, adopt, and only then respond.

The records reach the disk when the round is written; the server sends no response before that.
Kafka's counterparts: `CoordinatorRuntime`, `GroupCoordinatorService`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.ids import Uuid
from ottla.base.partitions import CONSUMER_OFFSETS
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import (
    CURRENT,
    TurnsNeededError,
    at_once,
    in_a_turn,
    kept,
    large_in_turns,
    let_others,
    yield_turn,
)
from ottla.broker.coordination.internal_topic import (
    CoordinatorBroker,
    EncodedRecord,
    InternalTopic,
)
from ottla.broker.coordination.losses import GROUPS
from ottla.broker.coordination.runtime import REFUSALS, CoordinatorRuntime
from ottla.broker.coordination.shards import Shard
from ottla.broker.coordination.stored_records import StoredRecord
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.compression import Compression
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.catalog import GroupConfigLookup, TopicCatalog
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.rebalance import waiting
from ottla.coordinator.deadlines import TimerKey
from ottla.coordinator.decision import Answer, Decision, Reply
from ottla.coordinator.offsets.committed_offsets import NO_OFFSET
from ottla.coordinator.offsets.records import decode_key, decode_value, encode_key, encode_value
from ottla.coordinator.shard import GroupCoordinatorShard
from ottla.metadata.deciding.topics import NewTopic

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=Answer)


TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class GroupCoordinator(CoordinatorRuntime[GroupCoordinatorShard]):
    """The groups of this broker. `take_answered` returns delayed responses.

    Handlers call `machine_of` for a decision, and this class carries the decision out.
    """

    def __init__(
        self,
        broker: CoordinatorBroker,
        config: GroupCoordinatorConfig,
        new_id: Callable[[], Uuid],
        group_configs: GroupConfigLookup,
        timers: AllTimers,
    ) -> None:
        compression = Compression(config.offsets_topic_compression_codec)
        topic = InternalTopic(broker, offsets_topic(config), compression, GROUPS)
        super().__init__(topic, config.offsets_commit_timeout_ms, self.queue_answer)
        catalog: TopicCatalog = broker.replicas.topics

        def new_machine(its_timers: Timers[Any]) -> GroupCoordinatorShard:
            """It refuses the groups that are not served here."""
            return GroupCoordinatorShard(
                config,
                catalog,
                new_id,
                group_configs,
                its_timers,
                lambda group_id: self.shards.refusal(group_id),
            )

        self.shards = broker.replicas.shards(timers, new_machine, self)
        self._elsewhere = new_machine(timers.new_room())
        """The machine of groups that other brokers serve: it refuses everything."""
        self._on_event = broker.on_event
        self._answered: list[Waiting[Any]] = []
        self._budget = broker.budget
        self._catalog = catalog
        self._gone_topics: set[str] = set()
        self._gone_names: set[str] = set()
        """The topics whose offsets `_forgetting` removes."""
        self._forgetting: Iterator[Decision[Answer] | None] | None = None
        self._awaited: Shard[GroupCoordinatorShard] | None = None
        """The shard whose loading that waits for."""
        self._gone_timer: Timers[str] = timers.new_room()
        self._changing: dict[str, GroupCoordinatorShard] = {}
        """The groups that are changed in turns, and the machine that decides about each."""
        self._awaiting: dict[str, list[Waiting[bool]]] = {}
        """Requests that came meanwhile."""
        self._due_soon: set[str] = set()
        """The groups of which a deadline is to be handled in turns."""

    @property
    def latest(self) -> Timestamps:
        """The time at which this was last asked something, for what happens without a request."""
        return self._now()

    def machine_of(self, group_id: str, at: Timestamps) -> GroupCoordinatorShard:
        """Returns the machine of a group; if another broker leads the group, one that refuses.

        Raises `UserError` as `load`.
        """
        self.load(at)
        if self._gone_topics or self._forgetting is not None:
            self._forget_returned(at)
        shard = self.shards.serving(group_id)
        return self._elsewhere if shard is None else shard.machine

    def machines(self, at: Timestamps) -> list[GroupCoordinatorShard]:
        self.load(at)
        if self._gone_topics or self._forgetting is not None:
            self._forget_returned(at)
        return self.known

    def load_all(self, shard: Shard[GroupCoordinatorShard]) -> None:
        machine = shard.machine
        with at_once():
            self._replay_all(machine, "what groups have committed", "have consumers begin again")
            machine.loaded(self._now())

    def unload_in_steps(self, shard: Shard[GroupCoordinatorShard]) -> Iterator[None]:
        for replies in shard.machine.give_up(ErrorCode.NOT_COORDINATOR):
            self._answer(replies)
            yield

    def _replay_stored(self, record: StoredRecord, machine: GroupCoordinatorShard) -> None:
        try:
            key = decode_key(record.key)
            value = None if key is None else decode_value(key, record.value)
        except ProtocolError as error:
            logger.error("%s, offset %d: %s", CONSUMER_OFFSETS, record.offset, error)
            return
        if key is not None:
            machine.replay(key, value, record.offset, producer_id=record.producer_id)

    def check_marker(self, index: int) -> None:
        """Raises `ApiError` while a partition of the offsets topic must not take markers: the
        machine that is being loaded from it would miss them.
        """
        if not self.shards.takes_markers(index):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def end_transaction(self, index: int, producer_id: int, *, is_commit: bool) -> None:
        """Applies the marker of a producer's transaction in a partition of the offsets topic."""
        shard = self.shards.find(index)
        if shard is not None:
            shard.machine.offsets.end_transaction(producer_id, is_commit=is_commit)
            shard.appended_end = self._topic.partition(index).log.log_end_offset

    # Deletions, in short steps

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Has the offsets of deleted topics removed: by `forget_some`, which `advance` calls too,
        and before a group is asked for when there is a topic of that name again.
        """
        self._gone_topics.update(names)
        self._gone_timer.set(NEXT, 0.0)

    def forget_some(self, at: Timestamps) -> bool:
        """Removes a few offsets of deleted topics; returns whether there are more to look at."""
        self._at = at
        if self._awaited is not None and self._awaited.is_loading:
            return False
        if self._forgetting is None:
            if not self._gone_topics:
                return False
            self._gone_names, self._gone_topics = self._gone_topics, set()
            self._forgetting = self._forget_in_steps(self._gone_names)
        for decision in self._forgetting:
            if decision is not None:
                self._run(decision, self._at)
            return True
        self._forgetting = None
        self._gone_names = set()
        if not self._gone_topics:
            self._gone_timer.cancel(NEXT)
        return bool(self._gone_topics)

    def _forget_in_steps(self, gone: set[str]) -> Iterator[Decision[Answer] | None]:
        self.shards.load()
        for shard in list(self.shards):
            if shard.is_loading:  # it may have read them already
                self._awaited = shard
                yield None
                self._awaited = None
            if self.shards.find(shard.index) is shard and not shard.refusal:
                yield from shard.machine.forget_topics(gone, self._now)

    def _forget_returned(self, at: Timestamps) -> None:
        """Offsets of a topic's former incarnation must go before new ones are committed."""
        names = self._gone_names | self._gone_topics
        is_at_once = not self._budget.is_limited
        while is_at_once or any(self._catalog.find(one) for one in names):
            if not self.forget_some(at):
                break
            yield_turn()

    def delete_group(self, group_id: str, at: Timestamps) -> ErrorCode:
        """Deletes a group without members, with its offsets, in turns."""
        with self.changing(group_id, at) as machine:
            machine.being_deleted.add(group_id)
            try:
                while True:
                    decision = machine.delete_group(group_id, at)
                    error = self.carry_out(decision, at).error
                    if error or group_id not in machine.offsets:
                        return error
                    yield_turn()
            finally:
                machine.being_deleted.discard(group_id)

    # Time

    def advance(self, at: Timestamps) -> None:
        """Runs what is due; groups stay unloaded until one is used or a topic is deleted."""
        self._at = at
        self.shards.advance(at.monotonic_ms)
        is_spent = self._budget.is_spent
        while self.forget_some(at) and not is_spent():
            pass
        for machine in self.known:
            while (key := machine.first_due(at)) is not None and not self._is_changing(key):
                self._come_due(machine, key, at)
                if is_spent():
                    break

    def _is_changing(self, key: TimerKey) -> bool:
        """Whether a deadline waits until an operation in turns is over. All later ones wait too."""
        is_soon = key.group_id in self._due_soon and self._budget.is_limited
        return is_soon or key.group_id in self._changing

    def _come_due(self, machine: GroupCoordinatorShard, key: TimerKey, at: Timestamps) -> None:
        try:
            decision = machine.come_due(key, at, self._budget.ask_for_turns)
        except TurnsNeededError:
            self._due_soon.add(key.group_id)
            self._budget.run_in_turns(partial(self._come_due_in_turns, machine, key))
        else:
            if decision is not None:
                self._run(decision, at)

    def _come_due_in_turns(self, machine: GroupCoordinatorShard, key: TimerKey) -> None:
        try:
            with self.changing(key.group_id, self._now()) as current:
                at = self._now()
                decision = machine.come_due(key, at) if current is machine else None
                if decision is not None:
                    self._run(decision, at)
        finally:
            self._due_soon.discard(key.group_id)

    # Changes in turns

    @contextmanager
    def changing(self, group_id: str, at: Timestamps) -> Iterator[GroupCoordinatorShard]:
        """As `machine_of`; lets nobody else change the group meanwhile: the operation may be
        suspended while it is decided and carried out.
        """
        machine = self.machine_of(group_id, at)
        if not in_a_turn():
            yield machine
            return
        while group_id in self._changing:
            let_others()
            machine = self.machine_of(group_id, at)
        self._changing[group_id] = machine
        machine.being_changed.add(group_id)
        try:
            with kept():
                yield machine
        finally:
            machine.being_changed.discard(group_id)
            del self._changing[group_id]
            for one in self._awaiting.pop(group_id, ()):
                one.result = True
                self._answered.append(one)

    def is_being_changed(self, group_id: str) -> bool:
        """Whether an operation on the group is suspended."""
        return group_id in self._changing

    def change_of(self, group_id: str) -> Waiting[bool] | None:
        """A wait until the group is not changed in turns any more; `None` if it is not."""
        if group_id not in self._changing:
            return None
        its_end: Waiting[bool] = Waiting()
        self._awaiting.setdefault(group_id, []).append(its_end)
        return its_end

    @property
    def has_answers(self) -> bool:
        return bool(self._answered)

    def queue_answer(self, waiting: Waiting[Any]) -> None:
        """Queues another component's response for `take_answered`."""
        self._answered.append(waiting)

    def take_answered(self) -> list[Waiting[Any]]:
        """Returns the waiting requests that now have a `result`."""
        answered, self._answered = self._answered, []
        return answered

    # Carrying out a decision

    def carry_out(self, decision: Decision[AnswerT], at: Timestamps) -> AnswerT:
        """Appends the records of a decision and adopts it; returns its answer."""
        answer = self._run(decision, at)
        assert answer is not None
        return answer

    def carry_out_or_wait(
        self, decision: Decision[AnswerT], waiting: Waiting[AnswerT], at: Timestamps
    ) -> AnswerT | Waiting[AnswerT]:
        """As `carry_out`; while the answer is pending returns `waiting`, the pending id."""
        answer = self._run(decision, at)
        return waiting if answer is None else answer

    def _run(self, decision: Decision[AnswerT], at: Timestamps) -> AnswerT | None:
        encoded = self._encode(decision)
        shard = self._shard_of(decision)
        if shard is None:
            return self._refuse_elsewhere(decision)
        machine = shard.machine
        first_offset, producer_id = NO_OFFSET, None
        if decision.records:
            try:
                first_offset = self._topic.append(
                    decision.key, encoded, now_ms=at.now_ms, producer=decision.producer
                )
                producer_id = decision.producer and decision.producer[0]
                shard.appended_end = first_offset + len(decision.records)
            except ApiError as error:
                too_large = decision.too_large if error.code in TOO_LARGE else None
                code = too_large or REFUSALS.get(error.code, error.code)
                decision = machine.refused(decision, code, at)
        machine.adopt(decision, first_offset, producer_id=producer_id)
        for event in large_in_turns(decision.events):
            self._on_event(event)
        if self._shard_of(decision) is not shard:
            return self._refuse_elsewhere(decision)
        if decision.replies:
            self._answer_when_committed(decision.replies, shard, at)
        return decision.answer

    def _shard_of(self, decision: Decision[Any]) -> Shard[GroupCoordinatorShard] | None:
        """The shard that is to carry out a decision; `None` if it is not, or no longer, here."""
        shard = self.shards.serving(decision.key)
        decided_by = self._changing.get(decision.key)
        if shard is None or (decided_by is not None and decided_by is not shard.machine):
            return None
        return shard

    def _refuse_elsewhere(self, decision: Decision[AnswerT]) -> AnswerT | None:
        """Refuses a decision on a group whose partition this broker does not lead, or no longer
        serves: leadership may have moved while the decision was made in turns.
        """
        code = self.shards.refusal(decision.key) or ErrorCode.NOT_COORDINATOR
        group = decision.group
        left = waiting(group).items() if isinstance(group, ClassicGroup) else ()
        for pending_id, answer in (*decision.replies, *left):
            self._answer([Reply(pending_id, answer.refused(code))])
        if decision.answer is None:
            return None
        return decision.answer if not decision.records else decision.answer.refused(code)

    def _answer(self, replies: Iterable[Reply]) -> None:
        for reply in replies:
            assert isinstance(reply.pending_id, Waiting)
            if reply.pending_id.result is None:  # else the shard was given up meanwhile
                reply.pending_id.result = reply.answer
                self._answered.append(reply.pending_id)

    def _answer_when_committed(
        self, replies: Sequence[Reply], shard: Shard[GroupCoordinatorShard], at: Timestamps
    ) -> None:
        def deliver(error: ErrorCode) -> None:
            code = REFUSALS.get(error, error)
            self._answer(
                [Reply(one.pending_id, one.answer.refused(code)) for one in replies]
                if code
                else replies
            )

        shard.defer(deliver, at.monotonic_ms + self._commit_timeout_ms)

    def _encode(self, decision: Decision[Any]) -> list[EncodedRecord]:
        turn = CURRENT.get() if decision.key in self._changing else None
        return [
            EncodedRecord(
                encode_key(record.key),
                None if record.value is None else encode_value(record.value, turn),
            )
            for record in decision.records
        ]


def offsets_topic(config: GroupCoordinatorConfig) -> NewTopic:
    """`__consumer_offsets` with Kafka's settings (`GroupCoordinator.groupMetadataTopicConfigs`)."""
    return NewTopic(
        name=CONSUMER_OFFSETS,
        partition_count=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        overrides={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )
