"""`HeldBroker`: a broker that this process has open, under one lock.

It carries a log from `ottla.open` to its end: threads for due work, recovery after an interrupted
call, waiting for responses, serving, and forks. `Log` is the users' view of it.
"""

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar, cast

from ottla.base.addresses import parse_address
from ottla.base.arguments import check_partition, check_topic_name, no_such_partition
from ottla.base.clock import read_clock
from ottla.base.closing import Closing
from ottla.base.errors import StorageError, UnknownNameError, UnreachableError, UserError
from ottla.base.open_files import max_open_files
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic
from ottla.broker.waiting.rooms import Waiting
from ottla.config.listeners import PLAINTEXT, PROTOCOLS, Listener, client_listeners
from ottla.embedded.environment import Environment
from ottla.embedded.listening import Listening
from ottla.embedded.memory import leave
from ottla.embedded.pending import PendingAnswers
from ottla.runtime import thread_ends
from ottla.runtime.cleaning import Cleaning, ThreadEngine
from ottla.runtime.flusher import Flusher
from ottla.runtime.forks import bind_to_process
from ottla.runtime.interrupts import HeldInterrupts
from ottla.runtime.owner_notes import OwnerNotes
from ottla.runtime.process_limits import allow_open_files
from ottla.runtime.queued_lock import QueuedLock
from ottla.runtime.ticker import Ticker

if TYPE_CHECKING:
    from ottla.broker.records.tier_reads import TierReads
    from ottla.runtime.tier_readers import TierReaders
    from ottla.runtime.tier_worker import TierWorker

logger = logging.getLogger(__name__)

CLOSED = "this log is closed; open it again"
FORKED = (
    "this log was opened by the process that this one was forked from, and belongs to it; "
    "open the log after the fork, or start processes with multiprocessing's spawn"
)

TORN = "a call was interrupted; the next call recovers the log"

OUT_OF_ROOM = (MemoryError, RecursionError)
"""An ordinary exception that can be raised anywhere."""

PAUSE_S = 0.001
MAX_WAIT_S = 1.0
"""Interval at which a waiting thread checks whether a server still handles the broker's
deadlines.
"""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Holder = TypeVar("Holder", bound="HeldBroker")


