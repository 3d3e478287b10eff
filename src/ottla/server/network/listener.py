"""The server's loop: one thread, raw non-blocking sockets, and the broker in between.

One round receives from every ready connection, dispatches the requests, makes the broker write all
appends at once, and sends the responses. Until that write the appends refer to the receive buffers,
so each connection receives only once per round; and no response is sent before it, so that a
failing disk cannot be reported as success. A round holds one lock, which is free while the loop
waits: a program that embeds the broker uses it from its own threads under the same lock, and calls
`wake` after an append.

Kafka's counterparts: `SocketServer`, `Selector`, `KafkaRequestHandler`.
"""

import contextlib
import logging
import socket
from collections import Counter, deque
from collections.abc import Sequence
from selectors import EVENT_READ, DefaultSelector, SelectorKey
from time import monotonic, perf_counter

from ottla.base.addresses import Address
from ottla.base.clock import Clock, read_clock
from ottla.base.errors import ProtocolError, ShortageError, StorageError, UnreadyError, UserError
from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener, every_listener
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.foreign import ForeignProtocolError
from ottla.protocol.headers import read_request_header
from ottla.server.authentication.authentication import Logins
from ottla.server.dispatching.background import BackgroundThread
from ottla.server.dispatching.dispatch import Dispatcher, load_first_modules
from ottla.server.dispatching.request_context import PendingResponse
from ottla.server.dispatching.request_log import LoggingDispatcher, RequestFilter
from ottla.server.dispatching.turns import LongRequest, LongRequests
from ottla.server.network.acceptors import Acceptors, check_tls
from ottla.server.network.arrivals import FIRST_STEPS, AdvertisedAddressHint
from ottla.server.network.busy_poll import BusyPoll, sleep_towards
from ottla.server.network.connection import Connection
from ottla.server.network.connection_events import ClientCame, CloseReason
from ottla.server.network.embedding import Embedding
from ottla.server.network.request_memory import RequestMemory
from ottla.server.network.send_queue import UnreadableFileError
from ottla.server.network.stranger_log import StrangerLog
from ottla.server.network.transfer_rates import TransferRates

logger = logging.getLogger(__name__)

MAX_OUTPUT_SIZE = 1 << 20
MAX_OUTPUT_SLICES = 128
"""Bytes of responses in memory from which a connection's further requests wait."""

STRANGERS_SIZE = 16 << 20
"""Memory for long requests of all clients together that have not logged in."""

ROUND_S = 0.004
"""Maximum time for serving the connections of one round.

Each has an equal share, and at least one request.
"""

RECEIVING_S = 0.003
"""Time for requests that were received before, and for others; the rest wait for a round."""

SETTLING_S, ANSWERING_S = 0.003, 0.0015
"""The same for what is due and for closing connections, and for responses that were waited for."""

IDLE_CHECK_MS = 10_000.0

QUIET_MS = 100.0
"""Idle time after which no request of a client is expected soon."""

NO_MEMORY = (
    "closing %s: there is no memory for its request; give the process more memory, or lower "
    "queued.max.request.bytes or socket.request.max.bytes"
)


