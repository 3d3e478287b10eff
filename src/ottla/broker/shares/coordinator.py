"""Runs the machines of share coordinators: decide, append to `__share_group_state`, replay, answer.

Each partition of the topic that this broker leads has a machine, which is loaded in slices; a
broker alone loads one when it is first asked for. The topic is not compacted: from time to time
states that did not change are written again, and what is before the oldest that is needed is
deleted (`pruning`). Kafka's counterpart: `ShareCoordinatorService`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError, StorageError
from ottla.base.partitions import SHARE_GROUP_STATE, TopicPartition
from ottla.base.timers import AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import PART_SIZE, in_turns
from ottla.broker.coordination.internal_topic import (
    CoordinatorBroker,
    EncodedRecord,
    InternalTopic,
)
from ottla.broker.coordination.losses import SHARE_GROUPS
from ottla.broker.coordination.runtime import REFUSALS, CoordinatorRuntime
from ottla.broker.coordination.shards import Shard, Shards
from ottla.broker.membership.state_requests import (
    DeleteState,
    InitializeState,
    ReadState,
    StateRequest,
    SummarizeState,
    WriteState,
)
from ottla.broker.shares.pruning import Pruning
from ottla.broker.shares.states import Gathering
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.compression import Compression
from ottla.config.share_coordinator import ShareStateConfig
from ottla.coordinator.decision import Decision
from ottla.coordinator.share.coordinator import (
    ShareCoordinatorConfig,
    ShareCoordinatorShard,
    ShareStateAnswer,
)
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.coordinator.share.records import decode_key, decode_value, encode_key, encode_value
from ottla.metadata.deciding.topic_rules import FIXED_SETTINGS
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

Deliver = Callable[[ShareStateAnswer], None]


class TopicMembership(Protocol):
    def create_topics(self, names: Sequence[str]) -> None:
        """Asks the controller to create topics."""


class ShareBroker(CoordinatorBroker, Protocol):
    """The parts of the broker that the coordinator needs."""

    @property
    def membership(self) -> TopicMembership: ...


class ShareCoordinator(CoordinatorRuntime[ShareCoordinatorShard]):
    """The states of share groups whose partition of the topic this broker leads."""

    def __init__(
        self,
        broker: ShareBroker,
        config: ShareStateConfig,
        timers: AllTimers,
        queue_answer: Callable[[Waiting[Any]], None],
    ) -> None:
        compression = Compression(config.share_coordinator_state_topic_compression_codec)
        topic = InternalTopic(broker, share_state_topic(config), compression, SHARE_GROUPS)
        super().__init__(topic, config.share_coordinator_write_timeout_ms, queue_answer)
        self._broker = broker
        self._topics = broker.replicas.topics
        self._is_being_made = False
        its_config = ShareCoordinatorConfig(
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_cold_partition_snapshot_interval_ms,
        )

        def new_machine(_: Timers[Any]) -> ShareCoordinatorShard:
            return ShareCoordinatorShard(its_config, self._exists)

        self.shards: Shards[ShareCoordinatorShard] = broker.replicas.partition_shards(
            timers, new_machine, self
        )
        self._pruning = Pruning(
            self, config.share_coordinator_state_topic_prune_interval_ms, timers
        )
        self.on_ready: Callable[[], None] = _pass
        """Called when more can be asked: states are loaded, or the topic was created."""

    def _exists(self, key: SharePartitionKey) -> bool:
        name = self._topics.name_by_id(key.topic_id)
        return name is not None and self._topics.has_partition(TopicPartition(name, key.partition))

    @property
    def is_created(self) -> bool:
        """Whether the topic exists, as far as this broker knows."""
        return self._topics.find(SHARE_GROUP_STATE) is not None

    def make_topic(self) -> None:
        """Has the topic created, in turns; in a cluster by the controller."""
        if not self._is_being_made:
            self._is_being_made = True
            self._broker.budget.run_in_turns(self._make_topic)

    def _make_topic(self) -> None:
        try:
            self._topic.make()
        except ApiError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._broker.membership.create_topics([SHARE_GROUP_STATE])
            else:
                logger.error("cannot create %s: %s", SHARE_GROUP_STATE, error)
        else:
            self.on_ready()
        finally:
            self._is_being_made = False

    # Loading and unloading

    def _read_in_steps(self, shard: Shard[ShareCoordinatorShard]) -> Iterator[None]:
        return self._topic.replay_in_steps(shard.index, partial(_replay, shard.machine))

    def _shard_loaded(self, shard: Shard[ShareCoordinatorShard]) -> None:
        self._pruning.begin(self._now())
        self.on_ready()

    def unload_in_steps(self, shard: Shard[ShareCoordinatorShard]) -> Iterator[None]:
        states = shard.machine.states
        while states:
            for _ in range(min(PART_SIZE, len(states))):
                states.popitem()
            yield

    def is_unread(self, place: str) -> bool:
        shard = self.shards.find(self.partition_of(place))
        return shard is not None and shard.has_failed

    def is_available(self, place: str) -> bool:
        return self._topic.is_online(place) and not self.is_unread(place)

    # Requests

    def carry_out(self, request: StateRequest, deliver: Deliver, at: Timestamps) -> None:
        """Calls `deliver` with the answer once what it depends on is committed; at once if it is.

        The errors COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR may
        pass.
        """
        self._at = at
        place = request.key.coordinator_key
        if self._is_being_made:  # in turns: not all of its partitions are on the disk yet
            deliver(ShareStateAnswer(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        if not self.is_created:
            deliver(ShareStateAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        shard = self.shards.serving(place)
        if shard is None:
            deliver(ShareStateAnswer(error=self.shards.refusal(place)))
            return
        answer = self._run(_decide(shard.machine, request, at), shard, at)

        def committed(error: ErrorCode) -> None:
            deliver(answer.refused(REFUSALS.get(error, error)) if error else answer)

        shard.defer(committed, at.monotonic_ms + self._commit_timeout_ms)

    def answer_all(
        self, requests: Sequence[StateRequest], at: Timestamps
    ) -> list[ShareStateAnswer] | Waiting[list[ShareStateAnswer]]:
        """Carries out requests of another broker, in turns; returns their answers in order, or what
        waits for them.
        """
        waiting: Waiting[list[ShareStateAnswer]] = Waiting()
        begun: list[bool] = []

        def take(answers: list[ShareStateAnswer]) -> None:
            waiting.result = answers
            if begun:
                self._queue_answer(waiting)

        gathering = Gathering(len(requests), take)
        for number, request in enumerate(in_turns(requests)):
            self.carry_out(request, partial(gathering.answer, number), at)
        begun.append(True)
        return waiting if waiting.result is None else waiting.result

    def _run(
        self,
        decision: Decision[ShareStateAnswer],
        shard: Shard[ShareCoordinatorShard],
        at: Timestamps,
    ) -> ShareStateAnswer:
        assert decision.answer is not None
        if not decision.records:
            return decision.answer
        encoded = [
            EncodedRecord(
                encode_key(one.key), None if one.value is None else encode_value(one.value)
            )
            for one in decision.records
        ]
        try:
            first_offset = self._topic.append(decision.key, encoded, now_ms=at.now_ms)
        except ApiError as error:
            return decision.answer.refused(REFUSALS.get(error.code, error.code))
        shard.appended_end = first_offset + len(encoded)
        for offset, record in enumerate(decision.records, first_offset):
            shard.machine.replay(record.key, record.value, offset)
        return decision.answer

    # Time

    def advance(self, at: Timestamps) -> None:
        """Goes on loading, unloading and pruning, and times waits out."""
        self._at = at
        self.shards.advance(at.monotonic_ms)
        with suppress(StorageError):  # logged where the directory went offline
            self._pruning.advance(at, self._broker.budget.is_spent)

    def write_again(
        self, decision: Decision[ShareStateAnswer], shard: Shard[ShareCoordinatorShard]
    ) -> bool:
        return not self._run(decision, shard, self._now()).error

    def log_of(self, shard: Shard[ShareCoordinatorShard]) -> PartitionLog:
        return self._topic.partition(shard.index).log


def _decide(
    machine: ShareCoordinatorShard, request: StateRequest, at: Timestamps
) -> Decision[ShareStateAnswer]:
    match request:
        case InitializeState():
            return machine.initialize(request.key, request.state_epoch, request.start_offset, at)
        case ReadState():
            return machine.read(request.key, request.leader_epoch, at)
        case WriteState():
            return machine.write(request.key, request.change, at)
        case DeleteState():
            return machine.delete(request.key, at)
        case SummarizeState():
            return Decision(request.key.coordinator_key, answer=machine.summary(request.key))


def _replay(
    machine: ShareCoordinatorShard, key_bytes: bytes, value_bytes: bytes | None, offset: int
) -> None:
    try:
        key = decode_key(key_bytes)
        if key is None:
            return
        value = None if value_bytes is None else decode_value(key, value_bytes)
    except ProtocolError as error:
        logger.error("%s, offset %d: %s", SHARE_GROUP_STATE, offset, error)
        return
    machine.replay(key, value, offset)


def _pass() -> None:
    """What is done at first when states are loaded."""


def share_state_topic(config: ShareStateConfig) -> NewTopic:
    """`__share_group_state` with Kafka's settings (`shareGroupStateTopicConfigs`)."""
    return NewTopic(
        name=SHARE_GROUP_STATE,
        partition_count=config.share_coordinator_state_topic_num_partitions,
        replication_factor=config.share_coordinator_state_topic_replication_factor,
        overrides={
            **FIXED_SETTINGS[SHARE_GROUP_STATE],
            "compression.type": "producer",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        },
    )
