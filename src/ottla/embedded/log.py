"""`ottla.open`: topics, appends and reads in process, over Kafka's own files.

Calls may come from any thread; one lock orders them. What the operating system keeps of an append
that has returned: it survives the death of the process; `flush` makes it survive a power failure.
"""

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar, cast, overload

from ottla.base.addresses import parse_address
from ottla.base.clock import read_clock
from ottla.base.errors import ApiError, StorageError, UserError
from ottla.base.files import Buffer
from ottla.base.open_files import max_open_files
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import NewTopic, Topic
from ottla.broker.waiting import Waiting
from ottla.codec.compression import Compression
from ottla.config.group_coordinator import with_local_defaults
from ottla.config.listeners import Listener, client_listeners
from ottla.config.setting import value_text
from ottla.embedded import live_reading
from ottla.embedded.compacting import CompactedPartition, check_compaction, compact_partition
from ottla.embedded.environment import Environment
from ottla.embedded.followed import FollowedLog
from ottla.embedded.listening import Listening
from ottla.embedded.memory import MEMORY, leave, make_directory
from ottla.embedded.pending import PendingAnswers
from ottla.embedded.readable import ReadableLog
from ottla.embedded.scanning import Region
from ottla.record.builder import RecordBatchBuilder
from ottla.record.partitioner import partition_for_key
from ottla.runtime.cleaning import Cleaning, Engine, ThreadEngine
from ottla.runtime.flusher import Flusher
from ottla.runtime.forks import bind_to_process
from ottla.runtime.interrupts import HeldInterrupts
from ottla.runtime.open_files import allow_open_files
from ottla.runtime.opening import open_broker
from ottla.runtime.owner_notes import OwnerNotes
from ottla.runtime.ticker import Ticker
from ottla.storage.log.append import LongPreparationError
from ottla.storage.log.reader import Isolation

logger = logging.getLogger(__name__)

CLOSED = "this log is closed; open it again"
FORKED = (
    "this log was opened by the process that this one was forked from, and belongs to it; "
    "open the log after the fork, or start processes with multiprocessing's spawn"
)

TORN = "a call was interrupted in its middle; the next call recovers the log"

OUT_OF_ROOM = (MemoryError, RecursionError)
"""What may be raised at any place, though it is an ordinary exception."""

PAUSE_S = 0.001
MAX_WAIT_S = 1.0
"""After which a waiting thread looks whether a server still sees to the broker's deadlines."""

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMetadata:
    """Where an appended record lies."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


Paths = str | os.PathLike[str] | Sequence[str]


@overload
def open(
    path: Paths, settings: Mapping[str, Any] | None = None, *, read_only: Literal[False] = False
) -> "Log": ...


@overload
def open(
    path: Paths, settings: Mapping[str, Any] | None = None, *, read_only: Literal[True]
) -> FollowedLog: ...


def open(
    path: Paths, settings: Mapping[str, Any] | None = None, *, read_only: bool = False
) -> ReadableLog:
    """Opens a data directory, and makes it if it is missing. Use it in a `with` statement.

    Several paths are the log directories of one broker, as in Kafka's `log.dirs`; `":memory:"` is
    one that is gone when the log is closed.
    `settings` are a broker's, by Kafka's names, such as `{"log.segment.bytes": 1 << 20}`.
    With `read_only` nothing is written and nobody is kept out: a broker may run on the directory,
    Apache Kafka too, and what it appends is there to read. See `FollowedLog`.
    Raises `UserError` when the directory is in use or holds something else, or a setting is wrong.
    """
    if not read_only:
        return open_in(Environment(), path, settings)
    if path == MEMORY:
        raise UserError(f"{MEMORY} is a new log; it cannot be opened with read_only=True")
    if settings:
        raise UserError("settings are for a log that is written; leave them out with read_only")
    return FollowedLog(_paths(path))


def _paths(path: Paths) -> Sequence[str]:
    return [os.fspath(path)] if isinstance(path, str | os.PathLike) else path


def open_in(
    environment: Environment,
    path: Paths,
    settings: Mapping[str, Any] | None = None,
) -> "Log":
    """The same, to write too, in an environment that may be a test's."""
    given = settings or {}
    texts = with_local_defaults({name: value_text(value) for name, value in given.items()})
    on_close: Callable[[], None] = leave
    if path == MEMORY:
        path, on_close = make_directory()
    reopen = partial(_loaded_broker, _paths(path), texts, environment)
    log: Log | None = None
    try:
        # Between the directory's lock and the log that holds it, Ctrl-C would leave it locked.
        with HeldInterrupts():
            log = Log(reopen(), environment, reopen, on_close)
    except BaseException:
        if log is not None:
            log.close()
        else:
            on_close()
        raise
    return log


