"""Threads that fetch ahead of the application, one for each broker that leads a partition.

A thread waits while there is nothing to fetch, or enough has been fetched. Threads share only the
`FetchQueue`, under one condition.
"""

import threading
from collections.abc import Callable
from dataclasses import field

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.fetching_session import INITIAL_EPOCH, FetchingSession
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.bulk.reading import FetchedPartitions, FetchFrom, SessionFetch, send_fetches
from ottla.client.connecting.connection import Connection
from ottla.client.consumer.fetch_queue import FetchQueue, PlannedFetch
from ottla.client.consumer.shared_cluster import SharedCluster
from ottla.config.consumer import ConsumerConfig

PAUSE_S = 0.1
"""Pause after a failure before the broker is asked again."""

LOST = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH,
     ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.INCONSISTENT_TOPIC_ID}
)  # fmt: skip
"""Errors after which a new session begins with the same request."""

Session = FetchingSession[TopicPartition, FetchFrom]


@dataclass(slots=True)
class Fetcher:
    """`changed` guards `queue`, and is notified when something was fetched."""

    cluster: SharedCluster
    config: ConsumerConfig
    isolation_level: int
    queue: FetchQueue
    changed: threading.Condition
    on_change: Callable[[], None]
    """Called under the lock with every change."""
    is_stopped: bool = False
    _threads: dict[int, threading.Thread] = field(default_factory=dict)
    _connections: dict[int, Connection] = field(default_factory=dict)

    def start(self, leader: int) -> None:
        """Under the lock: starts a thread for a broker if there is none."""
        if leader not in self._threads and not self.is_stopped:
            thread = threading.Thread(
                target=self._run, args=(leader,), name=f"ottla fetcher {leader}", daemon=True
            )
            self._threads[leader] = thread
            thread.start()

    def stop(self) -> None:
        """Returns once no thread fetches any more."""
        with self.changed:
            self.is_stopped = True
            self.changed.notify_all()
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()
        for thread in self._threads.values():
            thread.join()

    def _run(self, leader: int) -> None:
        session = Session()
        while planned := self._next_plan(leader):
            try:
                answer = self._ask(self._connection(leader), planned, session)
            except UserError:
                # The broker is gone, or no longer leads anything: leaders are looked up again.
                session = Session()  # A session belongs to one connection.
                self._lose_leader(leader)
            except ApiError as error:
                if error.code in LOST and session.epoch != INITIAL_EPOCH:
                    session.begin_again()
                    continue
                self._take(planned, FetchedPartitions(partitions={}), error)
            else:
                self._take(planned, answer, None)
        self._disconnect(leader)

    def _connection(self, leader: int) -> Connection:
        if leader not in self._connections:
            connection = self.cluster.connect_to(leader)
            with self.changed:
                self._connections[leader] = connection
                if self.is_stopped:
                    connection.close()
        return self._connections[leader]

    def _disconnect(self, leader: int) -> None:
        with self.changed:
            connection = self._connections.pop(leader, None)
        if connection is not None:
            connection.close()

    def _next_plan(self, leader: int) -> list[PlannedFetch]:
        """Returns nothing when it is time to stop."""
        with self.changed:
            while not self.is_stopped:
                if planned := self.queue.plan(leader):
                    return planned
                self.changed.wait()
        return []

    def _ask(
        self, connection: Connection, planned: list[PlannedFetch], session: Session
    ) -> FetchedPartitions:
        config = self.config
        wanted = [
            FetchFrom(
                topic=one.place.topic,
                partition=one.place.partition,
                offset=one.offset,
                max_size=config.max_partition_fetch_bytes,
                isolation_level=self.isolation_level,
                min_size=config.fetch_min_bytes,
                max_wait_ms=config.fetch_max_wait_ms,
                leader_epoch=one.leader_epoch,
            )
            for one in planned
        ]
        session.replace({TopicPartition(one.topic, one.partition): one for one in wanted})
        named, forgotten = session.named()
        asked = SessionFetch(
            session_id=session.id,
            epoch=session.epoch,
            named=[session.wanted[one] for one in named],
            forgotten=forgotten,
        )
        answer = send_fetches(
            connection, wanted, config.fetch_max_bytes, config.client_rack, asked
        )()
        session.answered(answer.session_id)
        return answer

    def _take(
        self, planned: list[PlannedFetch], answer: FetchedPartitions, error: ApiError | None
    ) -> None:
        is_refused = error is not None
        with self.changed:
            for one in planned:
                found = error or answer.partitions.get(one.place)
                if found is not None:
                    is_refused |= isinstance(found, ApiError)
                    self.queue.take(one, found)
            self.on_change()
        if is_refused or answer.throttle_ms:
            self._pause(max(PAUSE_S if is_refused else 0.0, answer.throttle_ms / 1000))

    def _lose_leader(self, leader: int) -> None:
        self._disconnect(leader)
        with self.changed:
            for one in self.queue.readings.values():
                if one.leader == leader:
                    one.leader = None
            self.on_change()
        self._pause(PAUSE_S)

    def _pause(self, seconds: float) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.is_stopped, seconds)
