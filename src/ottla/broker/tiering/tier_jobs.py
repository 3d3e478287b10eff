"""Which work on the tier is due, and how far it is: jobs, and when one is tried again.

Each round looks at every tiered partition, a few at a time; what is due becomes a job. Of a
partition one job copies and one deletes at a time. While the store fails, one job at a time tries
whether it answers again.

Threads carry out the deeds (`runtime/tier_worker.py`); everything here runs under the broker's
lock. Kafka's counterparts: `RemoteLogManager.doHandleLeaderPartition`, its three pools of threads.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, OttlaError
from ottla.base.ids import Uuid
from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.tiering import expiring
from ottla.broker.tiering.building import Build, build_replica
from ottla.broker.tiering.copying import copy_segments, next_candidate
from ottla.broker.tiering.expiring import delete_partition, expire, is_due, turn_off
from ottla.broker.tiering.lost_epochs import add_epochs, lacks_epochs
from ottla.broker.tiering.remote_log_metadata import Publication
from ottla.broker.tiering.steps import Deed, InTurns, Step, Steps, Until
from ottla.broker.tiering.tier import Tier
from ottla.broker.tiering.tier_troubles import TierTrouble
from ottla.broker.tiering.tiered_partition import TieredPartition
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic, Topics
from ottla.storage.remote.remote_storage import TierError
from ottla.storage.remote.segment_index import SegmentIndex

logger = logging.getLogger(__name__)

LOOKS_PER_CALL: Final = 32
SEGMENTS_PER_CALL: Final = 2000
"""How many partitions, and segments of theirs, are looked at in one call: 3 ms."""

TOPICS_PER_CALL: Final = 2000
"""How many topics one call passes, most of which may have no tier: 1 ms."""

ADVANCES_PER_CALL: Final = 4
"""How many jobs one call begins, and how many it continues: each up to its next deed takes up to
half a millisecond.
"""

NOT_READY_MS: Final = 500
"""When a partition is looked at again whose metadata is still being read."""

PUBLICATION_MS: Final = 20
"""How often it is asked whether other replicas have a record of metadata."""

TURNING_OFF: Final = "turning off the tier"

Key = tuple[Uuid, int]


class JobKind(Enum):
    """What a job does; those that turn a tier off, or delete a partition's uploads, also expire.
    Those that build begin a follower's replica, or complete the leader epochs of a log.
    """

    COPY = "copy"
    EXPIRE = "expire"
    BUILD = "build"


@dataclass(slots=True, eq=False)
class Job:
    """Work of one partition. `step` is what it waits for."""

    kind: JobKind
    key: Key
    name: str
    steps: Steps[None]
    step: Step | None = None
    result: Any = None
    error: Exception | None = None

    def carry_out(self) -> None:
        """Carries out the deed that the job waits for; its error is the job's.

        Nothing, if the job was ended before a thread came to it.
        """
        step = self.step
        if not isinstance(step, Deed | InTurns):
            return
        try:
            self.result = step.carry_out()
        except Exception as error:
            self.error = error

    @property
    def is_in_turns(self) -> bool:
        """Whether the deed needs the broker's lock."""
        return isinstance(self.step, InTurns)


@dataclass(slots=True)
class _Failing:
    """`since_ms` is wall time; `of_store`: whether the store has failed, or something here."""

    name: str
    since_ms: int
    count: int
    cause: str
    reason: str
    of_store: bool


