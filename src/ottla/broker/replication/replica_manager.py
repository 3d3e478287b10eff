"""All replicas of a broker: handles the controller's orders, and checks requests for stale epochs.

Kafka's counterparts: `ReplicaManager`, and the checks of `KafkaApis` for stale requests.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import field, replace

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.replication.alter_partitions import AlterPartitions, place_of
from ottla.broker.replication.effects import (
    AnswerDelayed,
    BecameFollower,
    BecameLeader,
    Effect,
    Stopped,
)
from ottla.broker.replication.fetches import (
    Fetch,
    Fetched,
    FollowerRequest,
    LeaderAnswer,
)
from ottla.broker.replication.following import Following, Phase
from ottla.broker.replication.leading import Leading
from ottla.broker.replication.local_replica import LocalReplica
from ottla.broker.replication.replica_log import ReplicaLogs
from ottla.controller.context import EPOCH_DURING_DELETE, NO_EPOCH
from ottla.controller.events import AlteredAnswer
from ottla.controller.requests import (
    LeaderAndIsr,
    Order,
    PartitionOrder,
    StopOrder,
    StopReplica,
    UpdateMetadata,
)
from ottla.metadata.image import HasImage, MetadataImage
from ottla.metadata.levels import NAMES_HIGH_WATERMARKS
from ottla.zookeeper.topics import NO_LEADER

NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """`truncates_on_fetch` if `inter.broker.protocol.version` is 2.7-IV1 or later.

    `starts_after_tier`: whether an empty follower begins with what is not in the tier yet
    (KIP-1023); asked each time, since it is a setting that may change.
    """

    broker_id: int
    lag_time_max_ms: float = 30_000
    truncates_on_fetch: bool = True
    starts_after_tier: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The controller that sent an order; `broker_epoch` is the receiving broker's epoch in it."""

    controller: int
    controller_epoch: int
    broker_epoch: int = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of an order; `error` refuses the order as a whole."""

    error: ErrorCode = ErrorCode.NONE
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()


@dataclass(slots=True, kw_only=True)
class HostedPartition:
    """A replica of this broker. `is_fenced` until the controller's next order for it."""

    local: LocalReplica
    leader: int = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = -1
    topic_id: Uuid | None = None
    is_fenced: bool = False
    role: Leading | Following | None = None

    def leave_role(self) -> list[Effect]:
        role, self.role, self.leader = self.role, None, NO_LEADER
        return role.end() if isinstance(role, Leading) else []


