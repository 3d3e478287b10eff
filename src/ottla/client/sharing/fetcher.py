"""Threads that carry out an `Exchange`, one for each broker that leads a partition.

Each has a connection of its own, which its share session lives and dies with. Nothing is fetched
ahead of the application: a fetched record is locked, and its time runs.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import field

from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.base.values import dataclass
from ottla.client.connecting.connection import Connection
from ottla.client.consumer.shared_cluster import SharedCluster
from ottla.client.refusals import RefusedError
from ottla.client.sharing.exchange import NEVER, Exchange
from ottla.codec.schema import Message
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest

MILLISECONDS = 1000
STRICT_VERSION = 2
"""The version of ShareFetch and ShareAcknowledge with strict limits and renewals."""


@dataclass(slots=True)
class ShareFetcher:
    """`changed` guards `exchange`, and is notified of every change."""

    cluster: SharedCluster
    exchange: Exchange
    changed: threading.Condition
    on_change: Callable[[], None]
    """Called under the lock with every change."""
    is_stopped: bool = False
    failure: Exception | None = None
    """An error for the application."""
    _threads: dict[int, threading.Thread] = field(default_factory=dict)
    _connections: dict[int, Connection] = field(default_factory=dict)

    def start(self, leader: int) -> None:
        """Under the lock: starts a thread for a broker if there is none."""
        if leader not in self._threads and not self.is_stopped:
            thread = threading.Thread(
                target=self._run, args=(leader,), name=f"ottla share fetcher {leader}", daemon=True
            )
            self._threads[leader] = thread
            thread.start()

    def stop(self) -> None:
        """Ends the sessions, and returns once no thread asks any more."""
        with self.changed:
            self.is_stopped = True
            self.changed.notify_all()
        for thread in self._threads.values():
            thread.join()

    def _run(self, leader: int) -> None:
        while (request := self._next_request(leader)) is not None:
            self._carry_out(leader, request)
        with self.changed:
            farewell = self.exchange.farewell(leader, now_ms())
        if farewell is not None:
            self._carry_out(leader, farewell)
        self._disconnect(leader)

    def _next_request(self, leader: int) -> Message | None:
        """Returns nothing when it is time to stop."""
        with self.changed:
            while not self.is_stopped:
                now = now_ms()
                request = self.exchange.next_request(leader, now)
                if request is not None:
                    return request
                due_ms = self.exchange.due_ms(leader, now)
                self.changed.wait(
                    None if due_ms == NEVER else max(0.001, (due_ms - now) / MILLISECONDS)
                )
        return None

    def _carry_out(self, leader: int, request: Message) -> None:
        try:
            connection = self._connection(leader)
            _check_version(connection, request)
            answer = connection.ask(request)
        except (ApiError, UserError) as error:
            # The broker is gone, or no longer leads anything: leaders are looked up again.
            self._disconnect(leader)
            with self.changed:
                self.exchange.unreachable(leader, now_ms())
                self.failure = self.failure or _for_application(error)
                self.on_change()
            return
        with self.changed:
            self.exchange.answered(leader, answer, now_ms())
            self.on_change()

    def _connection(self, leader: int) -> Connection:
        if leader not in self._connections:
            self._connections[leader] = self.cluster.connect_to(leader)
        return self._connections[leader]

    def _disconnect(self, leader: int) -> None:
        connection = self._connections.pop(leader, None)
        if connection is not None:
            connection.close()


def now_ms() -> float:
    return time.monotonic() * MILLISECONDS


def _check_version(connection: Connection, request: Message) -> None:
    """Raises `UserError` for what the broker is too old for."""
    is_strict = isinstance(request, ShareFetchRequest) and request.share_acquire_mode
    is_renewal = isinstance(request, ShareAcknowledgeRequest) and request.is_renew_ack
    if not is_strict and not is_renewal:
        return
    assert request.API_KEY is not None
    if connection.version_of(request.API_KEY) < STRICT_VERSION:
        what = "share.acquire.mode=record_limit" if is_strict else "renew"
        raise UserError(f"{connection.address} is too old for {what}, which needs Kafka 4.2")


def _for_application(error: ApiError | UserError) -> Exception | None:
    if isinstance(error, ApiError):
        return RefusedError("share group", error)
    return None if isinstance(error, UnreachableError) else error
