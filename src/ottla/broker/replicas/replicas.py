"""Carries out the effects of the `replication` machine on logs and for clients.

Only a broker in a cluster has replicas; others do not import this module. Callers pass in the time,
and call in one thread. Effects are carried out before the call returns. Appends of a leader count
once `Appends.write_out` has written them.

Listeners are notified when this broker begins or ceases to lead a partition, after its log is
ready: coordinators then load or unload their state. Kafka's counterparts: `ReplicaManager`,
`Partition`, `ReplicaFetcherThread.processPartitionData`.
"""

import logging
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import parent_directory
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import at_once, turn_dict, turn_list
from ottla.broker.coordination.shards import (
    LedShards,
    MachineT,
    NewMachine,
    PartitionOwner,
    ShardOwner,
    Shards,
)
from ottla.broker.metadata.image_topics import ImageTopics
from ottla.broker.quotas.replication_quota import ReplicationQuota
from ottla.broker.replicas.hosted_logs import HostedLog, HostedLogs
from ottla.broker.replicas.postponed_orders import PostponedOrders
from ottla.broker.replicas.replicated_partition import ReplicatedPartition
from ottla.broker.replication.alter_partitions import AlterPartitions
from ottla.broker.replication.effects import (
    AnswerDelayed,
    AppendAsFollower,
    AssignEpoch,
    BecameFollower,
    BecameLeader,
    BeforeEffect,
    BuildFromTier,
    Effect,
    MoveHighWatermark,
    RaiseLogStart,
    Stopped,
    TruncateFullyAndStartAt,
    TruncateTo,
)
from ottla.broker.replication.fetches import Fetch, Fetched, FollowerRequest, LeaderAnswer
from ottla.broker.replication.replica_manager import (
    Applied,
    ReplicaManager,
    ReplicaOptions,
    Sender,
)
from ottla.broker.topics.hosting import Hosting
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.topics.topics import Topic, TopicCreator
from ottla.broker.waiting.awaited_metadata import IsSo, MetadataWaits
from ottla.broker.waiting.fetch_queries import TELL_MS, Fetcher, FetchQuery
from ottla.broker.waiting.rooms import DelayedOperation, Waiting, WaitingRoom
from ottla.config.broker import BrokerConfig
from ottla.controller.events import AlteredAnswer
from ottla.controller.requests import LeaderAndIsr, Order, StopReplica, UpdateMetadata
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.image import HasImage, MetadataImage
from ottla.storage.directory.log_directory import LogDirectory

logger = logging.getLogger(__name__)

NOT_HERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
GIVEN_UP: Final = (
    "; another replica in sync leads it, and this one is given up: stop this broker, move {folder} "
    "away, run `ottla log give-up {parent} {place}`, and start it again: the records come from the "
    "leader"
)
STAYS: Final = (
    "; this broker stays the leader until enough other replicas are in sync "
    "(min.insync.replicas={min_isr})"
)
TICKS_PER_LAG: Final = 2
"""Lagging followers are checked for twice in `replica.lag.time.max.ms`, as in Kafka."""

TICKED_AT_ONCE: Final = 100
"""Partitions whose followers are checked in one round: about a millisecond."""


class ReplicaListener(Protocol):
    """Listener. All methods are called after the log has been changed, also if nothing changed."""

    def became_leader(self, partition: TopicPartition, leader_epoch: int) -> None: ...

    def became_follower(self, partition: TopicPartition, leader_epoch: int) -> None:
        """Also called if no broker leads, or if this broker's session may have expired."""

    def stopped(self, partition: TopicPartition, *, delete: bool) -> None: ...

    def high_watermark_moved(self, partition: Partition) -> None:
        """More of the partition is committed."""


class Awaited(NamedTuple):
    """One partition of a waiting request."""

    pending: DelayedOperation
    key: Hashable