class Server:
    """Serves a broker on some addresses. `run` returns after `stop`, which any thread may call."""

    def __init__(
        self,
        broker: Broker,
        listeners: Sequence[Listener],
        *,
        clock: Clock,
        needs_disk: bool = False,
        embedding: Embedding | None = None,
    ) -> None:
        embedding = embedding or Embedding()
        self._broker = broker
        self._on_answered = embedding.on_answered
        self._clock = clock
        self._needs_disk = needs_disk
        self.lock = embedding.lock
        self._long_requests = LongRequests(self.wake)
        self._dispatcher: Dispatcher = Dispatcher(
            broker, clock, self._long_requests, embedding.handlers
        )
        self.request_counts = self._dispatcher.counts
        self.busy_ms = 0.0
        """Total time of all rounds."""
        self._report = broker.on_event
        self._background = BackgroundThread(self.wake)
        self._selector = DefaultSelector()
        self._listeners = listeners
        config, rate_of = broker.settings.config, broker.quotas.connection_rate_of
        self._acceptors = Acceptors(
            listeners, config, self._selector, self._add, self.wake, rate_of
        )
        self.connection_counts = self._acceptors.connection_counts
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._is_stopping = False
        self._connections: set[Connection] = set()
        self._config = config
        self._memory = RequestMemory(config.queued_max_request_bytes)
        self._strangers_memory = RequestMemory(STRANGERS_SIZE)
        self._logins = Logins(broker, self.connection_counts.logins)
        self._log_in_by: Timers[Connection] = Timers()
        self._transfer_rates = TransferRates()
        self._address_hint = AdvertisedAddressHint()
        self._stranger_log = StrangerLog(logger)
        self._touched: list[Connection] = []
        self._ready: list[Connection] = []
        self._passed_over: dict[int, int] = {}
        """Descriptors for which the last round had no time, with their places in the queue."""
        self._answered: deque[object] = deque()
        self._to_close: deque[tuple[Connection, CloseReason]] = deque()
        self._until_s = 0.0
        broker.budget.limit(self._is_late, self._long_requests.begin)
        self._holding: dict[object, Connection] = {}
        self._answered_early: set[object] = set()
        """Results that came before the long request that waits for them had ended."""
        self._next_idle_check_ms = 0.0
        self._monotonic_ms = 0.0
        self._share_s = ROUND_S
        self._upkeep = embedding.upkeep

    # From any thread

    @property
    def addresses(self) -> list[Address]:
        """Hosts and ports that the server listens on, once started."""
        return self._acceptors.addresses

    @property
    def address(self) -> Address:
        """The first of them."""
        return self.addresses[0]

    def connections_by_user(self) -> Counter[str]:
        """Open connections by principal, to be counted under the lock."""
        return Counter(str(one.peer.principal) for one in self._connections)

    def wake(self) -> None:
        """Makes the loop check the broker again, after appends of another thread."""
        # A full pipe already holds a wake-up; a closed one has no loop to wake.
        with contextlib.suppress(BlockingIOError, OSError):
            self._wake_sender.send(b"\0")

    def stop(self) -> None:
        """Makes `run` close all connections and return."""
        self._is_stopping = True
        self.wake()

    def log_requests(self, wanted: RequestFilter) -> None:
        """Logs the requests that pass a filter; call it before `run`."""
        self._dispatcher = LoggingDispatcher(self._broker, self._clock, self._long_requests, wanted)
        self.request_counts = self._dispatcher.counts

    @property
    def is_serving(self) -> bool:
        """Whether clients are accepted."""
        return bool(self.addresses) and not self._is_stopping

    def close(self) -> None:
        """Releases the resources of a server that never ran; `run` does so itself at its end."""
        with self.lock:
            self._close_all()

    def abandon(self) -> None:
        """In a forked child: releases what was inherited, while the parent continues to use it.

        Sockets are closed but not shut down; the selector's registrations stay, since both
        processes share them.
        """
        self._is_stopping = True
        for connection in self._connections:
            connection.is_closed = True
            connection.socket.close()
        self._acceptors.abandon()
        with contextlib.suppress(OSError):  # Kqueue's descriptor is not inherited.
            self._selector.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    # The loop

    def start(self) -> None:
        """Begins to listen; raises `UserError` if an address cannot be bound."""
        try:
            at = read_clock(self._clock)
            self._broker.groups.load(at)
            self._broker.transactions.load(at)
            load_first_modules()
            self._logins.prepare(self._listeners, self._config)
            self._acceptors.open()
        except UserError:
            self._close_all()
            raise
        self._broker.appends.prepare_in(self._background)
        self._broker.settings.check_with(self._check_config)
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, EVENT_READ, None)
        self._acceptors.start(at.monotonic_ms)
        if self._upkeep is not None:
            self._upkeep.begin()

    def run(self) -> None:
        """Serves until `stop`, or until the last log directory fails (`needs_disk`).

        Everything but the waiting happens under the lock.
        """
        select = self._selector.select
        waiting = BusyPoll(select)
        try:
            with self.lock:
                self._round(())  # from here on time counts for the broker's jobs
            while not self._is_stopping and not (
                self._needs_disk and self._broker.directories.is_offline
            ):
                is_busy = self._has_left
                events = select(0) if is_busy else waiting.wait(self._timeout)
                with self.lock:
                    self._round(events)
                if not events and not is_busy:
                    self._keep_up()
        finally:
            with self.lock:
                self._close_all()

    @property
    def _has_left(self) -> bool:
        """Whether the last round has left something to the next one."""
        left = self._ready or self._passed_over or self._answered or self._to_close
        if left or self._memory.is_freeing:
            return True
        return self._long_requests.has_work or self._broker.answers.has_answers

    def _is_late(self) -> bool:
        return monotonic() >= self._until_s

    def _timeout(self) -> float | None:
        """Seconds to sleep until there is something to do without a peer; `None` for no limit.

        An append of another thread calls `wake`.
        """
        with self.lock:
            deadline_ms = self._broker.scheduler.next_deadline_ms
            login_ms = self._log_in_by.next_deadline_ms
        idle_check_ms = self._next_idle_check_ms if self._connections else None
        for other_ms in (idle_check_ms, login_ms, self._acceptors.wakes_ms):
            if other_ms is not None and (deadline_ms is None or other_ms < deadline_ms):
                deadline_ms = other_ms
        is_due = self._upkeep is not None and self._upkeep.is_due()
        if deadline_ms is None:
            return QUIET_MS / 1000 if is_due else None
        left_ms = max(0.0, deadline_ms - self._clock.monotonic_ms())
        return sleep_towards((min(left_ms, QUIET_MS) if is_due else left_ms) / 1000)

    def _keep_up(self) -> None:
        """Nothing arrived and no request is active: does what clients would wait for else."""
        if self._upkeep is None or not self._upkeep.is_due():
            return
        quiet_ms = self._clock.monotonic_ms() - QUIET_MS
        if all(one.last_active_ms <= quiet_ms for one in self._connections):
            self._upkeep.collect_when_quiet()

    def _round(self, events: Sequence[tuple[SelectorKey, int]]) -> None:
        at = read_clock(self._clock)
        self._monotonic_ms = at.monotonic_ms
        self._dispatcher.set_time(at)
        self._until_s = monotonic() + RECEIVING_S
        ready, self._ready = self._ready, []
        count = len(ready) + len(events)
        self._share_s = ROUND_S / count if count else ROUND_S
        for number, connection in enumerate(ready):
            if number and self._is_late():
                self._ready += ready[number:]
                break
            self.request_counts.begin_queued(connection.last_active_ms)
            self._process(connection)
            self.request_counts.end_queued()
        self._until_s = monotonic() + RECEIVING_S
        self._take(events, at)
        if self._long_requests.has_work:
            self._go_on()
        if self._acceptors.is_waiting:
            self._acceptors.work(at.monotonic_ms)
        # A client that gets this response must find a new listener open; the old one must still
        # send it.
        cut_off = self._follow_config() if self._broker.settings.config is not self._config else ()
        self._settle(at)
        self._to_close.extend((one, CloseReason.LISTENER) for one in cut_off)
        if self._monotonic_ms >= self._next_idle_check_ms:
            self._find_idle()
        self._until_s = monotonic() + SETTLING_S
        self._close_some()
        now_ms = self._clock.monotonic_ms()
        self.request_counts.end_round(now_ms)
        self.busy_ms += now_ms - self._monotonic_ms

    def _take(self, events: Sequence[tuple[SelectorKey, int]], at: Timestamps) -> None:
        """Receives from ready connections; the selector returns the others again."""
        if self._passed_over:
            places, self._passed_over = self._passed_over, {}
            events = sorted(events, key=lambda one: places.get(one[0].fd, len(places)))
        for number, (key, mask) in enumerate(events):
            if number and self._is_late():
                self._passed_over = {key.fd: one for one, (key, _) in enumerate(events[number:])}
                return
            if isinstance(key.data, Connection):
                self._on_event(key.data, mask)
            elif key.fileobj is self._wake_receiver:
                self._drain_wake_ups()
            else:
                self._acceptors.ready(key.data, at.monotonic_ms)

    def _on_event(self, connection: Connection, mask: int) -> None:
        if connection.is_closed:
            return
        self._touch(connection)
        if not mask & EVENT_READ:
            return
        connection.last_active_ms = self._monotonic_ms
        try:
            if connection.later is not None:
                if connection.has_hung_up():
                    self._close(connection, CloseReason.HUNG_UP)
                else:
                    connection.is_muted = True
                return
            if connection.reader.growth() and not self._memory_of(connection).admit(connection):
                connection.is_starved = True
                return
            if not connection.receive():
                self._close(connection, CloseReason.HUNG_UP)
                return
        except BlockingIOError:
            return
        except OSError as error:
            self._close(connection, CloseReason.NETWORK, error)
            return
        except ProtocolError as error:
            self._close(connection, CloseReason.BAD_REQUEST, error)
            return
        except MemoryError:
            self._close_for_memory(connection)
            return
        self._process(connection)

    def _process(self, connection: Connection) -> None:
        """Dispatches received frames until one must wait, responses pile up, or the connection's
        share of the round is over.
        """
        if connection.frames is None:
            return
        self._touch(connection)
        dispatch = self._dispatcher.dispatch
        login = connection.login
        output = connection.output
        until_s = 0.0
        try:
            for frame in connection.frames:
                if login is None:
                    later = dispatch(frame, connection.peer, output)
                else:
                    later = login.dispatch(frame, output, self._dispatcher)
                if not connection.has_found_us:
                    self._note_arrival(connection, frame)
                if later is not None:
                    self._hold(connection, later)
                    return
                if len(output.data) > MAX_OUTPUT_SIZE or len(output.slices) > MAX_OUTPUT_SLICES:
                    return
                if not until_s:
                    until_s = perf_counter() + self._share_s
                elif perf_counter() >= until_s:
                    return
            connection.frames = None
        except Exception as error:
            self._end_after(error, connection)

    def _memory_of(self, connection: Connection) -> RequestMemory:
        """Unauthenticated clients have separate memory, so that others do not wait for them."""
        login = connection.login
        return self._memory if login is None or login.has_login else self._strangers_memory

    def _close_for_memory(self, connection: Connection) -> None:
        logger.warning(NO_MEMORY, connection.peer_name)
        self._close(connection, CloseReason.MEMORY)

    def _feed_starved(self) -> None:
        """Reads again from the connections for which there is memory now."""
        for memory in (self._memory, self._strangers_memory):
            while (connection := memory.next_waiting()) is not None:
                connection.is_starved = False
                self._watch(connection)

    def _end_after(self, error: Exception, connection: Connection) -> None:
        """Handles an exception of a request. Whatever its cause, other clients are served."""
        if isinstance(error, StorageError) and not isinstance(error, ShortageError):
            self._drop_answers(error)
            return
        if isinstance(error, ForeignProtocolError):
            connection.output.data += error.answer
        if isinstance(error, ProtocolError | ShortageError):
            login, text = connection.login, f"closing {connection.peer_name}: {error}"
            if isinstance(error, UnreadyError) or (login is not None and not login.has_login):
                self._stranger_log.warn(text, self._monotonic_ms)
            else:
                logger.warning("%s", text)
            connection.end(CloseReason.BAD_REQUEST)
        elif isinstance(error, MemoryError):
            logger.warning(NO_MEMORY, connection.peer_name)
            connection.end(CloseReason.MEMORY)
        else:
            logger.error(
                "closing %s: a request could not be handled", connection.peer_name, exc_info=error
            )
            connection.end(CloseReason.FAILED)

    def _go_on(self) -> None:
        """Runs a slice of a long request, and sends its response after the last one.

        What it has appended is not on disk before the end of the round.
        """
        connection = self._holding.get(self._long_requests.next)
        if connection is not None:
            self._touch(connection)
        request = self._long_requests.run_slice()
        if request is not None:
            self._answer(request)
            if not self._long_requests.has_begun:
                self._answered_early.clear()
                if self._upkeep is not None:
                    self._upkeep.collect_when_overdue()

    def _note_arrival(self, connection: Connection, frame: memoryview) -> None:
        """Follows a client until a request shows that it reached the advertised address."""
        if connection.client_id is None:
            connection.client_id = read_request_header(frame)[0].client_id or ""
            self._report(ClientCame(client=connection.peer_name, client_id=connection.client_id))
        api_key = frame[0] << 8 | frame[1]
        if api_key not in FIRST_STEPS:
            connection.has_found_us = True
            self._address_hint.found_us(connection.peer.host)
        elif api_key == ApiKey.METADATA:
            connection.has_metadata = True

    def _settle(self, at: Timestamps) -> None:
        """Makes the round's appends readable, completes requests that waited for them, and
        sends.
        """
        broker = self._broker
        self._until_s = monotonic() + SETTLING_S
        broker.scheduler.run_due(at)
        self._write_out()
        self._until_s = monotonic() + ANSWERING_S
        answered = self._answered
        while True:
            if not answered:
                answered.extend(broker.answers.take_answered(at.monotonic_ms))
            if not answered:
                break
            self._answer(answered.popleft())
            while answered and not self._is_late():
                self._answer(answered.popleft())
            self._write_out()
            if self._is_late():
                break
        for connection in self._take_touched():
            self._flush(connection)
        if self._memory.has_work or self._strangers_memory.has_work:
            self._feed_starved()

    def _write_out(self) -> None:
        try:
            self._broker.appends.write_out()
        except StorageError as error:
            self._drop_answers(error)

    def _drop_answers(self, error: StorageError) -> None:
        """Drops the responses of this round, since they may promise what is not on disk."""
        logger.error("dropping the answers of this round: %s", error)
        for connection in self._take_touched():
            self._close(connection, CloseReason.DISK)

    def _answer(self, pending_id: object) -> None:
        connection = self._holding.pop(pending_id, None)
        if connection is None:
            if self._long_requests.has_begun:
                self._answered_early.add(pending_id)
            self._on_answered(pending_id)
            return
        if connection.later is None:
            return
        over, connection.later = connection.later, None
        connection.is_muted = False
        self._touch(connection)
        try:
            later = self._dispatcher.finish(over, connection.output)
        except Exception as error:
            self._end_after(error, connection)
            return
        if later is not None:
            self._hold(connection, later)
            return
        self._process(connection)

    def _hold(self, connection: Connection, later: PendingResponse) -> None:
        connection.later = later
        self._holding[later.pending_id] = connection
        if later.pending_id in self._answered_early:
            self._answered_early.discard(later.pending_id)
            self._answer(later.pending_id)

    def _flush(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        try:
            is_drained = connection.send()
        except UnreadableFileError as damage:  # not `error`: compiled, a name is of one class
            self._broker.fetches.could_not_send(damage.path, damage.cause)
            self._close(connection, CloseReason.DISK, damage)
            return
        except OSError as error:
            self._close(connection, CloseReason.NETWORK, error)
            return
        except MemoryError:
            self._close_for_memory(connection)
            return
        if is_drained and connection.ends_for is not None:
            self._close(connection, connection.ends_for)
            return
        if is_drained and connection.frames is not None and connection.later is None:
            self._ready.append(connection)
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        wanted = connection.wanted_interest
        if wanted == connection.interest:
            return
        if connection.interest == 0:
            self._selector.register(connection.socket, wanted, connection)
        elif wanted == 0:
            self._selector.unregister(connection.socket)
        else:
            self._selector.modify(connection.socket, wanted, connection)
        connection.interest = wanted

    def _touch(self, connection: Connection) -> None:
        if not connection.is_touched:
            connection.is_touched = True
            self._touched.append(connection)

    def _take_touched(self) -> list[Connection]:
        touched, self._touched = self._touched, []
        for connection in touched:
            connection.is_touched = False
        return touched

    def _drain_wake_ups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_receiver.recv(4096):
                pass
        self._long_requests.take_back()

    # Connections come and go

    def _follow_config(self) -> list[Connection]:
        """Applies listeners and connection limits that a client has changed (KIP-226).

        Returns the connections of removed listeners.
        """
        self._config = self._broker.settings.config
        changes = self._acceptors.follow(self._config)
        for listener in changes.readvertised:
            for connection in self._connections_of(listener):
                connection.advertise(listener.advertised)
        return [one for listener in changes.gone for one in self._connections_of(listener)]

    def _check_config(self, config: BrokerConfig) -> None:
        """Raises `UserError` for a listener to which nobody could log in."""
        check_tls(config)
        self._logins.prepare(every_listener(config), config)

    def _connections_of(self, listener: Listener) -> list[Connection]:
        return [one for one in self._connections if one.peer.listener == listener.name]

    def _add(self, connection: Connection) -> None:
        if connection.peer.protocol.startswith("SASL"):
            connection.login = self._logins.begin(connection, connection.peer.listener)
            timeout_ms = self._config.ottla_authentication_timeout_ms
            self._log_in_by.set(connection, self._monotonic_ms + timeout_ms)
        connection.last_active_ms = self._monotonic_ms
        self._connections.add(connection)
        self._selector.register(connection.socket, EVENT_READ, connection)

    def _close(
        self, connection: Connection, reason: CloseReason, error: Exception | None = None
    ) -> None:
        if connection.is_closed:
            return
        self.connection_counts.went(reason)
        if connection.client_id is not None:
            self._report(connection.went(reason, error, self._clock.monotonic_ms()))
        if error is not None:
            level = logging.WARNING if isinstance(error, UnreadableFileError) else logging.DEBUG
            logger.log(level, "closing %s: %s", connection.peer_name, error)
        if connection.interest:
            self._selector.unregister(connection.socket)
        if connection.later is not None:
            self._holding.pop(connection.later.pending_id, None)
            if isinstance(connection.later.pending_id, LongRequest):
                self._long_requests.remove(connection.later.pending_id)
            else:
                self._broker.fetches.cancel(connection.later.pending_id)
        connection.close()
        self._broker.disconnected(connection.peer.connection, read_clock(self._clock))
        self._log_in_by.cancel(connection)
        self._memory.forget(connection)
        self._strangers_memory.forget(connection)
        self._connections.discard(connection)
        if not self._is_stopping:
            self._acceptors.left(connection.peer)
        if connection.has_metadata and not connection.has_found_us and not self._is_stopping:
            self._hint_at_address(connection)

    def _hint_at_address(self, connection: Connection) -> None:
        peer = connection.peer
        if hint := self._address_hint.hint(peer.host, connection.came_to, peer.address):
            logger.warning("%s", hint)

    def _close_some(self) -> None:
        """Closes connections that did not log in within their time, or have no business here."""
        while (connection := self._log_in_by.take_due(self._monotonic_ms)) is not None:
            assert connection.login is not None
            if not connection.login.has_login:
                self._to_close.append((connection, CloseReason.LOGIN))
        while self._to_close:
            connection, reason = self._to_close.popleft()
            if reason is not CloseReason.IDLE or self._is_idle(connection):
                self._close(connection, reason)
            if self._is_late():
                return

    def _find_idle(self) -> None:
        self._next_idle_check_ms = self._monotonic_ms + IDLE_CHECK_MS
        for connection in self._memory.stalled(self._monotonic_ms - IDLE_CHECK_MS):
            self._close_for_memory(connection)
        self._close_slow()
        if self._broker.settings.config.connections_max_idle_ms >= 0:
            idle = filter(self._is_idle, self._connections)
            self._to_close.extend((one, CloseReason.IDLE) for one in idle)

    def _is_idle(self, connection: Connection) -> bool:
        if connection.later is not None or connection in self._transfer_rates:
            return False
        oldest_ms = self._monotonic_ms - self._broker.settings.config.connections_max_idle_ms
        return connection.last_active_ms < oldest_ms

    def _close_slow(self) -> None:
        config = self._broker.settings.config
        if config.ottla_min_transfer_rate:
            for connection in self._transfer_rates.too_slow(
                self._connections,
                self._monotonic_ms,
                config.ottla_min_transfer_rate,
                config.ottla_min_transfer_rate_window_ms,
            ):
                self._close(connection, CloseReason.SLOW)

    def _close_all(self) -> None:
        self._is_stopping = True
        self._broker.budget.lift()
        self._broker.appends.prepare_in(None)
        self._broker.settings.check_with(None)
        self._background.stop()
        for connection in list(self._connections):
            self._close(connection, CloseReason.STOPPING)
        self._long_requests.finish()
        self._acceptors.close()
        self._selector.close()
        self._wake_receiver.close()
        self._wake_sender.close()
