"""A broker of the simulated cluster: the machine of its replicas, and logs that it has on its disk.

A log is a list of records (leader epoch, value) with its leader epochs. What the machine wants is
carried out at once, and the world looks at each effect.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.metadata.log import NoMetadataLog
from ottla.broker.replication.effects import (
    AppendAsFollower,
    AssignEpoch,
    Effect,
    MoveHighWatermark,
    RaiseLogStart,
    Stopped,
    TruncateFullyAndStartAt,
    TruncateTo,
)
from ottla.broker.replication.fetches import (
    AskEpochEnd,
    AskOffsets,
    Fetch,
    FollowerRequest,
    LeaderAnswer,
)
from ottla.broker.replication.replica_log import EpochEnd
from ottla.broker.replication.replica_manager import (
    Applied,
    HostedPartition,
    ReplicaManager,
    ReplicaOptions,
    Sender,
)
from ottla.controller.events import AlteredAnswer
from ottla.controller.requests import LeaderAndIsr, Outgoing, StopReplica
from ottla.metadata.image import MetadataImage
from tests.support.leader_answers import epoch_ended, offsets

DIRECTORY_COUNT = 2
MIN_ISR = 2
LAG_MS = 400
PRODUCE_TIMEOUT_MS = 500
FETCH_RECORDS = 5

Record = tuple[int, str]


@dataclass(slots=True)
class ModelLog:
    """What `ReplicaLog` asks, of a log on a disk that survives the process."""

    records: list[Record] = field(default_factory=list)
    log_start_offset: int = 0
    recorded_high_watermark: int = 0
    epochs: list[EpochEnd] = field(default_factory=list)
    """Each with the offset at which it began."""
    min_insync_replicas: int = MIN_ISR
    has_tier: bool = False

    @property
    def local_start_offset(self) -> int:
        return self.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs[-1].epoch if self.epochs else None

    def end_offset_for(self, epoch: int) -> EpochEnd | None:
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, self.log_end_offset)
        at = bisect_right([one.epoch for one in self.epochs], epoch)
        if epoch < 0 or at == len(self.epochs):
            return None
        return EpochEnd(self.epochs[at - 1].epoch if at else epoch, self.epochs[at].end_offset)

    def record(self, offset: int) -> Record | None:
        at = offset - self.log_start_offset
        return self.records[at] if 0 <= at < len(self.records) else None

    def assign(self, epoch: int, start: int) -> None:
        if self.latest_epoch is None or epoch > self.latest_epoch:
            self.epochs = [one for one in self.epochs if one.end_offset < start]
            self.epochs.append(EpochEnd(epoch, start))

    def append(self, records: tuple[Record, ...]) -> None:
        for epoch, value in records:
            self.assign(epoch, self.log_end_offset)
            self.records.append((epoch, value))

    def truncate_to(self, offset: int) -> None:
        del self.records[max(offset - self.log_start_offset, 0) :]
        self.epochs = [one for one in self.epochs if one.end_offset < offset]
        self.recorded_high_watermark = min(self.recorded_high_watermark, offset)

    def start_at(self, offset: int) -> None:
        self.records, self.epochs, self.log_start_offset = [], [], offset
        self.recorded_high_watermark = offset

    def delete_before(self, offset: int) -> None:
        del self.records[: offset - self.log_start_offset]
        self.log_start_offset = offset
        before = [one for one in self.epochs if one.end_offset <= offset]
        after = [one for one in self.epochs if one.end_offset > offset]
        self.epochs = [EpochEnd(one.epoch, offset) for one in before[-1:]] + after


class ManagedReplicas:
    """What the world asks the machine of a broker's replicas."""

    manager: ReplicaManager

    @property
    def epoch(self) -> int:
        return self.manager.broker_epoch

    @property
    def controller(self) -> int:
        return self.manager.metadata.controller

    def hosted(self, partition: TopicPartition) -> HostedPartition | None:
        return self.manager.partitions.get(partition)

    def led(self) -> list[TopicPartition]:
        return [one for one in self.manager.partitions if self.manager.leading(one) is not None]