def _loaded_broker(
    paths: Sequence[str], settings: Mapping[str, str], environment: Environment
) -> Broker:
    clock = environment.clock
    broker = open_broker(paths, settings, clock=clock, file_system=environment.file_system)
    try:
        broker.transactions.loaded(read_clock(clock))
        broker.write_out()  # ends what a crash has cut off
    except BaseException:
        broker.close()
        raise
    return broker


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _done_whole(
    method: Callable[Concatenate["Log", Parameters], Result],
) -> Callable[Concatenate["Log", Parameters], Result]:
    """A call that changes the log: under its lock, and never left in the middle.

    What may come at any line (Ctrl-C, memory that is out) leaves an unknown state. Then
    only the disk counts: the log is recovered as after a crash, and the exception is raised.
    """

    @functools.wraps(method)
    def whole(self: "Log", *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        self._recover_if_torn()
        try:
            with self._lock:
                self._check_open()
                try:
                    return method(self, *args, **kwargs)
                except BaseException as error:
                    if not isinstance(error, Exception) or isinstance(error, OUT_OF_ROOM):
                        self._tear()
                    raise
        except BaseException as error:
            if not isinstance(error, Exception):
                # It may have come just before `with` released the lock, of which this is all.
                with suppress(RuntimeError):
                    self._lock.release()
            self._recover_if_torn()
            raise

    return cast(Callable[Concatenate["Log", Parameters], Result], whole)


class Log(ReadableLog):
    """An open data directory. All its topics are reachable from here."""

    def __init__(
        self,
        broker: Broker,
        environment: Environment,
        reopen: Callable[[], Broker],
        on_close: Callable[[], None] = leave,
    ) -> None:
        """`reopen` opens the same directories, once no log holds them."""
        self.broker = broker
        self.environment = environment
        self._clock = environment.clock
        self._reopen = reopen
        self._on_close = on_close
        self._lock = threading.RLock()
        self._listening: Listening | None = None
        self.pending = PendingAnswers()
        self._refusal: str | None = None
        """Why no call is carried out any more."""
        self._is_given_back = False
        """Whether the directories are no longer this log's, for it is closed or the parent's."""
        self._recovering = threading.RLock()
        self._is_torn = False
        """Whether a change ended in its middle, so that memory and disk may differ."""
        self._next_keyless = 0
        bind_to_process(self)
        self._start()

    def _start(self) -> None:
        self._ticker = Ticker(
            self.broker, clock=self._clock, lock=self._lock, settle=self._settle_tick
        )
        self._ticker.start()
        files = self.environment.file_system
        self._flusher = Flusher(self.broker, files, clock=self._clock, lock=self._lock)
        self._flusher.start()
        engine = ThreadEngine(files, self._lock)
        self._cleaning = Cleaning(self.broker, engine, clock=self._clock, lock=self._lock)
        self._cleaning.start()

    def _stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self._ticker.stop()
        self._flusher.stop()
        self._cleaning.stop()

    def _tear(self) -> None:
        """No thread may continue with what memory says, which need not be what the disk has."""
        self._is_torn = True
        for directory in self.broker.directories:
            directory.health.failure = StorageError(directory.path, TORN)

    def _recover_if_torn(self) -> None:
        """Opens the directories again as after a crash, in place of an unknown state."""
        if not self._is_torn:
            return
        with HeldInterrupts(), self._recovering:
            if not self._is_torn or self._refusal is not None:
                return
            self._stop()
            address = self._listening.address if self._listening is not None else None
            self._listening = None
            self._abandon_broker()
            self.broker = self._reopen()
            self._is_torn = False
            self._start()
            if address is not None:
                self._listening = self._serve(parse_address(address))

    def _abandon_broker(self) -> None:
        self.pending.end_all()
        for directory in self.broker.directories:
            directory.abandon()

    # One change at a time, for the connections of this process

    @_done_whole
    def hold(self, deed: Callable[[Broker, Timestamps], Any]) -> Any:
        """Carries out one change of the broker, and returns what `deed` returns.

        By then what was appended is written out, and who waited for it has an answer.
        """
        at = read_clock(self._clock)
        result = deed(self.broker, at)
        self.broker.write_out()
        if self._is_served:
            assert self._listening is not None
            self._listening.wake()
        else:
            self.pending.end_answered(self.broker, at)
        return result

    def wait_for(self, pending_id: Waiting[Any], broker: Broker) -> None:
        """Returns when a broker has handed a pending id back, to any thread.

        Where no server does, the calling thread has the broker see to deadlines that come. Raises
        `UserError` when the log is closed meanwhile, or recovered.
        """
        event = self.pending.event_of(pending_id)
        try:
            while event is not None and not event.wait(self.hold(self._advance)):
                pass
        except BaseException:
            self.pending.leave(pending_id)
            with self._lock:
                broker.cancel(pending_id)
            raise
        self._check_same(broker)

    def stop_waiting(self, pending_id: Waiting[Any], broker: Broker) -> None:
        """Has the thread that waits for an answer continue without one."""
        with self._lock:
            broker.cancel(pending_id)
            self.pending.end(pending_id)

    def _advance(self, broker: Broker, at: Timestamps) -> float:
        """Seconds until there is more to do."""
        if not self._is_served:
            broker.advance(at)
        deadline_ms = broker.next_answer_ms
        if deadline_ms is None or self._is_served:
            return MAX_WAIT_S
        return min(max((deadline_ms - at.monotonic_ms) / 1000, PAUSE_S), MAX_WAIT_S)

    @contextmanager
    def let_others_in(self, broker: Broker) -> Iterator[None]:
        """In the middle of a long `deed`, where others may see what it has done: frees the lock."""
        broker.write_out()
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
        self._check_same(broker)

    def _check_same(self, broker: Broker) -> None:
        self._check_open()
        if self.broker is not broker:
            raise UserError(TORN)

    @property
    def _is_served(self) -> bool:
        """Whether a server's loop takes the broker's answers and sees to its deadlines."""
        return self._listening is not None and self._listening.is_open

    def run_due_jobs(self) -> None:
        """Does at once what the time that has passed asks for; for clocks that a test moves."""
        while self._ticker.tick():
            pass
        self._flusher.flush_due()
        self._cleaning.look_again()
        if self._is_served:
            assert self._listening is not None
            self._listening.wake()

    def crash(self) -> None:
        """Ends as a killed process does: nothing is flushed, and the directories are let go."""
        self._refusal = CLOSED
        self._stop()
        with self._lock:
            self._abandon_broker()
            self._is_given_back = True

    def _settle_tick(self) -> None:
        try:
            self.hold(lambda broker, at: None)
        except (StorageError, UserError) as error:
            # `close` refuses all calls before it stops the ticker, and flushes what is left.
            if self._refusal is None or isinstance(error, StorageError):
                logger.error("what came due could not be written: %s", error)

    @contextmanager
    def looking(self) -> Iterator[Broker]:
        """The broker for a moment, under the log's lock, to look and change nothing."""
        self._recover_if_torn()
        with self._lock:
            self._check_open()
            yield self.broker

    # Topics

    def create_topic(
        self, name: str, *, partitions: int = 1, config: Mapping[str, Any] | None = None
    ) -> None:
        """Makes a topic; `config` are topic settings by Kafka's names. Raises `ApiError`."""
        overrides = {key: value_text(value) for key, value in (config or {}).items()}
        self._create_topic(NewTopic(name=name, partition_count=partitions, overrides=overrides))

    @_done_whole
    def _create_topic(self, new: NewTopic) -> None:
        with HeldInterrupts():
            self.broker.create_topic(new)

    @_done_whole
    def delete_topic(self, name: str) -> None:
        """Removes a topic with all its records. Raises `UserError` when there is none."""
        with HeldInterrupts():
            self.broker.delete_topic(self.find_topic(name))

    def topics(self) -> dict[str, int]:
        """The partition count of every topic by name."""
        self._recover_if_torn()
        with self._lock:
            self._check_open()
            return {topic.name: topic.partition_count for topic in self.broker.topics}

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """For each partition its first offset and the one that comes next."""
        self._recover_if_torn()
        with self._lock:
            partitions = self.find_topic(topic).partitions
            return {
                index: (one.log.log_start_offset, one.log.high_watermark)
                for index, one in sorted(partitions.items())
            }

    # Records

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Appends one record; a key chooses the partition as Kafka's clients do.

        Raises `ApiError` when the topic refuses the record.
        """
        time_ms = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        builder = RecordBatchBuilder()
        builder.append(key, value, time_ms, headers)
        return self._append(topic, key, partition, builder, time_ms)

    @_done_whole
    def _append(
        self,
        topic: str,
        key: bytes | None,
        partition: int | None,
        builder: RecordBatchBuilder,
        time_ms: int,
    ) -> RecordMetadata:
        chosen = self._choose_partition(topic, key, partition)
        offset = self._append_batch(topic, chosen, builder)
        return RecordMetadata(topic=topic, partition=chosen, offset=offset, timestamp_ms=time_ms)

    @_done_whole
    def append_batch(self, topic: str, partition: int, builder: RecordBatchBuilder) -> int:
        """Appends the records of a builder as one batch; returns the first one's offset."""
        return self._append_batch(topic, partition, builder)

    def append_many(
        self,
        topic: str,
        records: Any,
        *,
        partition: int | None = None,
        compression: Compression = Compression.NONE,
    ) -> dict[int, OffsetRange]:
        """Appends records in batches; returns the first offset and the end, by partition.

        `records` are values, tuples of key and value, objects with `key`, `value`, `timestamp_ms`
        and `headers`, or an Arrow table or a frame of pandas or polars with columns of `value`,
        and if there are any `key`, `headers`, `timestamp`, `partition`. Other threads may append
        in between, so that not all offsets of a range need be this call's. Raises `ApiError` and
        `UserError`; what was appended before stays.
        """
        from ottla.embedded.appending import ManyAppends

        appends = ManyAppends(self, topic, partition, compression)
        appends.append(records)
        return appends.written

    @_done_whole
    def append_built(self, topic: str, partition: int, data: Buffer) -> int:
        """Appends one encoded batch; returns the first record's offset."""
        return self._append_data(topic, partition, bytearray(data))

    @_done_whole
    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Deletes the records before offsets by partition; returns where each starts now."""
        wanted = {TopicPartition(topic, index): offset for index, offset in before.items()}
        for index in before:
            self.find_partition(topic, index)
        starts: dict[int, int] = {}
        with HeldInterrupts():
            for place, start in self.broker.admin.delete_records(wanted).items():
                if isinstance(start, ApiError):
                    raise start
                starts[place.partition] = start
        return starts

    def _append_batch(self, topic: str, partition: int, builder: RecordBatchBuilder) -> int:
        return self._append_data(topic, partition, bytearray(builder.build()))

    def _append_data(self, topic: str, partition: int, batch: bytearray) -> int:
        found = self.find_partition(topic, partition)
        now_ms = self._clock.now_ms()
        try:
            info = self.broker.append(found, batch, now_ms=now_ms)
        except LongPreparationError as long:
            info = self.broker.append(found, long.prepare(), now_ms=now_ms)
        self.broker.write_out()
        if self.broker.has_answers:
            if self._is_served:
                assert self._listening is not None
                self._listening.wake()
            else:
                self.pending.end_answered(self.broker, read_clock(self._clock))
        return info.first_offset

    def _choose_partition(self, topic: str, key: bytes | None, partition: int | None) -> int:
        if partition is not None:
            return partition
        count = self.find_topic(topic).partition_count
        if key is not None:
            return partition_for_key(key, count)
        self._next_keyless += 1
        return self._next_keyless % count

    def regions(self, place: TopicPartition, offset: int, end: int) -> Iterator[Region]:
        return live_reading.regions(self, place, offset, end)

    def stable_ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        return live_reading.stable_ends(self, topic, partitions)

    def wait_for_records(self, topic: str, offsets: Mapping[int, int], seconds: float) -> bool:
        return live_reading.wait_for_records(self, topic, offsets, seconds)

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        """By partition the first offset whose record is as late; `None` where there is none."""
        with self.looking() as broker:
            isolation = Isolation.LAST_STABLE
            found = {
                index: broker.find_offset(topic, index, timestamp_ms, isolation=isolation)
                for index in sorted(self.find_topic(topic).partitions)
            }
        return {index: None if one is None else one.offset for index, one in found.items()}

    # Durability, serving, and the end

    @_done_whole
    def flush(self) -> None:
        """fsyncs everything that was appended. Raises `StorageError` if the disk fails."""
        with HeldInterrupts():
            for topic in self.broker.topics:
                for partition in topic.partitions.values():
                    partition.log.writer.flush()

    def compact(self, topic: str, engine: Engine | None = None) -> list[CompactedPartition]:
        """Compacts a topic now, up to the active segment of each partition.

        Whether it is due is not asked. The calling thread does it, or an engine such as
        `ottla.spark.compact.SparkEngine`. Raises `UserError` when the topic is not a compacted
        one, or cannot be compacted.
        """
        cleaning = self._cleaning
        if engine is not None:
            cleaning = Cleaning(self.broker, engine, clock=self._clock, lock=self._lock)
        partitions = check_compaction(self, topic)
        # Only what is on the disk is compacted.
        with HeldInterrupts():
            self._flusher.flush_due()
        return [compact_partition(self, cleaning, one) for one in partitions]

    def listen(self, address: str = "127.0.0.1:9092") -> Listening:
        """Serves Kafka clients on HOST:PORT (port 0: a free one) from a thread of its own.

        One address at a time: the broker hands what has been waited for to one loop. From then on
        the process may have more files open (`allow_open_files`).
        """
        self._check_open()
        if self._listening is not None and self._listening.is_open:
            raise UserError(f"this log listens on {self._listening.address}; close that first")
        wanted = parse_address(address)
        allow_open_files()
        self._listening = self._serve(wanted)
        return self._listening

    @_done_whole
    def _serve(self, address: tuple[str, int]) -> Listening:
        from ottla.server.embedding import Embedding
        from ottla.server.listener import Server

        self.broker.open_files.limit = max_open_files()
        advertised = client_listeners(self.broker.config)[0].advertised
        listener = Listener(name="PLAINTEXT", address=address, advertised=advertised)
        server = Server(
            self.broker,
            [listener],
            clock=self._clock,
            embedding=Embedding(
                lock=self._lock,
                on_answered=self.pending.end,
                handlers=self.environment.handlers,
            ),
        )
        server.start()
        return Listening(server, OwnerNotes(self.broker.directories, server.addresses, "open"))

    def close(self) -> None:
        """Stops serving, flushes, and leaves the directory clean for the next `open`."""
        if self._is_given_back:
            return
        self._refusal = CLOSED
        self.pending.end_all()
        self._stop()
        with HeldInterrupts(), self._lock:
            if self._is_torn:
                self._abandon_broker()
                self.broker = self._reopen()
            self.broker.close()
            self._is_given_back = True
            self._on_close()

    def abandon(self) -> None:
        """In a child of a fork: refuses all further calls, and leaves everything to the parent."""
        if not self._is_given_back:
            self._refusal = FORKED
        self._is_given_back = True
        # The thread that held the lock at the fork is not there to release it.
        self._lock, self._recovering = threading.RLock(), threading.RLock()
        if self._listening is not None:
            self._listening.abandon()
        for directory in self.broker.directories:
            directory.health.failure = StorageError(directory.path, FORKED)

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise UserError(self._refusal)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a log cannot be pickled; open it in the process that is to use it")

    def find_topic(self, name: str) -> Topic:
        self._check_open()
        topic = self.broker.topics.find(name)
        if topic is None:
            known = ", ".join(sorted(one.name for one in self.broker.topics)) or "none yet"
            raise UserError(f"there is no topic {name}; topics here: {known}")
        return topic

    def find_partition(self, name: str, index: int) -> Partition:
        topic = self.find_topic(name)
        found = topic.partitions.get(index)
        if found is None:
            count = topic.partition_count
            raise UserError(f"topic {name} has {count} partitions; {index} is not one of them")
        return found