class Replicas:
    """All replicas. `waits` are the waiting fetches, and the deadlines of answers; `before_effect`
    is called before each effect.
    """

    def __init__(
        self,
        options: ReplicaOptions,
        store: TopicStore,
        known: HasImage,
        config: Callable[[], BrokerConfig],
        waits: tuple[WaitingRoom[FetchQuery, Any], AllTimers],
        before_effect: BeforeEffect | None = None,
    ) -> None:
        self.options = options
        self.listeners: list[ReplicaListener] = []
        self._before_effect = before_effect
        self.build_from_tier: Callable[[BuildFromTier], None] = self.built
        """Begins to build a partition's log from the remote tier; calls `built` afterwards."""
        self.followed: Callable[[Iterable[TopicPartition]], None] = lambda _: None
        """Called after `follow` with what an image says of replicas here, whether or not that could
        be carried out."""
        self.config = config
        self.leader_quota = _quota(config, lambda: config().leader_replication_throttled_rate)
        self.follower_quota = _quota(config, lambda: config().follower_replication_throttled_rate)
        self._hosting = Hosting(store)
        directories = self._directories = store.directories
        self._failed: set[str] = {one.path for one in directories if one.is_offline}
        self.storage_failures = 0
        """The number of directories that have failed since the start, and of damaged logs that were
        given up.
        """
        self.tells_lost: Callable[[], bool] = lambda: True
        """Whether the controller can be told of a lost replica whose directory is online."""
        self.lost: dict[TopicPartition, str] = {}
        """The replicas that were given up because of damage in their logs, and the damage."""
        self._said: dict[TopicPartition, str] = {}
        """The last damage that was reported."""
        self._untaken: dict[TopicPartition, str] = {}
        """The replicas that could not append what their leader has last sent, and why."""
        self._is_untaken = False
        """Whether that is so of the answer that is taken."""
        self._waiting, timers = waits
        logs = HostedLogs(self._hosting, store.topics, directories, self._opened)
        self.manager = ReplicaManager(options, logs, known)
        self.topics = ImageTopics(known)
        self.partitions: dict[TopicPartition, ReplicatedPartition] = {}
        """The partitions that an order of the controller has named since the start."""
        self._at = Timestamps(now_ms=0, monotonic_ms=0.0)
        self._delayed: Timers[DelayedOperation] = timers.new_room()
        self._metadata_waits = MetadataWaits(timers)
        self._postponed = PostponedOrders(self, timers)
        self._answered: list[Waiting[Any]] = []
        self._next_tick: Timers[str] = timers.new_room()
        self._next_tick.set(NEXT, 0.0)
        self._to_give_up: Timers[TopicPartition] = timers.new_room()
        self._to_tick: list[TopicPartition] = []
        """The partitions that are still to be checked for lagging followers."""
        for topic in store.topics:
            for partition in topic.partitions.values():
                partition.replication = ReplicatedPartition(self, HostedLog(partition))

    def _opened(self, hosted: HostedLog) -> None:
        replicated = ReplicatedPartition(self, hosted)
        self.partitions[replicated.place] = hosted.partition.replication = replicated

    @property
    def metadata(self) -> MetadataImage:
        return self.manager.metadata

    def elsewhere(
        self, error: ApiError, topic: str | None, topic_id: Uuid | None, index: int
    ) -> ApiError:
        """Returns the error for a partition that is not on this broker.

        That is NOT_LEADER_OR_FOLLOWER if the cluster has the partition, otherwise `error`.
        """
        if error.code not in NOT_HERE:
            return error
        name = topic or self.metadata.topic_names.get(topic_id or ZERO_UUID)
        if name is None or self.metadata.partition(TopicPartition(name, index)) is None:
            return error
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def alter_partitions(self) -> AlterPartitions:
        """The ISR changes to send; responses go to `altered`."""
        return self.manager.alter_partitions

    @property
    def now_ms(self) -> float:
        return self._at.monotonic_ms

    def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Returns the leader and its epoch by the controller's latest order; -1 for none."""
        return self.manager.leader_of(partition)

    def shards(
        self, timers: AllTimers, new_machine: "NewMachine[MachineT]", owner: "ShardOwner[MachineT]"
    ) -> "Shards[MachineT]":
        """Each partition of an internal topic that this broker leads is a shard."""
        return LedShards(timers, new_machine, owner)

    def partition_shards(
        self,
        timers: AllTimers,
        new_machine: "NewMachine[MachineT]",
        owner: "PartitionOwner[MachineT]",
    ) -> "Shards[MachineT]":
        return LedShards(timers, new_machine, owner)

    def make_internal(self, new: NewTopic, creator: TopicCreator) -> Topic:
        """The controller creates internal topics, when a client looks for a coordinator."""
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def commit_by(self, deadline_ms: float) -> DelayedOperation | None:
        """What a produce with acks=all is answered through, once other replicas have its records.

        `None` if nothing can be waited for.
        """
        return DelayedOperation(deadline_ms)

    def fetcher(
        self, replica_id: int, broker_epoch: int, rack: str, at: Timestamps
    ) -> Fetcher | None:
        """Notes the time of a fetch; returns its origin, for which it is read."""
        self._at = at
        return Fetcher(replica_id, broker_epoch, rack)

    def note_time(self, at: Timestamps) -> None:
        """Sets the time for the following calls."""
        self._at = at

    # The broker's session, and orders of the controller

    def registered(self, broker_epoch: int) -> None:
        self.manager.registered(broker_epoch)

    def fence(self) -> None:
        """Stops leading and following, since the broker's session may have expired."""
        self._postponed.forget()  # it is ordered again in the next session
        self._carry_out(self.manager.fence())

    def apply(self, order: Order, sender: Sender, at: Timestamps) -> Applied:
        """Carries out an order of the controller; the result contains the refused partitions.

        `save_stopped` belongs after an order that deletes replicas, or after its last part.
        """
        self._at = at
        if isinstance(order, UpdateMetadata):
            applied = self.manager.apply(order, sender, at.monotonic_ms)
            self._answered += self._metadata_waits.take_known()
            return applied
        with at_once():  # A later controller's order must not come in between.
            self._write_out(order.orders)
            applied = self.manager.apply(order, sender, at.monotonic_ms)
            if applied.error is ErrorCode.NONE:
                self._postponed.forget(order.orders)
            self._carry_out(applied.effects)
        return applied

    def postpone(self, order: LeaderAndIsr) -> LeaderAndIsr:
        """Keeps what an order says of logs that `make_logs` could not make for lack of descriptors
        or memory; returns the rest of it.
        """
        return self._postponed.take(order, self.now_ms)

    # Images of a KRaft cluster

    def image_followed(self) -> None:
        """Ends the waits for what the present image has."""
        self._answered += self._metadata_waits.take_known()

    def follow(self, order: LeaderAndIsr | StopReplica, at: Timestamps) -> Applied:
        """Carries out what the present image says of some partitions.

        `save_stopped` belongs after the last part of an order that deletes replicas.
        """
        self._at = at
        with at_once():
            self._write_out(order.orders)
            applied = self.manager.follow(order, at.monotonic_ms)
            self._carry_out(applied.effects)
        if isinstance(order, LeaderAndIsr):
            self.followed(order.orders)
        return applied

    def set_aside(self, place: TopicPartition) -> None:
        """Keeps a log from before the start, which the cluster has not placed here, as a stray."""
        try:
            self._hosting.stop(place, is_stray=True)
        except ApiError as error:
            logger.error("%s-%d cannot be put aside: %s", *place, error)

    def sync_stopped(self) -> None:
        """Makes it durable that replicas were stopped; called without a turn, others wait."""
        with suppress(StorageError):  # logged where the directory went offline
            self._hosting.sync()

    def save_stopped(self) -> None:
        """Writes what the files that list all partitions say of those that were deleted."""
        with suppress(StorageError):  # logged where the directory went offline
            self._hosting.save()

    def to_host(self, order: LeaderAndIsr) -> list[TopicPartition]:
        """The partitions of an order that have a replica here."""
        hosted = (
            place
            for place, one in order.orders.items()
            if self.options.broker_id in one.assignment.replicas
            and one.state.leader_epoch >= 0  # otherwise `apply` refuses it
            and (one.is_new or self._directories.is_complete)
        )
        return turn_list(hosted)

    def await_metadata(self, is_so: IsSo, deadline_ms: float) -> Waiting[bool]:
        """Waits for a condition, which is checked after each update by the controller."""
        return self._metadata_waits.add(is_so, deadline_ms)

    @property
    def awaited(self) -> dict[TopicPartition, str]:
        """The partitions whose logs could not be made for lack of descriptors or memory, and why;
        whoever makes them later drops those that are not to be made any more.
        """
        return self._hosting.awaited

    def hold(self, held: dict[TopicPartition, Uuid]) -> None:
        """Has no log made of partitions of topics with these ids: it may be in a directory that is
        offline.
        """
        self._hosting.held = held

    def let_go(self, place: TopicPartition) -> None:
        """A partition has no replica here any more; another one may be made later."""
        self._hosting.held.pop(place, None)

    def why_not_here(self, place: TopicPartition, topic_id: Uuid) -> str | None:
        """Why a replica has no log that can be used, until a person has seen to it."""
        return self.lost.get(place) or self._hosting.why_not_here(place, topic_id)

    def make_logs(self, order: LeaderAndIsr) -> None:
        """Creates the logs that an order needs, in turns, so that `apply` finds them, but for those
        that are `awaited` then.
        """

        def made(partition: Partition) -> None:
            # Until the order names a leader, the partition must not be served as on a single
            # broker.
            partition.replication = ReplicatedPartition(self, HostedLog(partition))

        wanted = turn_dict((place, order.orders[place].directory) for place in self.to_host(order))
        self._hosting.host_all(wanted, order.topic_ids, order.settings, made)

    def _write_out(self, places: Iterable[TopicPartition]) -> None:
        """Writes pending appends, so that they precede all records of the next leader epoch."""
        for place in places:
            replicated = self.partitions.get(place)
            if replicated is not None and replicated.partition.is_dirty:
                with suppress(StorageError):  # logged where the directory went offline
                    replicated.write_out()

    # Leading

    def await_commit(
        self, place: TopicPartition, pending: DelayedOperation, required_offset: int
    ) -> Hashable:
        """Has a produce wait; returns the key of this partition's error in its result."""
        awaited = self._awaited(place, pending, required_offset)
        self.manager.wait(place, awaited, required_offset, pending.deadline_ms)
        return awaited.key

    def await_deletion(
        self, place: TopicPartition, pending: DelayedOperation, required_offset: int
    ) -> Hashable:
        """Has a DeleteRecords wait, as `await_commit`; followers' fetches are answered immediately,
        which carries the new log start offset to them.
        """
        self._waiting.hurry(self.partitions[place].partition)
        awaited = self._awaited(place, pending, required_offset)
        self._carry_out(
            self.manager.wait_deleted(place, awaited, required_offset, pending.deadline_ms)
        )
        return awaited.key

    def _awaited(
        self, place: TopicPartition, pending: DelayedOperation, required_offset: int
    ) -> "Awaited":
        key = (place, required_offset)  # a request may name a partition twice
        pending.keys.add(key)
        if pending not in self._delayed:
            self._delayed.set(pending, pending.deadline_ms)
        return Awaited(pending, key)

    def appended(self, place: TopicPartition) -> None:
        self._carry_out(self.manager.appended(place, self.now_ms))

    def take_answered(self) -> list[Waiting[Any]]:
        """Returns the requests that have completed or failed, including waits for metadata."""
        answered, self._answered = self._answered, []
        return answered

    @property
    def has_answers(self) -> bool:
        return bool(self._answered)

    def fetched(self, fetch: Fetch) -> Fetched:
        answer, effects = self.manager.fetched(fetch, self.now_ms)
        self._carry_out(effects)
        return answer

    def fetched_again(self, fetch: Fetch) -> bool:
        """Whether a fetch says nothing new, and hears nothing new; see `Leading`."""
        leading = self.manager.leading(fetch.partition)
        return leading is not None and leading.fetched_again(fetch, self.now_ms)

    def leads_too_fast(self, place: TopicPartition, follower: int) -> bool:
        """Whether a follower that is not in sync must wait for records (KIP-73)."""
        leading = self.manager.leading(place)
        in_sync = leading is not None and follower in leading.isr.committed
        return not in_sync and self.leader_quota.is_exceeded(self.now_ms)

    def altered(self, attempt: int, answers: Iterable[AlteredAnswer], at: Timestamps) -> None:
        """Takes the response to a request of `alter_partitions`."""
        self._at = at
        self._carry_out(self.manager.altered(attempt, answers, at.monotonic_ms))

    # Following

    def requests(self, at: Timestamps) -> list[tuple[int, FollowerRequest]]:
        """The next request to each leader, for every followed partition except throttled ones
        (KIP-73).
        """
        self._at = at
        return [
            (leader, request)
            for leader, request in self.manager.requests()
            if not (isinstance(request, Fetch) and self.must_wait(request.partition, at))
        ]

    def must_wait(self, place: TopicPartition, at: Timestamps) -> bool:
        """Whether a partition must not be fetched now: throttled replicas exceed their rate."""
        is_exceeded = self.follower_quota.is_exceeded(at.monotonic_ms)
        return is_exceeded and self.partitions[place].is_throttled_and_behind

    def take(self, answer: LeaderAnswer, at: Timestamps) -> bool:
        """Takes a leader's response; returns whether what came could be appended."""
        self._at, self._is_untaken = at, False
        self._carry_out(self.manager.take(answer))
        return not self._is_untaken

    # Time

    def advance(self, at: Timestamps) -> None:
        """Answers requests that have timed out, and checks for lagging followers and failed
        directories.
        """
        self._at = at
        for pending in self._delayed.take_all_due(at.monotonic_ms):
            places = {key[0] for key in pending.keys if isinstance(key, tuple)}
            for place in sorted(places):
                self._carry_out(self.manager.expire(place, at.monotonic_ms))
        self._answered += self._metadata_waits.take_due(at.monotonic_ms)
        for directory in self._directories:
            if directory.is_offline and directory.path not in self._failed:
                self._give_up(directory)
        self._postponed.advance(at)
        for place in self._to_give_up.take_all_due(at.monotonic_ms):
            self._give_up_log(place)
        if self._next_tick.take_due(at.monotonic_ms) is not None:
            self._tick(at.monotonic_ms)

    def _tick(self, now_ms: float) -> None:
        """Checks some partitions, and leaves the others to the next rounds."""
        if not self._to_tick:
            self._to_tick = list(self.manager.partitions)
        some = self._to_tick[-TICKED_AT_ONCE:]
        del self._to_tick[-TICKED_AT_ONCE:]
        wait_ms = 0.0 if self._to_tick else self.options.lag_time_max_ms / TICKS_PER_LAG
        self._next_tick.set(NEXT, now_ms + wait_ms)
        self._carry_out(self.manager.tick(now_ms, some))

    def _give_up(self, directory: LogDirectory) -> None:
        """Stops leading and following the partitions in a failed directory (KIP-112)."""
        self._failed.add(directory.path)
        gone = [
            place for place, one in self.partitions.items() if one.partition.directory is directory
        ]
        self._carry_out(self.manager.went_offline(gone))
        self.storage_failures += 1

    # Damage

    def damaged(self, place: TopicPartition, damage: CorruptionError, verb: str) -> ApiError:
        """Reports damage in a log, once, and returns the error for who asked.

        A leader hands over to another replica in sync, which has the records whole: until then
        clients ask again. Nothing is truncated. Kafka answers CORRUPT_MESSAGE, and goes on leading.
        """
        hands_over = self._hands_over(place, damage)
        text = f"cannot {verb} {place}: {damage}"
        leading = self.manager.leading(place)
        if hands_over:
            folder = self.partitions[place].partition.log.directory
            text += GIVEN_UP.format(folder=folder, parent=parent_directory(folder), place=place)
        elif leading is not None and leading.replicas:
            text += STAYS.format(min_isr=leading.min_isr)
        if self._said.get(place) != text:
            self._said[place] = text
            logger.error("%s", text)
        code = ErrorCode.KAFKA_STORAGE_ERROR if hands_over else ErrorCode.CORRUPT_MESSAGE
        return ApiError(code, text)

    def gone(self, place: TopicPartition, failure: StorageError) -> None:
        """The folder of a log is gone: the replica is given up, whether others can lead or not."""
        self.lost[place] = str(failure)
        self._to_give_up.set(place, 0.0)

    def cannot_compact(self, place: TopicPartition, damage: CorruptionError) -> None:
        self.damaged(place, damage, "compact")

    def _hands_over(self, place: TopicPartition, damage: CorruptionError) -> bool:
        """Whether the replica is given up, with the next `advance`: its caller may be in the midst
        of what it leads.
        """
        leading = self.manager.leading(place)
        if leading is not None and leading.may_hand_over(self.metadata) and self.tells_lost():
            self.lost[place] = str(damage)
            self._to_give_up.set(place, 0.0)
        return place in self.lost

    def _give_up_log(self, place: TopicPartition) -> None:
        """As `_give_up`, for a damaged log."""
        if place not in self.lost:
            return  # it was deleted meanwhile
        self._carry_out(self.manager.give_up(place))
        self.storage_failures += 1
        self.followed([place])

    # Effects

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if self._before_effect is not None:
                self._before_effect(effect)
            with suppress(StorageError):  # logged where the directory went offline
                self._do(effect)

    def _do(self, effect: Effect) -> None:
        place = effect.partition
        match effect:
            case MoveHighWatermark(offset=offset):
                self._move_high_watermark(self.partitions[place], offset)
            case AnswerDelayed():
                self._answer(effect)
            case AppendAsFollower(fetched=fetched):
                self._append(self.partitions[place], fetched)
            case BecameLeader(leader_epoch=epoch):
                self.partitions[place].partition.leader_epoch = epoch
                for listener in self.listeners:
                    listener.became_leader(place, epoch)
            case BecameFollower(leader_epoch=epoch):
                self._became_follower(self.partitions[place], epoch)
            case Stopped(delete=delete):
                self._stopped(place, delete)
            case BuildFromTier():
                self.build_from_tier(effect)
            case _:
                self._change_log(self.partitions[place], effect)

    def built(self, effect: BuildFromTier) -> None:
        """Continues to follow a partition whose log was built from the tier, or could not be."""
        self.partitions[effect.partition].truncated()
        self.manager.built(effect.partition, effect.leader_epoch)
        for listener in self.listeners:
            listener.became_follower(effect.partition, effect.leader_epoch)

    def _move_high_watermark(self, replicated: ReplicatedPartition, offset: int) -> None:
        partition = replicated.partition
        partition.log.writer.move_high_watermark(offset)
        self._waiting.wake_committed(partition, self._at.monotonic_ms + TELL_MS)
        for listener in self.listeners:
            listener.high_watermark_moved(partition)

    def _answer(self, effect: AnswerDelayed) -> None:
        awaited = effect.pending_id
        assert isinstance(awaited, Awaited)
        if awaited.pending.answer(awaited.key, effect.error):
            self._delayed.cancel(awaited.pending)
            self._answered.append(awaited.pending)

    def _became_follower(self, replicated: ReplicatedPartition, epoch: int) -> None:
        replicated.partition.leader_epoch = epoch
        self._waiting.wake(replicated.partition)
        for listener in self.listeners:
            listener.became_follower(replicated.place, epoch)

    def _stopped(self, place: TopicPartition, delete: bool) -> None:
        replicated = self.partitions.get(place)
        for listener in self.listeners:
            listener.stopped(place, delete=delete)
        if delete:
            self.partitions.pop(place, None)
            self.lost.pop(place, None)
            self._said.pop(place, None)
            try:
                self._hosting.stop(place)
            except ApiError as error:
                logger.error("%s-%d cannot be deleted: %s", *place, error)
        if replicated is not None:
            self._waiting.wake(replicated.partition)

    def _change_log(self, replicated: ReplicatedPartition, effect: Effect) -> None:
        partition, now_ms = replicated.partition, self._at.now_ms
        log = partition.log
        match effect:
            case AssignEpoch(leader_epoch=epoch, start_offset=offset):
                log.epochs.begin(epoch, offset)
            case TruncateTo(offset=offset):
                logger.info("%s is truncated to offset %d", log.name, offset)
                log.maintenance.truncate_to(offset, now_ms=now_ms)
                replicated.truncated()
            case TruncateFullyAndStartAt(offset=offset):
                logger.info("%s begins again at offset %d, as its leader's log", log.name, offset)
                log.maintenance.truncate_fully_and_start_at(offset, now_ms=now_ms)
                replicated.truncated()
            case RaiseLogStart(offset=offset):
                log.maintenance.delete_records_before(offset)

    def _append(self, replicated: ReplicatedPartition, fetched: Fetched) -> None:
        try:
            size = replicated.append(fetched, self._at.now_ms)
        except ApiError as error:
            # Fetched again after a pause: then the leader looks whether its log is damaged.
            place, self._is_untaken = replicated.place, True
            text = f"cannot append to {place} what broker {self.leader_of(place)[0]} sends: {error}"
            if self._untaken.get(place) != text:
                self._untaken[place] = text
                logger.error("%s; it is fetched again", text)
            return
        if self._untaken:
            self._untaken.pop(replicated.place, None)
        if replicated.is_throttled_follower:
            self.follower_quota.record(size, self.now_ms)
        self._carry_out(self.manager.appended_as_follower(fetched))


def _quota(config: Callable[[], BrokerConfig], limit: Callable[[], int]) -> ReplicationQuota:
    count = config().replication_quota_window_num
    return ReplicationQuota(limit, count, config().replication_quota_window_size_seconds * 1000)
