"""Runs the machine of groups: decide, append to `__consumer_offsets`, adopt, and only then answer.

Whether the records reach the disk shows when the round is written out; the server lets no answer go
before that. Kafka's counterparts: `CoordinatorRuntime`, `GroupCoordinatorService`.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError, StorageError, UserError
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.broker.internal_topic import Appender, EncodedRecord, InternalTopic, StoredRecord
from ottla.broker.topics.topics import CONSUMER_OFFSETS, NewTopic
from ottla.broker.waiting import Waiting
from ottla.codec.compression import Compression
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.consumer.requests import (
    GroupConfigLookup,
)
from ottla.coordinator.decision import Answer, Decision
from ottla.coordinator.offsets.committed_offsets import NO_OFFSET
from ottla.coordinator.offsets.records import decode_key, decode_value, encode_key, encode_value
from ottla.coordinator.shard import GroupCoordinatorShard

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=Answer)

REFUSALS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.INVALID_REPLICATION_FACTOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Errors for members when the log takes no records.

Kafka's counterpart: `CoordinatorOperationExceptionHelper`.
"""

TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class GroupCoordinator:
    """The groups of this broker. What comes later comes through `take_answered`.

    Handlers have the `loaded` machine decide, and this carries the decision out.
    """

    def __init__(
        self,
        broker: Appender,
        config: GroupCoordinatorConfig,
        new_id: Callable[[], Uuid],
        group_configs: GroupConfigLookup,
    ) -> None:
        self._topic = InternalTopic(
            broker, offsets_topic(config), Compression(config.offsets_topic_compression_codec)
        )
        self.machine = GroupCoordinatorShard(
            config, broker.topics, new_id, group_configs, self._topic.is_unread
        )
        self._on_event = broker.on_event
        self._answered: list[Waiting[Any]] = []
        self._gone_topics: set[str] = set()
        self._is_loaded = False

    def prepare(self, before_making: Callable[[], None]) -> None:
        """Has `__consumer_offsets` made, in turns, for a request that may be the first to write
        to it; `before_making` is called unless it is there."""
        self._topic.prepare(before_making)

    def loaded(self, at: Timestamps) -> GroupCoordinatorShard:
        """The machine, for whom the log is replayed first, once. Raises `UserError`."""
        if not self._is_loaded:
            self._load(at)
        # Before new offsets of a topic that was created again, which would go with the old ones.
        self._forget_gone_topics(at)
        return self.machine

    def _load(self, at: Timestamps) -> None:
        try:
            for record in self._topic.read_all():
                self._replay_stored(record)
        except StorageError as error:
            raise UserError(
                f"cannot read what groups have committed: {error}; restore {CONSUMER_OFFSETS}, "
                "or move it away and have consumers begin again"
            ) from error
        self.machine.loaded(at)
        self._is_loaded = True

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that keeps what a group commits."""
        return self._topic.partition_of(group_id)

    def is_available(self, group_id: str) -> bool:
        """Whether the group's partition is online: if not, nobody knows what it has committed.

        The same holds of one whose records could not be read.
        """
        return self._topic.is_online(group_id) and not self._topic.is_unread(group_id)

    def _replay_stored(self, record: StoredRecord) -> None:
        try:
            key = decode_key(record.key)
            value = None if key is None else decode_value(key, record.value)
        except ProtocolError as error:
            logger.error("%s, offset %d: %s", CONSUMER_OFFSETS, record.offset, error)
            return
        if key is not None:
            self.machine.replay(key, value, record.offset, producer_id=record.producer_id)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of a producer's transaction is in the offsets topic."""
        if self._is_loaded:
            self.machine.offsets.end_transaction(producer_id, is_commit=is_commit)

    def topic_deleted(self, name: str) -> None:
        """Offsets in a topic that is gone are forgotten before the next request about groups."""
        self._gone_topics.add(name)

    def _forget_gone_topics(self, at: Timestamps) -> None:
        if self._gone_topics:
            for decision in self.machine.forget_topics(self._gone_topics, at):
                self._run(decision, at)
            self._gone_topics.clear()

    # Time

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` will have something to do, on the monotonic clock."""
        return self.machine.next_deadline_ms

    def advance(self, at: Timestamps) -> None:
        """Does what is due; groups that nobody has asked for since the start can wait."""
        if not self._is_loaded:
            return
        self._forget_gone_topics(at)
        while (due := self.machine.advance(at)) is not None:
            self._run(due, at)

    @property
    def has_answers(self) -> bool:
        return bool(self._answered)

    def take_answered(self) -> list[Waiting[Any]]:
        """The waiting requests that now have their `result`."""
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
        """As `carry_out`; without an answer the `waiting` that was the decision's pending id."""
        answer = self._run(decision, at)
        return waiting if answer is None else answer

    def _run(self, decision: Decision[AnswerT], at: Timestamps) -> AnswerT | None:
        first_offset, producer_id = NO_OFFSET, None
        if decision.records:
            try:
                first_offset = self._append(decision, at)
                producer_id = decision.producer and decision.producer[0]
            except ApiError as error:
                logger.error("group %s: cannot write: %s", decision.key, error)
                too_large = decision.too_large if error.code in TOO_LARGE else None
                code = too_large or REFUSALS.get(error.code) or ErrorCode.UNKNOWN_SERVER_ERROR
                decision = self.machine.refused(decision, code, at)
        self.machine.adopt(decision, first_offset, producer_id=producer_id)
        for event in decision.events:
            self._on_event(event)
        for reply in decision.replies:
            assert isinstance(reply.pending_id, Waiting)
            reply.pending_id.result = reply.answer
            self._answered.append(reply.pending_id)
        return decision.answer

    def _append(self, decision: Decision[Any], at: Timestamps) -> int:
        encoded = [
            EncodedRecord(
                encode_key(record.key),
                None if record.value is None else encode_value(record.value),
            )
            for record in decision.records
        ]
        return self._topic.append(
            decision.key, encoded, now_ms=at.now_ms, producer=decision.producer
        )


def offsets_topic(config: GroupCoordinatorConfig) -> NewTopic:
    """`__consumer_offsets` as Kafka makes it (`GroupCoordinator.groupMetadataTopicConfigs`)."""
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