def done_whole(
    method: Callable[Concatenate[Holder, Parameters], Result],
) -> Callable[Concatenate[Holder, Parameters], Result]:
    """Decorates a call that changes the log: under its lock, and never left half done.

    An exception that can occur at any line (Ctrl-C, out of memory) leaves an unknown state. Then
    only the disk counts: the log is recovered as after a crash, and the exception is raised.
    """

    @functools.wraps(method)
    def whole(self: Holder, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        while True:
            if self._is_torn:
                self._recover_if_torn()
            try:
                with self._lock:
                    if self._refusal is not None:
                        raise UserError(self._refusal)
                    if self._is_torn and self._may_recover:
                        continue  # The call that held the lock was interrupted.
                    try:
                        return method(self, *args, **kwargs)
                    except BaseException as error:
                        if not isinstance(error, Exception) or isinstance(error, OUT_OF_ROOM):
                            self._tear()
                        raise
            except BaseException as error:
                if not isinstance(error, Exception):
                    # It may have come just before `with` released the lock: the only harm.
                    with suppress(RuntimeError):
                        self._lock.release()
                self._recover_if_torn()
                raise

    return cast(Callable[Concatenate[Holder, Parameters], Result], whole)


class HeldBroker(Closing):
    """The broker of an open log, with its threads and its server. For Ottla's own modules."""

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
        self._lock = QueuedLock()
        self._listening: Listening | None = None
        self.pending = PendingAnswers()
        self.before_close: list[Callable[[], None]] = []
        """What clients in this process have to do while the log is still open."""
        self._refusal: str | None = None
        """The reason why further calls are refused."""
        self._is_given_back = False
        """Whether the directories no longer belong to this log: it is closed, or the parent's."""
        self._recovering = threading.RLock()
        self._is_torn = False
        """Whether a change was interrupted, so that memory and disk may differ."""
        self._next_keyless = 0
        bind_to_process(self)
        self._start()

    def _start(self) -> None:
        self._ticker = Ticker(
            self.broker,
            clock=self._clock,
            lock=self._lock,
            settle=self._settle_tick,
            next_due_ms=self._next_due_ms,
        )
        self._ticker.start()
        files = self.environment.file_system
        self._flusher = Flusher(self.broker, files, clock=self._clock, lock=self._lock)
        self._flusher.start()
        engine = ThreadEngine(files, self._lock)
        self._cleaning = Cleaning(self.broker, engine, clock=self._clock, lock=self._lock)
        self._cleaning.start()
        self._tier_worker: TierWorker | None = None
        self._tier_readers: TierReaders | None = None
        if self.broker.fetches.tier is not None:
            self._start_tier(self.broker.fetches.tier)

    def _start_tier(self, reads: "TierReads") -> None:
        # Lazy: most logs have no tier.
        from ottla.runtime.tier_readers import TierReaders
        from ottla.runtime.tier_worker import TierWorker

        self._tier_worker = TierWorker(self.broker, clock=self._clock, lock=self._lock)
        self._tier_worker.start()
        self._tier_readers = TierReaders(
            self.broker, reads, lock=self._lock, on_done=self._settle_tick
        )

    def _stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self._ticker.stop()
        self._flusher.stop()
        self._check_lock()
        self._cleaning.stop()
        if self._tier_worker is not None:
            self._tier_worker.stop()
        if self._tier_readers is not None:
            self._tier_readers.stop()

    def _check_lock(self) -> None:
        """Raises `HangingError` if some call keeps the lock: it waits for the disk."""
        if not self._lock.acquire(timeout=thread_ends.LIMIT_S):
            paths = [one.path for one in self.broker.directories]
            raise thread_ends.HangingError(paths, "a call has kept this log")
        self._lock.release()

    def _tear(self) -> None:
        """No thread may continue with the state in memory, which may differ from the disk."""
        self._is_torn = True
        for directory in self.broker.directories:
            directory.health.failure = StorageError(directory.path, TORN)

    def _recover_if_torn(self) -> None:
        """Replaces an unknown state by opening the directories again as after a crash."""
        if not self._is_torn or not self._may_recover:
            return
        with HeldInterrupts(), self._recovering:
            if not self._is_torn or self._refusal is not None:
                return
            self._stop()
            listener = self._listening.listener if self._listening is not None else None
            self._listening = None
            self._abandon_broker()
            self.broker = self._reopen()
            self._is_torn = False
            self._start()
            if listener is not None:
                self._listening = self._serve(listener)

    @property
    def _may_recover(self) -> bool:
        """Not in the ticker, whose end a recovery awaits: the next call recovers the log."""
        return not self._ticker.is_here

    def _abandon_broker(self) -> None:
        self.pending.end_all()
        for directory in self.broker.directories:
            directory.abandon()

    # One change at a time, for the connections of this process

    @done_whole
    def hold(self, deed: Callable[[Broker, Timestamps], Any]) -> Any:
        """Carries out one change of the broker, and returns what `deed` returns.

        By then appended data is written, and waiting clients have their responses.
        """
        at = read_clock(self._clock)
        result = deed(self.broker, at)
        self.broker.appends.write_out()
        if self._is_served:
            assert self._listening is not None
            self._listening.wake()
        else:
            self.pending.end_answered(self.broker, at)
            self._ticker.look_again()
        return result

    def wait_for(self, pending_id: Waiting[Any], broker: Broker) -> None:
        """Returns once the broker has returned a pending id, to any thread, or was replaced.

        Without a server, the calling thread lets the broker handle due deadlines. Raises
        `UserError` if the log is closed meanwhile.
        """
        event = self.pending.event_of(pending_id)
        try:
            while event is not None and not event.wait(self.hold(self._advance)):
                pass
        except BaseException:
            self.pending.leave(pending_id)
            with self._lock:
                broker.fetches.cancel(pending_id)
            raise
        self._check_open()

    def stop_waiting(self, pending_id: Waiting[Any], broker: Broker) -> None:
        """Makes the thread that waits for a response continue without one."""
        with self._lock:
            broker.fetches.cancel(pending_id)
            self.pending.end(pending_id)

    def _advance(self, broker: Broker, at: Timestamps) -> float:
        """Advances the broker; returns seconds until more is due."""
        if not self._is_served:
            broker.answers.advance(at)
        deadline_ms = broker.answers.next_deadline_ms
        if deadline_ms is None or self._is_served:
            return MAX_WAIT_S
        return min(max((deadline_ms - at.monotonic_ms) / 1000, PAUSE_S), MAX_WAIT_S)

    @contextmanager
    def let_others_in(self, broker: Broker) -> Iterator[None]:
        """Releases the lock in the middle of a long `deed`, at a point where others may see its
        progress.
        """
        broker.appends.write_out()
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
        self.check_same(broker)

    def check_same(self, broker: Broker) -> None:
        """Under the log's lock. Raises `UserError` if the log was closed, and `UnreachableError` if
        another call was interrupted, for which the broker was replaced, or is about to be.
        """
        self._check_open()
        if self.broker is not broker or self._is_torn:
            raise UnreachableError(TORN)

    @property
    def _is_served(self) -> bool:
        """Whether a server's loop takes the broker's responses and handles its deadlines."""
        return self._listening is not None and self._listening.is_open

    def run_due_jobs(self) -> None:
        """Does at once what is due by the passed time; for clocks that a test moves."""
        while self._ticker.tick():
            pass
        self._flusher.flush_due()
        self._cleaning.look_again()
        if self._tier_worker is not None:
            self._tier_worker.work_off()
        if self._is_served:
            assert self._listening is not None
            self._listening.wake()

    def crash(self) -> None:
        """Ends like a killed process: nothing is flushed, and the directories are released."""
        self._refusal = CLOSED
        self._stop()
        with self._lock:
            self._abandon_broker()
            self._is_given_back = True

    def _next_due_ms(self) -> float | None:
        """A server's loop handles the deadlines of answers."""
        scheduler = self.broker.scheduler
        return scheduler.next_job_ms if self._is_served else scheduler.next_deadline_ms

    def _settle_tick(self) -> None:
        if self._is_torn:
            return
        try:
            self.hold(lambda broker, at: None)
        except (StorageError, UserError) as error:
            # `close` refuses all calls before it stops the ticker, and flushes what is left.
            if self._refusal is None or isinstance(error, StorageError):
                logger.error("the results of timed jobs could not be written: %s", error)

    @contextmanager
    def looking(self) -> Iterator[Broker]:
        """Yields the broker under the log's lock, to read only."""
        while True:
            self._recover_if_torn()
            with self._lock:
                self._check_open()
                if self._is_torn and self._may_recover:
                    continue
                yield self.broker
                return

    def listen(self, address: str = "127.0.0.1:9092", *, protocol: str = PLAINTEXT) -> Listening:
        """Serves Kafka clients on HOST:PORT (port 0: a free one) from a separate thread. One
        address at a time: the broker passes delayed responses to one loop. From then on the process
        may have more files open (`allow_open_files`). `protocol` may also be "SSL",
        "SASL_PLAINTEXT" or "SASL_SSL"; the log's settings name the keys and users.

        >>> with log.listen("127.0.0.1:0") as listening:
        ...     with ottla.Producer(listening.address) as producer:
        ...         producer.send("orders", b"tea", partition=0).result().offset
        3
        """
        self._check_open()
        if self._listening is not None and self._listening.is_open:
            raise UserError(f"this log listens on {self._listening.address}; close that first")
        if not isinstance(address, str):
            raise UserError(f"an address is HOST:PORT, such as 127.0.0.1:9092, not {address!r}")
        if protocol not in PROTOCOLS:
            raise UserError(f"{protocol}: a protocol must be one of {', '.join(PROTOCOLS)}")
        advertised = client_listeners(self.broker.settings.config)[0].advertised
        listener = Listener(
            name=protocol,
            address=parse_address(address),
            advertised=advertised,
            protocol=protocol,
        )
        allow_open_files()
        self._listening = self._serve(listener)
        return self._listening

    @done_whole
    def _serve(self, listener: Listener) -> Listening:
        from ottla.server.network.embedding import Embedding
        from ottla.server.network.listener import Server

        self.broker.open_files.limit = max_open_files()
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
        notes = OwnerNotes(self.broker.directories, server.addresses, "open")
        return Listening(server, notes, replace(listener, address=server.address))

    def close(self) -> None:
        """Stops serving, flushes, and leaves the directory clean for the next `open`. Raises
        `StorageError` if the disk does not answer.

        >>> log.close()
        >>> log.topics()
        Traceback (most recent call last):
        ottla.base.errors.UserError: this log is closed; open it again
        """
        if self._is_given_back:
            return
        for deed in list(self.before_close):
            deed()
        self._refusal = CLOSED
        self.pending.end_all()
        try:
            self._stop()
        except thread_ends.HangingError as error:
            self._leave_hanging(error)
            raise
        with HeldInterrupts(), self._lock:
            if self._is_torn:
                self._abandon_broker()
                self.broker = self._reopen()
            self.broker.close()
            self._is_given_back = True
            self._on_close()

    def _leave_hanging(self, error: StorageError) -> None:
        """Refuses all further calls at once, though some thread may never release the lock."""
        self._is_given_back = True
        self._lock = QueuedLock()
        for directory in self.broker.directories:
            directory.health.failure = error

    def abandon(self) -> None:
        """In a forked child: refuses all further calls, and leaves everything to the parent."""
        if not self._is_given_back:
            self._refusal = FORKED
        self._is_given_back = True
        # The thread that held the lock at the fork does not exist here to release it.
        self._lock, self._recovering = QueuedLock(), threading.RLock()
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
        topic = self.broker.topics.find(check_topic_name(name))
        if topic is None:
            raise UnknownNameError("topic", name, (one.name for one in self.broker.topics))
        return topic

    def find_partition(self, name: str, index: int) -> Partition:
        topic = self.find_topic(name)
        found = topic.partitions.get(check_partition(index))
        if found is None:
            count = topic.partition_count
            raise no_such_partition(name, index, count)
        return found