class TierJobs:
    """`random_below` gives waits their jitter."""

    def __init__(self, tier: Tier, topics: Topics, random_below: Callable[[int], int]) -> None:
        self._tier = tier
        self._topics = topics
        self._random_below = random_below
        self._tiered: dict[Key, TieredPartition] = {}
        self._to_visit: deque[Topic] = deque()
        """The topics that a round has not come to."""
        self._is_in_round = False
        self._seen: set[Key] = set()
        """The tiered partitions that the round has come to."""
        self._to_look: deque[tuple[Topic, Partition]] = deque()
        self._next_round_ms = 0.0
        self._again: Timers[tuple[str, Uuid, int]] = Timers()
        """By topic's name and id, and partition: when it is looked at again before its round."""
        self._queued: dict[tuple[JobKind, Key], Callable[[], Job]] = {}
        self._running: dict[tuple[JobKind, Key], Job] = {}
        self._parked: dict[Job, None] = {}
        self._failing: dict[tuple[JobKind, Key], _Failing] = {}
        self._store_failures = 0
        self._store_retry_ms = 0.0
        self.has_troubles_to_tell = True
        """At first too: what an earlier process has told may be over."""
        tier.on_answer = self._store_answered

    def __len__(self) -> int:
        """The number of jobs that run or wait for a thread."""
        return len(self._running) + len(self._queued)

    @property
    def partitions(self) -> Iterator[TieredPartition]:
        """The tiered partitions that the last rounds have seen."""
        return iter(self._tiered.values())

    @property
    def counts(self) -> dict[JobKind, int]:
        """How many jobs of each kind run, or wait for a thread."""
        kinds = Counter(kind for kind, _ in [*self._running, *self._queued])
        return {kind: kinds[kind] for kind in JobKind}

    def take_troubles(self) -> list[TierTrouble] | None:
        """What fails now; `None` if that was taken already."""
        if not self.has_troubles_to_tell:
            return None
        self.has_troubles_to_tell = False
        found = [
            TierTrouble(
                what=one.name, since_ms=one.since_ms, reason=one.reason, of_store=one.of_store
            )
            for one in self._failing.values()
        ]
        for tiered in self._tiered.values():
            if tiered.copy_refusal is not None:
                since_ms, reason = tiered.copy_refusal
                what = f"copying {tiered.id}"
                found.append(TierTrouble(what=what, since_ms=since_ms, reason=reason, is_over=True))
        return found

    def _running_count(self, kind: JobKind) -> int:
        return sum(one is kind for one, _ in self._running)

    # For threads

    def begin(self, at: Timestamps) -> list[Job]:
        """Looks at some partitions, begins jobs and continues others; returns those whose deeds are
        to be carried out, each by one thread.
        """
        self._tier.now = at
        self._tier.metadata.advance(at)
        ready = [one for one in list(self._parked) if self._is_over(one)][:ADVANCES_PER_CALL]
        for job in ready:
            del self._parked[job]
            self._advance(job)
        self._look_at_some()
        ready += self._start_some()
        return [one for one in ready if isinstance(one.step, Deed | InTurns)]

    def resume(self, job: Job, at: Timestamps) -> bool:
        """Continues a job whose deed was carried out; returns whether it has another one now."""
        if self._running.get((job.kind, job.key)) is not job:
            return False  # it was ended meanwhile
        self._tier.now = at
        self._advance(job)
        return isinstance(job.step, Deed | InTurns)

    @property
    def next_due_ms(self) -> float:
        """When `begin` has something to do, on the monotonic clock."""
        now_ms = self._tier.now.monotonic_ms
        if self._to_look or self._is_in_round or self._next_job() is not None:
            return now_ms
        due_ms = self._next_round_ms
        again_ms = self._again.next_deadline_ms
        if again_ms is not None:
            due_ms = min(due_ms, again_ms)
        if self._queued and self._tier.counts.failing_since_ms is not None:
            due_ms = min(due_ms, max(self._store_retry_ms, now_ms + PUBLICATION_MS))
        for job in self._parked:
            if self._is_over(job):
                return now_ms
            match job.step:
                case Until() as until:
                    due_ms = min(due_ms, until.monotonic_ms)
                case _:
                    due_ms = min(due_ms, now_ms + PUBLICATION_MS)
        return due_ms

    def close(self) -> None:
        """Ends all jobs where they are, as a kill would: the next start cleans up after them."""
        running = list(self._running.values())
        self._running.clear()
        self._parked.clear()
        self._queued.clear()
        for job in running:
            job.step = None
            job.steps.close()

    # Rounds

    def look_again(self) -> None:
        """Begins the next round at once."""
        self._next_round_ms = 0.0

    def _look_at_some(self) -> None:
        now_ms = self._tier.now.monotonic_ms
        if not self._is_in_round and not self._to_look and now_ms >= self._next_round_ms:
            self._begin_round()
        for name, topic_id, index in self._again.take_all_due(now_ms):
            topic = self._topics.find(name)
            if topic is not None and topic.topic_id == topic_id and index in topic.partitions:
                self._to_look.appendleft((topic, topic.partitions[index]))
        looked = segments = visited = 0
        while looked < LOOKS_PER_CALL and segments < SEGMENTS_PER_CALL:
            if self._to_look:
                topic, partition = self._to_look.popleft()
                if topic.partitions.get(partition.index) is partition:
                    segments += self._look_at(topic, partition)
                    looked += 1
            elif self._to_visit and visited < TOPICS_PER_CALL:
                self._visit(self._to_visit.popleft())
                visited += 1
            else:
                break
        if self._is_in_round and not self._to_visit and not self._to_look:
            self._end_round()

    def _begin_round(self) -> None:
        now_ms = self._tier.now.monotonic_ms
        self._next_round_ms = now_ms + self._tier.config().remote_log_manager_task_interval_ms
        self._is_in_round = True
        self._to_visit.extend(self._topics)
        self._seen.clear()

    def _visit(self, topic: Topic) -> None:
        config = topic.config
        is_here = self._topics.find(topic.name) is topic
        if is_here and (config.remote_storage_enable or config.remote_log_delete_on_disable):
            for index, partition in topic.partitions.items():
                self._to_look.append((topic, partition))
                self._seen.add((topic.topic_id, index))

    def _end_round(self) -> None:
        self._is_in_round = False
        for key in self._tiered.keys() - self._seen:
            self._forget(key)
        for index in [one for one in self._tier.metadata.indexes() if one.deletion is not None]:
            self._look_at_deleted(index)

    def _forget(self, key: Key) -> None:
        self._tiered.pop(key, None)
        self.has_troubles_to_tell = True
        for kind in JobKind:
            self._succeeded((kind, key))

    def _look_at(self, topic: Topic, partition: Partition) -> int:
        """Queues what is due of a partition; returns the number of segments that were looked at."""
        key, metadata = (topic.topic_id, partition.index), self._tier.metadata
        if partition.is_offline:
            return 0
        metadata.watch(*key)
        if not metadata.is_ready(*key):
            self._look_later(topic, partition, NOT_READY_MS)
            return 0
        tiered = self._tiered.get(key)
        if tiered is None or tiered.partition is not partition or not self._is_same(tiered):
            tiered = self._tiered[key] = TieredPartition(
                topic, partition, self._tier.now.monotonic_ms
            )
        index = metadata.index_of(*key)
        if lacks_epochs(tiered, index):
            tier, what = self._tier, f"completing the leader epochs of {tiered.id}"
            self._queue(JobKind.BUILD, key, what, lambda: add_epochs(tier, tiered))
            return partition.log.segment_count
        is_turned_off = not topic.config.remote_storage_enable
        if not is_turned_off and not self._is_being_turned_off(key):
            tiered.note_highest(index)
        if tiered.is_led:
            self._queue_due(tiered, index)
        return partition.log.segment_count + (0 if index is None else min(len(index), expiring.FEW))

    def _is_same(self, tiered: TieredPartition) -> bool:
        return tiered.leader_epoch == tiered.partition.leader_epoch

    def _is_being_turned_off(self, key: Key) -> bool:
        """Whether uploads are still being deleted of a tier that was turned off, and perhaps on
        again since.
        """
        job = self._running.get((JobKind.EXPIRE, key))
        return job is not None and job.name.startswith(TURNING_OFF)

    def _queue_due(self, tiered: TieredPartition, index: SegmentIndex | None) -> None:
        key = tiered.id.topic_id, tiered.id.partition
        tier, name = self._tier, str(tiered.id)
        is_copying = (JobKind.COPY, key) in self._running
        if tiered.is_disabled:
            if index is not None and len(index) and not is_copying:
                self._queued.pop((JobKind.COPY, key), None)
                what = f"{TURNING_OFF} of {name}"
                self._queue(JobKind.EXPIRE, key, what, lambda: turn_off(tier, tiered))
            return
        if self._is_being_turned_off(key):
            return  # what it deletes must not be taken to be in the tier
        if next_candidate(tier, tiered) is not None:
            what = f"copying {name}"
            self._queue(JobKind.COPY, key, what, lambda: copy_segments(tier, tiered))
        if is_due(tier, tiered):
            what = f"expiring {name}"
            self._queue(JobKind.EXPIRE, key, what, lambda: expire(tier, tiered))

    def _look_at_deleted(self, index: SegmentIndex) -> None:
        """Queues the deletion of uploads of which a record says that their topic is deleted."""
        one = index.partition
        if index.deletion is None or self._tier.metadata.is_topic(one.topic_id):
            return
        key = one.topic_id, one.partition
        if (JobKind.COPY, key) in self._running:
            return  # what it still uploads must not stay
        if self._tier.metadata.is_writer_of(*key):
            tier = self._tier
            what = f"deleting the uploads of {one}"
            self._queue(JobKind.EXPIRE, key, what, lambda: delete_partition(tier, index))

    def _look_later(self, topic: Topic, partition: Partition, wait_ms: float) -> None:
        due_ms = self._tier.now.monotonic_ms + wait_ms
        self._again.set((topic.name, topic.topic_id, partition.index), due_ms)

    # Jobs

    def build(self, wanted: Build) -> None:
        """Begins a follower's replica with what the tier has of its state."""
        key = wanted.topic_id, wanted.partition.index
        name = f"building {wanted.partition.topic}-{wanted.partition.index}"
        tier = self._tier
        place = JobKind.BUILD, key
        # Also if one runs: it may be of an earlier leader epoch, and is then wanted no more.
        self._queued[place] = lambda: Job(*place, name, build_replica(tier, wanted))

    def _queue(self, kind: JobKind, key: Key, name: str, steps: Callable[[], Steps[None]]) -> None:
        if (kind, key) not in self._running:
            self._queued[kind, key] = lambda: Job(kind, key, name, steps())

    def _next_job(self) -> tuple[JobKind, Key] | None:
        """What may begin now: not more than the store, and the number of threads, allow."""
        now_ms = self._tier.now.monotonic_ms
        if self._store_failures and (self._running or now_ms < self._store_retry_ms):
            return None
        config = self._tier.config()
        limits = {
            JobKind.COPY: config.copier_count - self._running_count(JobKind.COPY),
            JobKind.EXPIRE: config.expiration_count - self._running_count(JobKind.EXPIRE),
            JobKind.BUILD: config.remote_log_manager_thread_pool_size
            - self._running_count(JobKind.BUILD),
        }
        free = (one for one in self._queued if limits[one[0]] > 0 and one not in self._running)
        return next(free, None)

    def _start_some(self) -> list[Job]:
        started: list[Job] = []
        while len(started) < ADVANCES_PER_CALL and (found := self._next_job()) is not None:
            job = self._queued.pop(found)()
            self._running[found] = job
            self._advance(job)
            started.append(job)
        return started

    def _advance(self, job: Job) -> None:
        """Runs a job up to the next deed, or until it has to wait, or ends."""
        while True:
            try:
                error, job.error = job.error, None
                result, job.result = job.result, None
                job.step = job.steps.send(result) if error is None else job.steps.throw(error)
            except StopIteration:
                self._end(job, None)
                return
            except Exception as error:
                self._end(job, error)
                return
            if isinstance(job.step, Deed | InTurns):
                return
            if not self._is_over(job):
                self._parked[job] = None
                return

    def _is_over(self, job: Job) -> bool:
        """Whether what a job waits for has come."""
        match job.step:
            case Publication() as published:
                return published.is_applied or published.error is not None
            case Until() as until:
                return self._tier.now.monotonic_ms >= until.monotonic_ms
        return False

    def _end(self, job: Job, error: Exception | None) -> None:
        place = job.kind, job.key
        job.step = None
        del self._running[place]
        if error is None:
            self._succeeded(place)
            return
        self._failed(job, error)

    def _succeeded(self, place: tuple[JobKind, Key]) -> None:
        failing = self._failing.pop(place, None)
        tiered = self._tiered.get(place[1])
        is_refused = tiered is not None and tiered.copy_refusal is not None
        self.has_troubles_to_tell |= failing is not None or is_refused
        if failing is not None and failing.of_store:
            self._note_store()

    def _failed(self, job: Job, error: Exception) -> None:
        """Looks at the partition again after a wait; logs each cause once."""
        place, now = (job.kind, job.key), self._tier.now
        of_store = isinstance(error, TierError)
        known = self._failing.get(place)
        failing = self._failing[place] = _Failing(
            name=job.name,
            since_ms=now.now_ms if known is None else known.since_ms,
            count=1 if known is None else known.count + 1,
            cause=f"{type(error).__name__}: {error}",
            reason=str(error),
            of_store=of_store,
        )
        self.has_troubles_to_tell = True
        wait_ms = self._wait_ms(failing.count)
        if of_store:
            self._store_failures += 1
            wait_ms = self._wait_ms(self._store_failures)
            self._store_retry_ms = now.monotonic_ms + wait_ms
            self._note_store()
        elif not self._is_handed_over(job, error) and (
            known is None or known.cause != failing.cause
        ):
            is_ours = not isinstance(error, OttlaError | ApiError)
            logger.error(
                "%s failed, and will be tried again: %s", job.name, error, exc_info=is_ours
            )
        tiered = self._tiered.get(job.key)
        if tiered is not None:
            self._look_later(tiered.topic, tiered.partition, wait_ms)

    def _is_handed_over(self, job: Job, error: Exception) -> bool:
        """Whether another replica leads because of damage in the log that was to be copied."""
        tiered = self._tiered.get(job.key)
        if job.kind is not JobKind.COPY or not isinstance(error, CorruptionError):
            return False
        if tiered is None or tiered.partition.replication is None:
            return False
        refusal = tiered.partition.damaged(error, "copy")
        return refusal.code is ErrorCode.KAFKA_STORAGE_ERROR

    def _note_store(self) -> None:
        """Since when the store fails: since the first job failed that has not succeeded since."""
        of_store = [one for one in self._failing.values() if one.of_store]
        if not of_store:
            self._tier.answers_again()
            return
        first = min(of_store, key=lambda one: one.since_ms)
        self._tier.fails(first.since_ms, of_store[-1].cause)

    def _store_answered(self) -> None:
        """Ends the wait of all jobs, since the store did what one has asked."""
        self._store_failures = 0

    def _wait_ms(self, failure_count: int) -> float:
        """Kafka: `ExponentialBackoff`, with the settings `remote.log.manager.task.retry.*`."""
        config = self._tier.config()
        first, most = (
            config.remote_log_manager_task_retry_backoff_ms,
            config.remote_log_manager_task_retry_backoff_max_ms,
        )
        wait_ms = min(first * float(1 << min(failure_count - 1, 20)), most)
        part = self._random_below(2001) / 1000 - 1
        return wait_ms * (1 + config.remote_log_manager_task_retry_jitter * part)