class ReplicaManager:
    def __init__(self, options: ReplicaOptions, logs: ReplicaLogs, known: HasImage) -> None:
        self.options = options
        self._known = known
        self.partitions: dict[TopicPartition, HostedPartition] = {}
        self.offline: set[TopicPartition] = set()
        """Replicas whose directory has failed since the start: `HostedPartition.Offline`."""
        self.given_up: set[TopicPartition] = set()
        """Those that are `offline` because of damage in their logs alone: they can be deleted."""
        self.alter_partitions = AlterPartitions()
        self.broker_epoch = NO_BROKER_EPOCH
        self.controller_epoch = 0
        self.isr_shrinks = self.isr_expands = 0
        """ISR changes of led partitions since the start."""
        self._logs = logs
        self._is_fenced = False

    @property
    def metadata(self) -> MetadataImage:
        """What the controller has said of brokers and partitions, among the rest of the image."""
        return self._known.image

    # The broker's session

    def registered(self, broker_epoch: int) -> None:
        self.broker_epoch, self._is_fenced = broker_epoch, False

    @property
    def is_fenced(self) -> bool:
        """Whether the session may have expired: nothing is led or followed until a new one."""
        return self._is_fenced

    def fence(self) -> list[Effect]:
        """Stops leading and following: the session may have expired, and another broker may lead.

        The leader epochs stay, and the controller's order for the same epoch will be accepted
        again.
        """
        self._is_fenced = True
        self.alter_partitions.clear()
        effects = []
        for partition, hosted in self.partitions.items():
            effects += hosted.leave_role()
            hosted.is_fenced = True
            effects.append(BecameFollower(partition, hosted.leader_epoch))
        return effects

    # Orders of the controller

    def refusal_of(self, sender: Sender) -> ErrorCode:
        """Returns the error for an order of a stale sender.

        A newer broker epoch is accepted: it is of a registration whose response has not arrived
        yet.
        """
        is_old_life = NO_BROKER_EPOCH < sender.broker_epoch < self.broker_epoch
        is_fenced_life = self._is_fenced and sender.broker_epoch <= self.broker_epoch
        if is_old_life or is_fenced_life:
            return ErrorCode.STALE_BROKER_EPOCH
        is_old = sender.controller_epoch < self.controller_epoch
        return ErrorCode.STALE_CONTROLLER_EPOCH if is_old else ErrorCode.NONE

    def apply(self, order: Order, sender: Sender, now_ms: float) -> Applied:
        """Carries out an order of a cluster with ZooKeeper. An order that is refused as a whole
        changes nothing.
        """
        if isinstance(order, UpdateMetadata):
            return self._update(order, sender)
        refusal = self.refusal_of(sender)
        if refusal is not ErrorCode.NONE:
            return Applied(error=refusal)
        self.controller_epoch = sender.controller_epoch
        self._known.image = replace(self.metadata, controller=sender.controller)
        return self.follow(order, now_ms)

    def follow(self, order: LeaderAndIsr | StopReplica, now_ms: float) -> Applied:
        """Carries out what the present image says, or a sender that was not refused."""
        effects: list[Effect] = []
        errors: dict[TopicPartition, ErrorCode] = {}
        match order:
            case LeaderAndIsr():
                for partition in order.orders:
                    errors[partition], its = self._take(partition, order, now_ms)
                    effects += its
            case StopReplica(orders=stops):
                for partition, stop in stops.items():
                    errors[partition], its = self._stop(partition, stop)
                    effects += its
        return Applied(errors=errors, effects=tuple(effects))

    def _update(self, update: UpdateMetadata, sender: Sender) -> Applied:
        """Applies an update in turns, and publishes it as a whole. If another order came in
        between, perhaps of a later controller, the update starts from the beginning.
        """
        while (refusal := self.refusal_of(sender)) is ErrorCode.NONE:
            before = self.metadata
            changes = ((place, one.new_image) for place, one in update.partitions.items())
            after = before.with_partitions(changes, update.topic_ids)
            is_same = self.metadata.topics is before.topics
            if is_same and self.refusal_of(sender) is ErrorCode.NONE:
                self.controller_epoch = sender.controller_epoch
                self._known.image = replace(
                    self.metadata,
                    topics=after.topics,
                    topic_names=after.topic_names,
                    revision=after.revision,
                    brokers=update.brokers,
                    controller=sender.controller,
                )
                break
        return Applied(error=refusal)

    def _take(
        self, partition: TopicPartition, orders: LeaderAndIsr, now_ms: float
    ) -> tuple[ErrorCode, list[Effect]]:
        if partition in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR, []
        order, topic_id = orders.orders[partition], orders.topic_ids.get(partition.topic)
        hosted, state = self.partitions.get(partition), order.state
        if state.leader_epoch < 0:  # none is below the one that every replica begins with
            return ErrorCode.STALE_CONTROLLER_EPOCH, []
        if hosted is not None:
            ids = (hosted.topic_id, topic_id)
            if None not in ids and ids[0] != ids[1]:
                return ErrorCode.INCONSISTENT_TOPIC_ID, []
            is_again = hosted.is_fenced and state.leader_epoch == hosted.leader_epoch
            if state.leader_epoch == hosted.leader_epoch and orders.is_committed and not is_again:
                return ErrorCode.NONE, self._update_state(hosted, order, now_ms)
            if state.leader_epoch <= hosted.leader_epoch and not is_again:
                # Kafka's code for a leader epoch that is not above the known one.
                return ErrorCode.STALE_CONTROLLER_EPOCH, []
        if self.options.broker_id not in order.assignment.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        if hosted is None:
            try:
                settings = orders.settings.get(partition.topic, {})
                log = self._logs.open(partition, topic_id, settings, is_new=order.is_new)
            except ApiError as error:
                return error.code, []
            local = LocalReplica(
                partition=partition,
                broker_id=self.options.broker_id,
                log=log,
                high_watermark=min(
                    max(log.recorded_high_watermark, log.log_start_offset), log.log_end_offset
                ),
            )
            hosted = self.partitions[partition] = HostedPartition(local=local)
        effects = hosted.leave_role()
        hosted.leader, hosted.leader_epoch = state.leader, state.leader_epoch
        hosted.partition_epoch, hosted.is_fenced = order.partition_epoch, False
        hosted.topic_id = topic_id or hosted.topic_id
        effects += self._assume(hosted, order, now_ms)
        return ErrorCode.NONE, effects

    def _update_state(
        self, hosted: HostedPartition, order: PartitionOrder, now_ms: float
    ) -> list[Effect]:
        """Takes another ISR or assignment under the same leader (Kafka: `Partition.makeLeader`
        without a new leader epoch). The answer to AlterPartition may have told it before.
        """
        leading = hosted.role
        if isinstance(leading, Leading):
            if order.partition_epoch <= leading.partition_epoch:
                return []
            leading.follow(order, now_ms, self.options.lag_time_max_ms)
            self.alter_partitions.unsent.pop(hosted.local.partition, None)
        hosted.partition_epoch = order.partition_epoch
        return self._advance(leading, now_ms) if isinstance(leading, Leading) else []

    def _assume(
        self, hosted: HostedPartition, order: PartitionOrder, now_ms: float
    ) -> list[Effect]:
        local, epoch = hosted.local, hosted.leader_epoch
        if hosted.leader == local.broker_id:
            leading = hosted.role = Leading(local, order)
            effects = leading.begin(now_ms, self.options.lag_time_max_ms)
            effects.append(BecameLeader(local.partition, epoch))
            return effects + self._advance(leading, now_ms)
        if hosted.leader == NO_LEADER:
            return [BecameFollower(local.partition, epoch)]
        following = hosted.role = Following(
            local,
            hosted.leader,
            epoch,
            truncates_on_fetch=self.options.truncates_on_fetch,
            starts_after_tier=self.options.starts_after_tier,
        )
        return [BecameFollower(local.partition, epoch), *following.begin()]

    def went_offline(self, partitions: Iterable[TopicPartition]) -> list[Effect]:
        """Stops the partitions of a failed directory; the response to the controller's next order
        reports them.
        """
        effects: list[Effect] = []
        for partition in partitions:
            hosted = self.partitions.pop(partition, None)
            if hosted is not None:
                self.offline.add(partition)
                self.alter_partitions.unsent.pop(partition, None)
                effects += [*hosted.leave_role(), Stopped(partition, delete=False)]
        return effects

    def give_up(self, partition: TopicPartition) -> list[Effect]:
        """As `went_offline`, for a damaged log in a directory that has not failed."""
        self.given_up.add(partition)
        return self.went_offline([partition])

    def truncated(self, partition: TopicPartition) -> None:
        """Lowers the high watermark after a truncation, which may have removed more of a batch than
        asked for.
        """
        hosted = self.partitions.get(partition)
        if hosted is not None:
            local = hosted.local
            local.high_watermark = min(local.high_watermark, local.log.log_end_offset)

    def _stop(self, partition: TopicPartition, stop: StopOrder) -> tuple[ErrorCode, list[Effect]]:
        """Stops a partition, and deletes its log even if no order has named it since the start.

        A log in a failed directory cannot be deleted, which the response reports: otherwise the
        partition could return to this broker as a new log, and later have two.
        """
        if stop.delete and partition in self.given_up:
            self.given_up.discard(partition)
            self.offline.discard(partition)
        if partition in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR, []
        hosted = self.partitions.get(partition)
        if hosted is None:
            effects: list[Effect] = [Stopped(partition, delete=True)] if stop.delete else []
            return ErrorCode.NONE, effects
        is_old = stop.leader_epoch < hosted.leader_epoch
        if is_old and stop.leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH):
            return ErrorCode.FENCED_LEADER_EPOCH, []
        effects = [*hosted.leave_role(), Stopped(partition, stop.delete)]
        if stop.delete:
            del self.partitions[partition]
            self.alter_partitions.unsent.pop(partition, None)
        return ErrorCode.NONE, effects

    # Leading

    def leading(self, partition: TopicPartition) -> Leading | None:
        hosted = self.partitions.get(partition)
        role = None if hosted is None else hosted.role
        return role if isinstance(role, Leading) else None

    def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Returns the leader and its epoch by the controller's latest order; -1 for none."""
        hosted, known = self.partitions.get(partition), self.metadata.partition(partition)
        mine = (NO_LEADER, NO_EPOCH) if hosted is None else (hosted.leader, hosted.leader_epoch)
        if known is None or known.leader_epoch < mine[1]:
            return mine
        return known.leader, known.leader_epoch

    def may_serve(self, partition: TopicPartition) -> bool:
        """Whether consumers may read the replica, as leader or follower (KIP-392)."""
        hosted = self.partitions.get(partition)
        return hosted is not None and hosted.role is not None

    def error_before_append(self, partition: TopicPartition, *, waits_for_all: bool) -> ErrorCode:
        """Returns the error that keeps a producer's records from being appended."""
        leading = self.leading(partition)
        if leading is None:
            known = partition in self.partitions or self.metadata.partition(partition) is not None
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else unknown
        return leading.error_before_append() if waits_for_all else ErrorCode.NONE

    def appended(self, partition: TopicPartition, now_ms: float) -> list[Effect]:
        """Called after an append; commits it immediately if no other replica is in sync."""
        leading = self.leading(partition)
        return [] if leading is None else self._advance(leading, now_ms)

    def wait(
        self,
        partition: TopicPartition,
        pending_id: Hashable,
        required_offset: int,
        deadline_ms: float,
    ) -> None:
        """Has a produce with acks=all wait until an offset is committed; call `appended`
        afterwards.
        """
        leading = self.leading(partition)
        assert leading is not None
        leading.wait(pending_id, required_offset, deadline_ms)

    def low_watermark(self, partition: TopicPartition) -> int:
        """Returns the offset below which all live replicas have deleted records; -1 if another
        broker leads.
        """
        leading = self.leading(partition)
        return -1 if leading is None else leading.low_watermark(self.metadata)

    def wait_deleted(
        self,
        partition: TopicPartition,
        pending_id: Hashable,
        required_offset: int,
        deadline_ms: float,
    ) -> list[Effect]:
        """Has a DeleteRecords wait until all live replicas have deleted the records before an
        offset.
        """
        leading = self.leading(partition)
        if leading is None:
            return [AnswerDelayed(pending_id, partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        leading.wait_deleted(pending_id, required_offset, deadline_ms)
        return []

    def fetched(self, fetch: Fetch, now_ms: float) -> tuple[Fetched, list[Effect]]:
        """Takes a follower's fetch. Without an error or a divergence the caller adds the records at
        its offset.
        """
        leading = self.leading(fetch.partition)
        if leading is None:
            answer = Fetched(
                partition=fetch.partition,
                leader_epoch=fetch.leader_epoch,
                fetch_offset=fetch.fetch_offset,
                error=self.error_of_leader(fetch.partition, fetch.leader_epoch),
            )
            return answer, []
        lag = self.options.lag_time_max_ms
        answer, effects = leading.fetched(fetch, now_ms, self.metadata, lag)
        self._want(leading, now_ms)
        return answer, effects

    def error_of_leader(self, partition: TopicPartition, known_epoch: int) -> ErrorCode:
        """Returns why this broker cannot answer a client as leader; -1 is an unknown epoch.

        The epochs are compared first (Kafka: `Partition.getLocalLog`).
        """
        leading, hosted = self.leading(partition), self.partitions.get(partition)
        if leading is not None:
            return leading.error_of_epoch(known_epoch)
        if hosted is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if NO_EPOCH < known_epoch < hosted.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if known_epoch > hosted.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _advance(self, leading: Leading, now_ms: float) -> list[Effect]:
        return leading.advance(now_ms, self.metadata, self.options.lag_time_max_ms)

    # In-sync replicas

    def tick(
        self, now_ms: float, partitions: Iterable[TopicPartition] | None = None
    ) -> list[Effect]:
        """Removes lagging followers from the ISR, and answers requests that need wait no longer.

        These have timed out, or waited for a broker that is no longer live. Call it every half of
        `replica.lag.time.max.ms` for each partition; by default it is done for all of them.
        """
        effects = []
        for partition in self.partitions if partitions is None else partitions:
            leading = self.leading(partition)
            if leading is not None:
                self._want(leading, now_ms)
                effects += leading.answer_deleted(self.metadata)
                effects += leading.expire(now_ms)
        return effects

    def expire(self, partition: TopicPartition, now_ms: float) -> list[Effect]:
        """Answers a partition's requests that have timed out."""
        leading = self.leading(partition)
        return [] if leading is None else leading.expire(now_ms)

    def _want(self, leading: Leading, now_ms: float) -> None:
        lag = self.options.lag_time_max_ms
        change = leading.wanted_isr(now_ms, self.metadata, self.broker_epoch, lag)
        if change is not None:
            self.alter_partitions.submit(change)

    def altered(
        self, attempt: int, answers: Iterable[AlteredAnswer], now_ms: float
    ) -> list[Effect]:
        """Takes the controller's response, or the result of writing the states' nodes."""
        effects: list[Effect] = []
        for answer in self.alter_partitions.answered(attempt, answers):
            leading = self.leading(place_of(answer.change))
            if leading is not None:
                before = leading.isr.committed
                if leading.altered(answer):
                    self.alter_partitions.submit(answer.change)
                self.isr_shrinks += bool(before - leading.isr.committed)
                self.isr_expands += bool(leading.isr.committed - before)
                effects += self._advance(leading, now_ms)
        return effects

    # Following

    def requests(self) -> list[tuple[int, FollowerRequest]]:
        """The next request to each leader, for every followed partition."""
        requests = (self.request_of(one) for one in self.partitions)
        return [one for one in requests if one is not None]

    def request_of(self, partition: TopicPartition) -> tuple[int, FollowerRequest] | None:
        """As `requests`, for one partition; `None` if there is nothing to request."""
        following = self._following(partition)
        if following is None:
            return None
        request = following.next_request(
            self.broker_epoch,
            names_high_watermark=self.metadata.level >= NAMES_HIGH_WATERMARKS,
        )
        return None if request is None else (following.leader, request)

    def take(self, answer: LeaderAnswer) -> list[Effect]:
        following = self._following(answer.partition)
        return [] if following is None else following.take(answer)

    def appended_as_follower(self, fetched: Fetched) -> list[Effect]:
        following = self._following(fetched.partition)
        return [] if following is None else following.appended(fetched)

    def built(self, partition: TopicPartition, leader_epoch: int) -> None:
        """Continues to fetch a partition that was built from the tier, or could not be."""
        following = self._following(partition)
        if following is not None and following.leader_epoch == leader_epoch:
            following.built()

    def is_building(self, partition: TopicPartition, leader_epoch: int) -> bool:
        """Whether a partition still waits to be built from the tier."""
        following = self._following(partition)
        is_same = following is not None and following.leader_epoch == leader_epoch
        return is_same and following is not None and following.phase is Phase.BUILDING

    def _following(self, partition: TopicPartition) -> Following | None:
        hosted = self.partitions.get(partition)
        role = None if hosted is None else hosted.role
        return role if isinstance(role, Following) else None
