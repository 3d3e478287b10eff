"""Runs the machine of groups: decide, append to `__consumer_offsets`, adopt, and only then answer.

Whether the records reach the disk shows when the round is written out; the server lets no answer go
before that. Kafka's counterparts: `CoordinatorRuntime`, `GroupCoordinatorService`.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError, StorageError, UserError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.internal_topic import Appender, EncodedRecord, InternalTopic, StoredRecord
from ottla.broker.topics.topics import CONSUMER_OFFSETS, NewTopic
from ottla.broker.waiting import Waiting
from ottla.codec.compression import Compression
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.requests import (
    GroupDescription,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    SyncAnswer,
    SyncRequest,
)
from ottla.coordinator.consumer.requests import (
    ConsumerGroupDescription,
    GroupConfigLookup,
    HeartbeatAnswer,
    HeartbeatRequest,
)
from ottla.coordinator.decision import Answer, Decision
from ottla.coordinator.offsets.commits import CommitRequest, PartitionErrors
from ottla.coordinator.offsets.committed_offsets import NO_OFFSET, FetchedOffset
from ottla.coordinator.offsets.records import decode_key, decode_value, encode_key, encode_value
from ottla.coordinator.requests import Acknowledgement, GroupListing, MemberClaim
from ottla.coordinator.shard import GroupCoordinatorShard

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=Answer)

REFUSALS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.INVALID_REPLICATION_FACTOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""What members are told when the log takes no records.

Kafka's counterpart: `CoordinatorOperationExceptionHelper`.
"""

TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


@dataclass(frozen=True, slots=True)
class _Writing:
    """What to answer when records are too large, and in whose transaction they are."""

    too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    producer: tuple[int, int] | None = None


