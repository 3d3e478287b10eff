"""Dead letters: records that a share group gives up are noted in a topic of the group's (KIP-1191).

A record that was rejected, or delivered too often, is written there with headers that say where it
was, and then is final; also if it could not be written, which is logged. A leader goes on with what
the one before it had not finished, so that a dead letter may be there twice. Kafka's counterpart:
`ShareGroupDLQManager`.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Final, NamedTuple, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import Budget
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.membership.dead_letter_requests import DeadLetterRequest
from ottla.broker.records.appends import Appends
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic, TopicCreator, Topics
from ottla.broker.waiting.rooms import DelayedOperation
from ottla.coordinator.share.records_in_flight import ReturnReason
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import Record, read_records
from ottla.storage.log.offsets import Isolation

logger = logging.getLogger(__name__)

AT_ONCE: Final = 100
"""Records that are written in one go, which takes about a millisecond."""

COMMIT_WITHIN_MS: Final = 30_000.0
COPY_SIZE: Final = 1 << 20
"""Bytes that are read at once of records that are copied."""

PREFIX: Final = "__dlq.errors."
MOST_TRIES: Final = 5
PAUSE_MS: Final = 1000.0
"""Between two tries to reach a leader."""

MESSAGES: Final = {
    ReturnReason.REJECTED: "Record was rejected by a member",
    ReturnReason.RELEASED: "Delivery count limit reached, after it was released",
    ReturnReason.LOCK_EXPIRED: "Delivery count limit reached, after its lock had expired",
    ReturnReason.MEMBER_LOST: "Delivery count limit reached, after its member was lost",
    ReturnReason.UNKNOWN: "Given up under an earlier leader",
}


class DeadRecords(NamedTuple):
    """Neighbouring records that are given up; `done` is called once they are dealt with."""

    group_id: str
    partition: Partition
    first: int
    last: int
    delivery_count: int
    reason: ReturnReason
    done: Callable[[int, int], None]
    tries: int = 0


class LettersReplicas(Protocol):
    def commit_by(self, deadline_ms: float) -> DelayedOperation | None: ...

    def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        """The leader and its epoch; -1 for none."""

    def make_internal(self, new: NewTopic, creator: TopicCreator) -> Topic:
        """Creates a topic, where that is not the controller's part; raises `ApiError`."""


class LettersChannel(Protocol):
    def send_dead_letters(self, request: DeadLetterRequest) -> None:
        """Sends a request to another broker; `DeadLetters.answered` gets the answer."""


class DeadLetterBroker(Protocol):
    """The parts of the broker that dead letters need."""

    topics: Topics
    appends: Appends
    settings: BrokerSettings
    budget: Budget

    node_id: int

    @property
    def replicas(self) -> LettersReplicas: ...

    @property
    def membership(self) -> LettersChannel: ...

    @property
    def admin(self) -> TopicCreator: ...


