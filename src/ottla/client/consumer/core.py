"""The logic of a consumer, for applications with threads and with an event loop.

`next_records` and `next_event` return immediately. `has_work` says whether there are requests to
brokers (positions, leaders, resets), which `work` sends, and may block. `consumer.py` and
`ottla/aio.py` call them in turn.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ottla.base.arguments import check_topic_name
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.base.partitions import TopicPartition
from ottla.client.administration.group_offsets import OUTSIDER, Committed, GroupMemberId, ReadUpTo
from ottla.client.bulk.reading import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.connecting.cluster import Cluster
from ottla.client.consumer.assignors import PartitionAssignor
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.delivery import Handed, Lists, RepeatedDamage, cut
from ottla.client.consumer.errors import (
    ClosedError,
    LogTruncatedError,
    NoOffsetError,
)
from ottla.client.consumer.fetch_queue import FetchQueue
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.group import GroupThread, Subscription, member_of
from ottla.client.consumer.membership import Event, EventKind
from ottla.client.consumer.records import ConsumerRecord, CorruptBatchError, Decoding
from ottla.client.consumer.shared_cluster import SharedCluster
from ottla.client.refusals import RefusedError
from ottla.config.consumer import ConsumerConfig, reset_duration_ms
from ottla.runtime.forks import bind_to_process

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from ottla.client.consumer.registry_group import RegistryGroup

CLOSED = "this consumer is closed; create another"
FORKED = "this consumer was created before the fork; create another in the child"
MILLISECONDS = 1000
WORK_PAUSE_S = 0.1


class ConsumerCore:
    """One consumer; all methods except `ConsumerCore.wake` are for one thread at a time."""

    def __init__(
        self,
        cluster: Cluster,
        group: str | None,
        config: ConsumerConfig,
        decoding: Decoding,
        assignors: Iterable[PartitionAssignor] = (),
    ) -> None:
        self.config = config
        self.group = group
        self.is_closed = False
        self._refusal: str | None = None
        """The reason why calls are refused."""
        self.attention = False
        """Whether there is something other than the next record for the application's thread."""
        self.wakers: list[Callable[[], None]] = []
        """Called with every change, for callers that cannot wait on a condition."""
        self._decoding = decoding
        self._changed = threading.Condition()
        self._cluster = SharedCluster(cluster)
        is_committed = config.isolation_level == "read_committed"
        self._isolation = READ_COMMITTED if is_committed else READ_UNCOMMITTED
        self._queue = FetchQueue(
            max_queued_size=config.queued_max_bytes,
            max_partition_size=config.max_partition_fetch_bytes,
        )
        self._fetcher = Fetcher(
            self._cluster, config, self._isolation, self._queue, self._changed, self._notify
        )
        self._assignors = tuple(assignors)
        self._thread = self._make_group() if group is not None else None
        self._alone: Subscription | None = None
        self._looked_up_s = 0.0
        self._handed: Handed | None = None
        self._lists = Lists()
        self._damage = RepeatedDamage()
        self._end_of_lists: tuple[TopicPartition, int, ReadUpTo] | None = None
        self._handed_count = 0
        backoff_s = config.retry_backoff_ms / MILLISECONDS
        self._commits = (
            Commits(group, self._cluster, self.identity, backoff_s, self._store)
            if group is not None
            else None
        )
        self._commit_due_s = time.monotonic() + config.auto_commit_interval_ms / MILLISECONDS
        self._unchecked: dict[str, int] = {}
        self._next_work_s = 0.0
        self._was_reached = False
        bind_to_process(self)

    def _make_group(self) -> "GroupThread | RegistryGroup":
        config = self.config
        assert self.group is not None
        if config.group_protocol == "zookeeper":
            # Few are, and what it takes is not imported for the others.
            from ottla.client.consumer.registry_group import RegistryGroup

            return RegistryGroup(self._cluster, self.group, config, self._changed, self._notify)
        member = member_of(self.group, config, self._assignors)
        return GroupThread(
            cluster=self._cluster,
            group=self.group,
            config=config,
            member=member,
            changed=self._changed,
            on_change=self._notify,
            progress=self._progress,
        )

    # What is read

    def subscribe(self, subscription: Subscription) -> None:
        self.check_open()
        if subscription == Subscription():
            self.unsubscribe()
            return
        self._unchecked = dict.fromkeys(subscription.topics, -1)
        with self._changed:
            if self._thread is not None:
                self._thread.subscribe(subscription)
            else:
                self._alone = subscription
                self._looked_up_s = float("-inf")

    def assign(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Reads these partitions from now on, outside the group's assignment."""
        self.check_open()
        self._leave()
        self._unchecked = dict(sorted(positions))
        with self._changed:
            self._settle_handed()
            self._drop([one for one in self._queue.readings if one not in positions])
            self._add(positions)
            for place, offset in positions.items():
                if offset is not None:
                    self.seek(place, offset)

    def unsubscribe(self) -> None:
        """Stops reading."""
        self.check_open()
        self._leave()
        with self._changed:
            self._drop(list(self._queue.readings))

    def _leave(self) -> None:
        """Leaves the group; the coordinator is informed after pending commits."""
        self._alone = None
        left = self._thread
        if left is not None and left.is_started:
            assert self._commits is not None
            self._thread = self._make_group()
            self._commits.after(left.stop)

    def assignment(self) -> set[TopicPartition]:
        with self._changed:
            return set(self._queue.readings)

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        self._queue.drop(partitions)
        if self._handed is not None and self._handed.place not in self._queue.readings:
            self._handed.end()

    def _add(self, partitions: Iterable[TopicPartition]) -> None:
        self._queue.assign(partitions)
        self._next_work_s = 0.0

    # Positions

    def position(self, place: TopicPartition) -> int | None:
        with self._changed:
            self._check_assigned(place)
            at = self._read_up_to(place)
            return None if at is None else at.offset

    def positions(self) -> dict[TopicPartition, ReadUpTo]:
        """Positions of all partitions whose position is known."""
        with self._changed:
            found = {place: self._read_up_to(place) for place in self._queue.readings}
            return {place: at for place, at in found.items() if at is not None}

    def _read_up_to(self, place: TopicPartition) -> ReadUpTo | None:
        before = self._queue.readings[place].read_up_to
        handed = self._current()
        if before is None or handed is None or handed.place != place:
            return before
        if self._end_of_lists is not None and not handed.count() and not self._lists.has_more():
            return self._end_of_lists[2]  # After trailing markers, as in Kafka's consumer.
        return handed.read_up_to(before)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._seek(place, ReadUpTo(offset))

    def _seek(self, place: TopicPartition, to: ReadUpTo | None) -> None:
        with self._changed:
            self._check_assigned(place)
            if self._handed is not None and self._handed.place == place:
                self._handed.end()
            self._queue.seek(place, to)
            self._next_work_s = 0.0
            self._changed.notify_all()

    def seek_to_time(self, partitions: Collection[TopicPartition], time_ms: int) -> None:
        """Seeks to the first records at a time or later, or to an end; by default everywhere."""
        found = self.list_offsets(dict.fromkeys(partitions or self.assignment(), time_ms))
        late = [place for place, offset in found.items() if offset < 0]
        found |= self.list_offsets(dict.fromkeys(late, LATEST))
        for place, offset in found.items():
            self.seek(place, offset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        with self._changed:
            for place in partitions:
                self._check_assigned(place)
                # Fetched records are dropped, and fetched again after `resume`.
                self._seek(place, self._read_up_to(place))
                self._queue.readings[place].is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        with self._changed:
            for place in partitions:
                self._check_assigned(place)
                self._queue.readings[place].is_paused = False
            self._changed.notify_all()

    def paused(self) -> set[TopicPartition]:
        with self._changed:
            return {place for place, one in self._queue.readings.items() if one.is_paused}

    def lag(self, place: TopicPartition) -> int | None:
        """Records between the position and the end that this consumer reads to, if known."""
        with self._changed:
            position = self.position(place)
            reading = self._queue.readings[place]
            is_committed = self._isolation == READ_COMMITTED
            end = reading.last_stable_offset if is_committed else reading.high_watermark
            return None if position is None or end < 0 else max(0, end - position)

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets at times or ends; -1 if no record is that late."""
        self.check_open()
        return self._cluster.list_offsets(wanted, self._isolation) if wanted else {}

    def partition_count(self, topic: str) -> int:
        return self._cluster.check_topic(check_topic_name(topic))

    def topics(self) -> list[str]:
        return self._cluster.topic_names()

    def _check_assigned(self, place: TopicPartition) -> None:
        if place not in self._queue.readings:
            raise UserError(f"{place} is not assigned to this consumer")

    # Records

    def next_records(self) -> Iterator[ConsumerRecord] | None:
        """The next records for the application, if any have been fetched."""
        with self._changed:
            if (handed := self._current()) is not None and handed.count():
                return handed.left
            self._settle_handed()
            while True:
                records = self._next_list()
                if records is not None:
                    return records
                if not self._begin_chunk():
                    return None

    def _next_list(self) -> Iterator[ConsumerRecord] | None:
        if self._end_of_lists is None:
            return None
        place, version, end = self._end_of_lists
        reading = self._queue.readings.get(place)
        if reading is None or reading.version != version:
            self._end_of_lists, self._lists = None, Lists()
            return None
        try:
            records = self._lists.next()
        except UserError as error:
            # The next attempt must find the same record, not what follows.
            self._queue.seek(place, at := reading.read_up_to)
            if isinstance(error, CorruptBatchError) and self._damage.may_end(place, at):
                self._end_of_lists, self._lists = None, Lists()
                return None
            raise
        if records is None:
            reading.read_up_to = end
            self._end_of_lists = None
            return None
        self._handed_count += 1
        self._handed = Handed(place, version, records, iter(records))
        return self._handed.left

    def _begin_chunk(self) -> bool:
        chunk = self._queue.next_chunk()
        if chunk is None:
            return False
        at = self._queue.readings[chunk.place].read_up_to
        assert at is not None
        decoded = self._decoding.records(chunk.place, chunk.fetched, at.offset)
        self._lists = Lists(cut(decoded, self.config.max_poll_records))
        self._end_of_lists = chunk.place, chunk.version, chunk.end
        self._changed.notify_all()  # There is room for more.
        return True

    def _current(self) -> Handed | None:
        """The records being returned, unless revoked or sought away from."""
        handed = self._handed
        if handed is None:
            return None
        reading = self._queue.readings.get(handed.place)
        return handed if reading is not None and reading.version == handed.version else None

    def _settle_handed(self) -> None:
        handed, self._handed = self._current(), None
        if handed is not None:
            reading = self._queue.readings[handed.place]
            assert reading.read_up_to is not None
            reading.read_up_to = handed.read_up_to(reading.read_up_to)

    def _progress(self) -> object:
        handed = self._handed
        return self._handed_count, 0 if handed is None else handed.count()

    # Events and work

    def next_event(self) -> Event | None:
        """The event to handle before the application gets more records; call `handled` then."""
        thread = self._thread
        with self._changed:
            if thread is not None:
                thread.has_polled = True
                if thread.failure is not None:
                    failure, thread.failure = thread.failure, None
                    raise failure
                events = thread.member.events
                if events:
                    return events[0]
                thread.enter_again()
            self.attention = False
            return None

    def before(self, event: Event) -> None:
        """Commits for partitions that the consumer still has; may block."""
        if event.kind is EventKind.REVOKED and self.config.enable_auto_commit:
            self._commit_quietly(event.partitions)

    def apply(self, event: Event) -> None:
        """Call it before the application learns of a gain, and after it learns of a loss."""
        with self._changed:
            if event.kind is EventKind.ASSIGNED:
                self._add(event.partitions)
            else:
                self._drop(event.partitions)
                assert self._commits is not None
                self._commits.forget(event.partitions)

    def handled(self, event: Event) -> None:
        """The application has handled the event: the membership continues."""
        assert self._thread is not None
        with self._changed:
            member = self._thread.member
            if member.events and member.events[0] is event:
                member.handled()
            self._changed.notify_all()

    def has_work(self) -> bool:
        """Whether `work` has requests to send to brokers."""
        now_s = time.monotonic()
        with self._changed:
            if self._unchecked or self._is_look_up_due(now_s):
                return True
            if now_s < self._next_work_s:
                return False
            queue = self._queue
            is_refused = any(one.refusal is not None for one in queue.readings.values())
            is_sought = queue.without_position() or queue.without_leader() or queue.doubtful()
            return bool(is_refused or is_sought)

    def work(self) -> None:
        """Finds unknown topics, positions and leaders; may block.

        Raises `UserError` for what the application must decide. Brokers that answered before but do
        not now are waited for, as in every Kafka client.
        """
        try:
            self._work()
        except UnreachableError:
            if not self._was_reached:
                raise
            self._next_work_s = time.monotonic() + WORK_PAUSE_S
        else:
            self._was_reached = True

    def _work(self) -> None:
        while self._unchecked:
            topic, last = next(iter(self._unchecked.items()))
            try:
                self._cluster.check_topic(topic, last)
            except UnreachableError:
                raise
            except UserError:
                self._unchecked.pop(topic, None)  # It may be created later.
                raise
            self._unchecked.pop(topic, None)
        if self._is_look_up_due(time.monotonic()):
            self._look_up_alone()
        with self._changed:
            self._next_work_s = time.monotonic() + WORK_PAUSE_S
            refused = {
                place: one.refusal
                for place, one in self._queue.readings.items()
                if one.refusal is not None
            }
        for place, refusal in refused.items():
            self._refused(place, refusal)
        try:
            self._find_positions()
            self._find_leaders()
            self._check_truncation()
        except ApiError as error:
            raise RefusedError("positions", error) from error

    def _refused(self, place: TopicPartition, refusal: ApiError) -> None:
        if refusal.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            with self._changed:
                self._queue.readings[place].refusal = None
            raise RefusedError(str(place), refusal)
        with self._changed:
            version = self._queue.readings[place].version
        self._reset({place: version})

    def _find_positions(self) -> None:
        with self._changed:
            readings = self._queue.readings
            wanted = {one: readings[one].version for one in self._queue.without_position()}
        if not wanted:
            return
        commits = self._commits
        committed = {} if commits is None else commits.committed(wanted, self._reader())
        if committed is None:
            return  # A transaction is about to move them.
        with self._changed:
            for place, found in committed.items():
                self._place(place, wanted[place], ReadUpTo(found.offset, found.leader_epoch))
                assert commits is not None
                commits.found(place, found.offset)
        left = {one: wanted[one] for one in wanted if one not in committed}
        stored = self._thread.stored(left) if self._thread is not None else {}
        with self._changed:
            for place, offset in stored.items():
                self._place(place, left.pop(place), ReadUpTo(offset))
        self._reset(left)

    def _place(self, place: TopicPartition, version: int, at: ReadUpTo) -> None:
        """Sets a position that was looked up, unless a seek happened meanwhile."""
        reading = self._queue.readings.get(place)
        if reading is not None and reading.version == version:
            self._seek(place, at)

    def _reset(self, versions: Mapping[TopicPartition, int]) -> None:
        """Resets partitions without a position, or with one that is out of range."""
        if not versions:
            return
        policy = self.config.auto_offset_reset
        if policy == "none":
            raise NoOffsetError(versions)
        duration_ms = reset_duration_ms(policy)
        time_ms = EARLIEST if policy == "earliest" else LATEST
        if duration_ms is not None:
            time_ms = int(time.time() * MILLISECONDS) - duration_ms
        found = self._cluster.list_offsets(dict.fromkeys(versions, time_ms), self._isolation)
        late = [place for place, offset in found.items() if offset < 0]
        found |= self.list_offsets(dict.fromkeys(late, LATEST))
        with self._changed:
            for place, offset in found.items():
                self._place(place, versions[place], ReadUpTo(offset))

    def _find_leaders(self) -> None:
        with self._changed:
            wanted = self._queue.without_leader()
        if not wanted:
            return
        found = self._cluster.leaders(wanted)
        with self._changed:
            self._queue.lead(found)
            for node_id in {leader.node_id for leader in found.values()}:
                self._fetcher.start(node_id)
            self._changed.notify_all()

    def _check_truncation(self) -> None:
        """Asks new leaders whether they have all that was fetched before (KIP-320)."""
        with self._changed:
            asked = {
                place: (one.version, one.fetched_epoch)
                for place, one in self._queue.doubtful().items()
            }
        for place, (version, epoch) in asked.items():
            end_offset = self._cluster.epoch_end_offset(place, epoch)
            with self._changed:
                reading = self._queue.readings.get(place)
                if reading is None or reading.version != version:
                    continue
                if end_offset is None or end_offset >= reading.fetch_offset:
                    reading.is_doubtful = False
                    self._changed.notify_all()
                else:
                    self._truncated(place, end_offset)

    def _truncated(self, place: TopicPartition, end_offset: int) -> None:
        """Drops records of a divergent log; reports those that the application already has."""
        position = self.position(place)
        assert position is not None
        if position > end_offset and self.config.auto_offset_reset == "none":
            raise LogTruncatedError(place, end_offset, position)
        if position > end_offset:
            logger.warning(
                "%s: the log was truncated to offset %d, below offset %d that was read; reading "
                "continues there",
                place,
                end_offset,
                position,
            )
        self.seek(place, min(position, end_offset))

    def _is_look_up_due(self, now_s: float) -> bool:
        age_s = now_s - self._looked_up_s
        return self._alone is not None and age_s >= self.config.metadata_max_age_ms / MILLISECONDS

    def _look_up_alone(self) -> None:
        """Without a group, reads all partitions of the subscribed topics."""
        wanted = self._alone
        assert wanted is not None
        counts = dict(self._cluster.topics(wanted.topics).counts)
        if wanted.pattern is not None:
            counts |= self._cluster.topics_like(wanted.pattern).counts
        places = {TopicPartition(name, n) for name in counts for n in range(counts[name])}
        with self._changed:
            self._looked_up_s = time.monotonic()
            self._drop([one for one in self._queue.readings if one not in places])
            self._add(places)

    # Commits

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        self.check_group()
        assert self._commits is not None
        return self._commits.stable(partitions, self._reader())

    def _reader(self) -> GroupMemberId:
        identity = self._thread.member.identity if self._thread is not None else None
        return identity or OUTSIDER

    def commit_later(
        self, offsets: Mapping[TopicPartition, ReadUpTo] | None = None
    ) -> "Future[None]":
        """Commits, in the order of the calls, in a separate thread; positions by default."""
        self.check_group()
        assert self._commits is not None
        return self._commits.later(self.positions() if offsets is None else offsets)

    def _store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Stores committed offsets, also for a group in ZooKeeper."""
        if self._thread is not None and self._thread.is_started:
            self._thread.store(offsets)

    def identity(self) -> GroupMemberId:
        """The identity to commit with; raises `ApiError` if the consumer lost its membership."""
        thread = self._thread
        if thread is None or not thread.is_started:
            return OUTSIDER
        identity = thread.member.identity
        if identity is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return identity

    def auto_commit(self) -> None:
        """Commits if it is due; does not wait for the response."""
        if not self.config.enable_auto_commit or self._commits is None:
            return
        now_s = time.monotonic()
        if now_s >= self._commit_due_s:
            self._commit_due_s = now_s + self.config.auto_commit_interval_ms / MILLISECONDS
            # A failed commit is retried with the next one.
            self.commit_later()

    def _commit_quietly(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commits where the next owner continues; if it fails, records are read twice."""
        positions = self.positions()
        if partitions is not None:
            positions = {one: at for one, at in positions.items() if one in partitions}
        try:
            self.commit_later(positions).result()
        except UserError:
            return

    # Waiting, and the end

    def wait(self, timeout_s: float | None) -> None:
        """Waits until something may have arrived."""
        with self._changed:
            if not self._has_something():
                self._changed.wait(self.patience_s(timeout_s))

    def _has_something(self) -> bool:
        return self.is_closed or self.attention or self._queue.has_chunk()

    def patience_s(self, timeout_s: float | None) -> float | None:
        """The maximum wait: failed work is retried."""
        left_s = self._next_work_s - time.monotonic()
        if self.has_work() or left_s > 0:
            return max(0.001, min(left_s, WORK_PAUSE_S if timeout_s is None else timeout_s))
        return timeout_s

    def has_something(self) -> bool:
        with self._changed:
            return self._has_something()

    def _notify(self) -> None:
        """Under the lock: notifies of a change."""
        thread = self._thread
        if thread is not None:
            is_concerned = bool(thread.member.events) or thread.failure is not None
            self.attention |= is_concerned or self._is_commit_due()
        self._changed.notify_all()
        for wake in self.wakers:
            wake()

    def _is_commit_due(self) -> bool:
        return self.config.enable_auto_commit and time.monotonic() >= self._commit_due_s

    def check_open(self) -> None:
        if self._refusal is not None:
            raise ClosedError(self._refusal)

    def check_reads(self) -> None:
        """Raises `UserError` where no record can ever come, as Java's `KafkaConsumer.poll` does."""
        self.check_open()
        is_member = self._thread is not None and self._thread.is_started
        if not is_member and self._alone is None and not self._queue.readings:
            raise UserError(
                "this consumer reads nothing; call subscribe([TOPIC]) or assign({(TOPIC, 0): 0})"
            )

    def check_group(self) -> str:
        self.check_open()
        if self.group is None:
            raise UserError("this consumer has no group; create it with group=NAME")
        return self.group

    def farewell(self) -> Event | None:
        """The event by which the application learns what it loses by closing."""
        with self._changed:
            if self._thread is None or not self._thread.member.owned:
                return None
            return Event(EventKind.REVOKED, self._thread.member.owned)

    def abandon(self) -> None:
        """In a forked child, which has none of the threads, and may have the locks of one."""
        if self._handed is not None:
            self._handed.end()
        self._changed = threading.Condition()
        self.is_closed = self.attention = True
        self._refusal = self._refusal or FORKED

    def check_process(self) -> None:
        """Raises `ClosedError` in a forked child, where iteration does not just end."""
        if self._refusal == FORKED:
            self.check_open()

    def close(self, *, commits: bool = True) -> None:
        """Commits, leaves the group, and stops the threads; may block."""
        if self.is_closed:
            return
        if commits and self.config.enable_auto_commit and self._commits is not None:
            self._commit_quietly()
        self.is_closed = True
        self._refusal = CLOSED
        with self._changed:
            self._notify()
        if self._commits is not None:
            self._commits.close()
        if self._thread is not None:
            self._thread.stop()
        self._fetcher.stop()
        self._cluster.close()