class GroupCoordinator:
    """The groups of this broker. What comes later comes through `take_answered`."""

    def __init__(
        self,
        broker: Appender,
        config: GroupCoordinatorConfig,
        new_id: Callable[[], Uuid],
        group_configs: GroupConfigLookup,
    ) -> None:
        self.machine = GroupCoordinatorShard(config, broker.topics, new_id, group_configs)
        self._topic = InternalTopic(
            broker, offsets_topic(config), Compression(config.offsets_topic_compression_codec)
        )
        self._answered: list[Waiting[Any]] = []
        self._gone_topics: set[str] = set()
        self._is_loaded = False

    def load(self, at: Timestamps) -> None:
        """Replays the log, once; the first request does so by itself. Raises `UserError`."""
        if self._is_loaded:
            return
        try:
            for record in self._topic.read_all():
                self._replay_stored(record)
        except StorageError as error:
            raise UserError(
                f"cannot read what groups have committed: {error}; restore {CONSUMER_OFFSETS}, "
                "or move it away and have consumers begin anew"
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
        return self._topic.is_online(group_id) and self._topic.was_read(group_id)

    def refusal(self, group_id: str) -> ErrorCode:
        """What to answer whoever asks for a group of which nothing is known, or NONE.

        Its partition could not be read at the start, and to make up a group would lose what it has
        committed. Clients then look for the coordinator, and again until there is one. Kafka's
        counterpart: a `CoordinatorContext` that has failed to load.
        """
        if not self._topic.unread or self._topic.was_read(group_id):
            return ErrorCode.NONE
        return ErrorCode.NOT_COORDINATOR

    def _replay_stored(self, record: StoredRecord) -> None:
        try:
            key = decode_key(record.key)
            value = None if key is None else decode_value(key, record.value)
        except ProtocolError as error:
            logger.error("%s, offset %d: %s", CONSUMER_OFFSETS, record.offset, error)
            return
        if key is not None:
            self.machine.replay(key, value, record.offset, producer_id=record.producer_id)

    # Members

    def join(self, request: JoinRequest, at: Timestamps) -> JoinAnswer | Waiting[JoinAnswer]:
        self.load(at)
        if refusal := self.refusal(request.group_id):
            return JoinAnswer(error=refusal, member_id=request.member_id)
        waiting: Waiting[JoinAnswer] = Waiting()
        answer = self._run(self.machine.join(request, waiting, at), at)
        return waiting if answer is None else answer

    def sync(self, request: SyncRequest, at: Timestamps) -> SyncAnswer | Waiting[SyncAnswer]:
        self.load(at)
        if refusal := self.refusal(request.claim.group_id):
            return SyncAnswer(error=refusal)
        waiting: Waiting[SyncAnswer] = Waiting()
        answer = self._run(self.machine.sync(request, waiting, at), at)
        return waiting if answer is None else answer

    def heartbeat(self, claim: MemberClaim, at: Timestamps) -> Acknowledgement:
        self.load(at)
        if refusal := self.refusal(claim.group_id):
            return Acknowledgement(error=refusal)
        return self._run_now(self.machine.heartbeat(claim, at), at)

    def leave(self, group_id: str, leaving: tuple[Leaving, ...], at: Timestamps) -> LeaveAnswer:
        self.load(at)
        if refusal := self.refusal(group_id):
            return LeaveAnswer(error=refusal)
        return self._run_now(self.machine.leave(group_id, leaving, at), at)

    def consumer_heartbeat(self, request: HeartbeatRequest, at: Timestamps) -> HeartbeatAnswer:
        self.load(at)
        if refusal := self.refusal(request.group_id):
            return HeartbeatAnswer(error=refusal)
        return self._run_now(self.machine.consumer_heartbeat(request, at), at)

    # Offsets

    def commit(self, request: CommitRequest, at: Timestamps) -> PartitionErrors:
        self.load(at)
        if refusal := self.refusal(request.claim.group_id):
            return PartitionErrors(
                error=refusal, partitions=dict.fromkeys(request.offsets, refusal)
            )
        decision = self.machine.commit(request, at)
        writing = _Writing(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, request.producer)
        return self._run_now(decision, at, writing)

    def fetch_offsets(
        self, claim: MemberClaim, wanted: Iterable[TopicPartition] | None, at: Timestamps
    ) -> dict[TopicPartition, FetchedOffset]:
        """What was committed for some partitions, or with `None` for all that the group has.

        Raises `ApiError` for somebody who is no member any more of a group of the new protocol, and
        for a group of which nothing is known (`refusal`).
        """
        self.load(at)
        if refusal := self.refusal(claim.group_id):
            raise ApiError(refusal)
        return self.machine.fetch_offsets(claim, wanted)

    def delete_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition], at: Timestamps
    ) -> PartitionErrors:
        self.load(at)
        if refusal := self.refusal(group_id):
            return PartitionErrors(error=refusal)
        return self._run_now(self.machine.delete_offsets(group_id, wanted, at), at)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of a producer's transaction is in the offsets topic."""
        if self._is_loaded:
            self.machine.offsets.end_transaction(producer_id, is_commit=is_commit)

    def topic_deleted(self, name: str) -> None:
        """Offsets in a topic that is gone are forgotten with the next `advance`."""
        self._gone_topics.add(name)

    # Groups

    def describe(self, group_id: str, at: Timestamps) -> GroupDescription | None:
        self.load(at)
        return self.machine.describe(group_id)

    def describe_consumer(self, group_id: str, at: Timestamps) -> ConsumerGroupDescription | None:
        self.load(at)
        return self.machine.describe_consumer(group_id)

    def list_groups(self, at: Timestamps) -> list[GroupListing]:
        self.load(at)
        return self.machine.list_groups()

    def delete_group(self, group_id: str, at: Timestamps) -> Acknowledgement:
        self.load(at)
        if refusal := self.refusal(group_id):
            return Acknowledgement(error=refusal)
        return self._run_now(self.machine.delete_group(group_id, at), at)

    # Time

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` will have something to do, on the monotonic clock."""
        return self.machine.next_deadline_ms

    def advance(self, at: Timestamps) -> None:
        """Does what is due; groups that nobody has asked for since the start can wait."""
        if not self._is_loaded:
            return
        if self._gone_topics:
            for decision in self.machine.forget_topics(self._gone_topics, at):
                self._run(decision, at)
            self._gone_topics.clear()
        while (due := self.machine.advance(at)) is not None:
            self._run(due, at)

    @property
    def has_answers(self) -> bool:
        return bool(self._answered)

    def take_answered(self) -> list[Waiting[Any]]:
        """Those who have waited and now have their `result`."""
        answered, self._answered = self._answered, []
        return answered

    # Running a decision

    def _run_now(
        self, decision: Decision[AnswerT], at: Timestamps, writing: _Writing | None = None
    ) -> AnswerT:
        answer = self._run(decision, at, writing)
        assert answer is not None
        return answer

    def _run(
        self, decision: Decision[AnswerT], at: Timestamps, writing: _Writing | None = None
    ) -> AnswerT | None:
        writing = writing or _Writing()
        first_offset, producer_id = NO_OFFSET, None
        if decision.records:
            try:
                first_offset = self._append(decision, at, writing.producer)
                producer_id = writing.producer and writing.producer[0]
            except ApiError as error:
                logger.error("group %s: cannot write: %s", decision.key, error)
                code = writing.too_large if error.code in TOO_LARGE else REFUSALS.get(error.code)
                refusal = code or ErrorCode.UNKNOWN_SERVER_ERROR
                decision = self.machine.refused(decision, refusal, at)
        self.machine.adopt(decision, first_offset, producer_id=producer_id)
        for reply in decision.replies:
            assert isinstance(reply.pending_id, Waiting)
            reply.pending_id.result = reply.answer
            self._answered.append(reply.pending_id)
        return decision.answer

    def _append(
        self, decision: Decision[Any], at: Timestamps, producer: tuple[int, int] | None
    ) -> int:
        encoded = [
            EncodedRecord(
                encode_key(record.key),
                None if record.value is None else encode_value(record.value),
            )
            for record in decision.records
        ]
        return self._topic.append(decision.key, encoded, now_ms=at.now_ms, producer=producer)


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