class DeadLetters:
    """Those that are still to be written, in short steps; `failed_count` are those that could not
    be.
    """

    def __init__(self, broker: DeadLetterBroker, timers: AllTimers) -> None:
        self._broker = broker
        self._waiting: deque[DeadRecords] = deque()
        self._timer: Timers[str | DeadRecords] = timers.new_room()
        """`NEXT`, and what is tried again."""
        self._sent: dict[int, DeadRecords] = {}
        self._numbers = count()
        self._at = Timestamps(now_ms=0, monotonic_ms=0.0)
        self.written_count = 0
        self.failed_count = 0

    def add(self, dead: DeadRecords) -> None:
        self._waiting.append(dead)
        self._timer.set(NEXT, 0.0)

    def advance(self, at: Timestamps) -> None:
        self._at = at
        for one in self._timer.take_all_due(at.monotonic_ms):
            if isinstance(one, DeadRecords):
                self._waiting.append(one)
        while self._waiting:
            self._write_some(at)
            if self._broker.budget.is_spent():
                self._timer.set(NEXT, 0.0)
                return

    def answered(self, number: int, error: ErrorCode | None, at: Timestamps) -> None:
        """Takes the answer of the broker that leads the partition; `None` if none came."""
        dead = self._sent.pop(number)
        if error is ErrorCode.NONE:
            self._finish(dead, None)
        elif dead.tries < MOST_TRIES:
            self._timer.set(dead._replace(tries=dead.tries + 1), at.monotonic_ms + PAUSE_MS)
        else:
            what = "its leader did not answer" if error is None else error.description
            self._finish(dead, what)

    def _write_some(self, at: Timestamps) -> None:
        dead = self._waiting.popleft()
        last = min(dead.last, dead.first + AT_ONCE - 1)
        if last < dead.last:
            self._waiting.appendleft(dead._replace(first=last + 1))
        part = dead._replace(last=last)
        try:
            self._write(part, at)
        except ApiError as error:
            self._finish(part, error.message)

    def _write(self, dead: DeadRecords, at: Timestamps) -> None:
        """Raises `ApiError`."""
        topic = self._topic_of(dead.group_id)
        builder = RecordBatchBuilder()
        for record in self._letters(dead):
            builder.append(record.key, record.value, at.now_ms, record.headers)
        index = dead.partition.index % topic.partition_count
        place = TopicPartition(topic.name, index)
        leader, _ = self._broker.replicas.leader_of(place)
        if leader != self._broker.node_id:
            self._send(dead, leader, place, topic, builder)
            return
        partition = topic.partition(index)
        info = self._broker.appends.append(
            partition, memoryview(builder.build_writable()), now_ms=at.now_ms
        )
        pending = None
        if partition.replication is not None:
            pending = self._broker.replicas.commit_by(at.monotonic_ms + COMMIT_WITHIN_MS)
        if pending is None or partition.replication is None:
            self._finish(dead, None)
            return
        pending.then = partial(self._committed, dead, pending)
        partition.replication.await_commit(pending, info.last_offset + 1)
        pending.all_awaited()

    def _send(
        self,
        dead: DeadRecords,
        leader: int,
        place: TopicPartition,
        topic: Topic,
        builder: RecordBatchBuilder,
    ) -> None:
        number = next(self._numbers)
        self._sent[number] = dead
        if leader < 0:
            self.answered(number, None, self._at)
            return
        records = builder.build()
        self._broker.membership.send_dead_letters(
            DeadLetterRequest(number, leader, place, topic.topic_id, records)
        )

    def _committed(self, dead: DeadRecords, pending: DelayedOperation) -> None:
        error = next(iter(pending.errors.values()), None)
        self._finish(dead, None if error is None else error.description)

    def _finish(self, dead: DeadRecords, failure: str | None) -> None:
        number = dead.last - dead.first + 1
        if failure is None:
            self.written_count += number
        else:
            self.failed_count += number
            logger.error(
                "share group %s gives up %s-%d, offsets %d to %d, without a dead letter: %s",
                dead.group_id,
                dead.partition.topic,
                dead.partition.index,
                dead.first,
                dead.last,
                failure,
            )
        dead.done(dead.first, dead.last)

    # The topic

    def _topic_of(self, group_id: str) -> Topic:
        """Raises `ApiError` if dead letters may not be written there."""
        config = self._broker.settings.config
        name = self._broker.settings.groups.of(group_id).errors_deadletterqueue_topic_name
        prefix = config.errors_deadletterqueue_topic_name_prefix
        if not name.startswith(prefix):
            raise _refusal(
                f"the name of topic {name} does not begin with {prefix!r}, as "
                "errors.deadletterqueue.topic.name.prefix wants"
            )
        topic = self._broker.topics.find(name)
        if topic is None and config.errors_deadletterqueue_auto_create_topics_enable:
            enabled = {"errors.deadletterqueue.group.enable": "true"}
            topic = self._broker.replicas.make_internal(
                NewTopic(name=name, overrides=enabled), self._broker.admin
            )
        if topic is None:
            raise _refusal(
                f"there is no topic {name} on this broker: create it, or set "
                "errors.deadletterqueue.auto.create.topics.enable=true"
            )
        if not topic.config.errors_deadletterqueue_group_enable:
            raise _refusal(
                f"topic {name} takes no dead letters: set "
                "errors.deadletterqueue.group.enable=true for it"
            )
        return topic

    # The records

    def _letters(self, dead: DeadRecords) -> Iterator[Record]:
        copies = {}
        if self._broker.settings.groups.of(dead.group_id).errors_deadletterqueue_copy_record_enable:
            copies = {one.offset: one for one in _originals(dead)}
        for offset in range(dead.first, dead.last + 1):
            original = copies.get(offset)
            headers = _headers(dead, offset)
            if original is None:
                yield Record(offset=offset, headers=headers)
            else:
                yield Record(
                    offset=offset,
                    key=original.key,
                    value=original.value,
                    headers=(*original.headers, *headers),
                )


def _headers(dead: DeadRecords, offset: int) -> tuple[tuple[str, bytes | None], ...]:
    values = {
        "topic": dead.partition.topic,
        "partition": dead.partition.index,
        "offset": offset,
        "group": dead.group_id,
        "delivery.count": dead.delivery_count,
        "message": MESSAGES[dead.reason],
    }
    return tuple((f"{PREFIX}{name}", str(value).encode()) for name, value in values.items())


def _originals(dead: DeadRecords) -> Iterator[Record]:
    """The records as far as they are at hand; without them the dead letter names their place."""
    offset = dead.first
    reader = dead.partition.log.reader
    while offset <= dead.last:
        try:
            found = reader.read(offset, COPY_SIZE, Isolation.HIGH_WATERMARK).records
            if found is None:
                return
            batches = list(iter_batches(found.read(), allow_torn_tail=True))
            if not batches:
                return
            for batch in batches:
                for record in read_records(batch):
                    if dead.first <= record.offset <= dead.last:
                        yield record
                offset = batch.next_offset
                if offset > dead.last:
                    return
        except (ApiError, StorageError, CorruptionError, InvalidBatchError) as error:
            logger.error(
                "a dead letter of share group %s has no copy of its record: %s",
                dead.group_id,
                error,
            )
            return


def _refusal(reason: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