class ModelBroker(ManagedReplicas):
    """`logs` are on its disk; all else is gone when it restarts."""

    def __init__(
        self,
        broker_id: int,
        look_at: Callable[["ModelBroker", Effect], None],
        *,
        truncates_on_fetch: bool,
    ) -> None:
        self.id = broker_id
        self.logs: dict[TopicPartition, ModelLog] = {}
        self._directories: dict[TopicPartition, int] = {}
        self.options = ReplicaOptions(
            broker_id=broker_id, lag_time_max_ms=LAG_MS, truncates_on_fetch=truncates_on_fetch
        )
        self._look_at = look_at
        self.restart()

    def restart(self) -> None:
        """A directory that had failed is repaired, and holds what it held."""
        self.image_store = ImageStore(MetadataImage(), NoMetadataLog())
        self.manager = ReplicaManager(self.options, self, self.image_store)
        self._failed: set[int] = set()

    @property
    def storage_failures(self) -> int:
        return len(self._failed)

    @property
    def has_failed_directory(self) -> bool:
        return bool(self._failed)

    def fail_directory(self, chance: random.Random) -> bool:
        """Of two directories one at the most fails."""
        if self.has_failed_directory:
            return False
        failed = chance.randrange(DIRECTORY_COUNT)
        self._failed.add(failed)
        gone = [one for one in self.manager.partitions if self._directories[one] == failed]
        self._carry_out(self.manager.went_offline(gone))
        return True

    def open(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        settings: Mapping[str, str],
        *,
        is_new: bool,
    ) -> ModelLog:
        if partition not in self.logs:
            if self._failed and not is_new:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
            works = [one for one in range(DIRECTORY_COUNT) if one not in self._failed]
            self._directories[partition] = works[partition.partition % len(works)]
            self.logs[partition] = ModelLog()
        if self._directories[partition] in self._failed:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return self.logs[partition]

    def fence(self) -> None:
        self._carry_out(self.manager.fence())

    def apply(self, request: Outgoing, controller: int, now_ms: float) -> Applied:
        sender = Sender(
            controller=controller,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
        )
        applied = self.manager.apply(request.order, sender, now_ms)
        self._carry_out(list(applied.effects))
        return applied

    def follow(self, order: LeaderAndIsr | StopReplica, now_ms: float) -> Applied:
        """What the image in `image_store` says."""
        applied = self.manager.follow(order, now_ms)
        self._carry_out(list(applied.effects))
        return applied

    # Leading

    def produce(self, partition: TopicPartition, value: str, now_ms: float) -> ErrorCode:
        error = self.manager.error_before_append(partition, waits_for_all=True)
        leading = self.manager.leading(partition)
        if error is ErrorCode.NONE and leading is not None:
            log = self.logs[partition]
            log.append(((leading.leader_epoch, value),))
            end = log.log_end_offset
            deadline_ms = now_ms + PRODUCE_TIMEOUT_MS
            self.manager.wait(partition, (end - 1, value), end, deadline_ms)
            self._carry_out(self.manager.appended(partition, now_ms))
        return error

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        self.logs[partition].delete_before(offset)

    def serve(self, request: FollowerRequest, now_ms: float) -> LeaderAnswer:
        match request:
            case Fetch():
                answer, effects = self.manager.fetched(request, now_ms)
                if answer.error is ErrorCode.NONE and answer.diverging is None:
                    log = self.logs[request.partition]
                    at = request.fetch_offset - log.log_start_offset
                    answer = replace(answer, records=tuple(log.records[at : at + FETCH_RECORDS]))
                self._carry_out(effects)
                return answer
            case AskEpochEnd():
                return epoch_ended(self.manager, request)
            case AskOffsets():
                return offsets(self.manager, request)

    def tick(self, now_ms: float) -> None:
        self._carry_out(self.manager.tick(now_ms))

    def altered(self, attempt: int, answers: tuple[AlteredAnswer, ...], now_ms: float) -> None:
        self._carry_out(self.manager.altered(attempt, answers, now_ms))

    # Following

    def take(self, answer: LeaderAnswer) -> None:
        self._carry_out(self.manager.take(answer))

    def record_high_watermarks(self) -> None:
        for partition, hosted in self.manager.partitions.items():
            self.logs[partition].recorded_high_watermark = hosted.local.high_watermark

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._look_at(self, effect)
            log = self.logs.get(effect.partition)
            match effect:
                case Stopped(delete=delete):
                    if delete:
                        self.logs.pop(effect.partition, None)
                    continue
                case AssignEpoch() | TruncateTo() | TruncateFullyAndStartAt() | RaiseLogStart():
                    assert log is not None
            match effect:
                case AssignEpoch(leader_epoch=epoch, start_offset=offset):
                    log.assign(epoch, offset)
                case TruncateTo(offset=offset):
                    log.truncate_to(offset)
                case TruncateFullyAndStartAt(offset=offset):
                    log.start_at(offset)
                case RaiseLogStart(offset=offset):
                    log.delete_before(offset)
                case AppendAsFollower(fetched=fetched):
                    log.append(fetched.records)
                    self._carry_out(self.manager.appended_as_follower(fetched))
                case MoveHighWatermark():
                    assert effect.offset <= log.log_end_offset
                case _:
                    pass
