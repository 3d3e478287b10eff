"""A cluster seen through its brokers: topics, who leads their partitions, and a connection to each.

Kafka's counterparts: `Metadata`, `NetworkClient`. What goes wrong with one partition is an
`ApiError`; `again` asks again while the cluster is choosing another leader or coordinator.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.client.connection import CLIENT_ID, Connection, UnreachableError
from ottla.config.listeners import Address
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")

PASSING = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Refusals that may be over in a moment, perhaps at another broker."""

LAST_SINGLE_KEY_VERSION = 3
"""Of FindCoordinator, which then takes lists."""


class CoordinatorKind(IntEnum):
    """FindCoordinator's `key_type`."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Who asks, and how patiently: pauses double from the first to the last, up to their sum."""

    client_id: str = CLIENT_ID
    request_timeout_s: float = 10.0
    first_pause_s: float = 0.5
    last_pause_s: float = 0.5
    patience_s: float = 4.5

    def pauses(self) -> Iterator[float]:
        left, pause_s = self.patience_s, self.first_pause_s
        while left > 0:
            yield min(pause_s, left)
            left -= pause_s
            pause_s = min(2 * pause_s, self.last_pause_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopic:
    """A topic as the cluster tells it; `leaders` are broker ids by partition, -1 without one."""

    name: str
    topic_id: Uuid | None
    is_internal: bool
    leaders: Mapping[int, int]


class Cluster:
    """Use it in a `with` statement; connections are made when they are needed, and kept."""

    def __init__(
        self,
        bootstrap: Iterable[Address],
        settings: ClientSettings = ClientSettings(),
        *,
        sleep: Callable[[float], None],
        topics: Iterable[str] | None = None,
    ) -> None:
        """Asks one broker for the others; raises `UnreachableError`. `sleep` takes seconds.

        Without `topics` all are asked for. Otherwise nothing is before it is needed: those, and
        what `topic` is called for.
        """
        self.settings = settings
        self._bootstrap = tuple(bootstrap)
        self._sleep = sleep
        self._wanted = None if topics is None else set(topics)
        self._connections: dict[int, Connection] = {}
        self._places: dict[int, Address] = {}
        self._topics: dict[str, ClusterTopic] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        if topics is None:
            self.refresh()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def refresh(self) -> dict[str, ClusterTopic]:
        """Asks anew for brokers and topics, the broker named first, then those it has told of."""
        failure: UnreachableError | None = None
        for address in dict.fromkeys([*self._bootstrap, *self._places.values()]):
            try:
                with self._connect(address) as connection:
                    self._take_metadata(connection)
                return self._topics
            except UnreachableError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def _take_metadata(self, connection: Connection) -> None:
        wanted = self._wanted
        named = None if wanted is None else [MetadataRequestTopic(name=one) for one in wanted]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        self._coordinators.clear()
        answer = connection.ask(request)
        places = {one.node_id: (one.host, one.port) for one in answer.brokers}
        for node_id in [one for one, at in self._places.items() if places.get(one) != at]:
            self._drop(node_id)
        self._places = places
        self._topics = {
            one.name: ClusterTopic(
                name=one.name,
                topic_id=None if one.topic_id == ZERO_UUID else one.topic_id,
                is_internal=one.is_internal,
                leaders={part.partition_index: part.leader_id for part in one.partitions},
            )
            for one in answer.topics
            if one.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
        }

    def brokers(self) -> Iterator[Connection]:
        """A connection to every broker."""
        for node_id in sorted(self._places):
            yield self._connection(node_id)

    def topic(self, name: str) -> ClusterTopic:
        """Raises `UserError` for a topic that is not there."""
        if name not in self._topics:
            if self._wanted is not None:
                self._wanted.add(name)
            self.refresh()
        if name not in self._topics:
            raise UserError(f"there is no topic {name}; create it first")
        return self._topics[name]

    def leader(self, topic: str, partition: int) -> Connection:
        """To who leads a partition; raises `ApiError`, and `UnreachableError`."""
        return self._connection(self._leader(topic, partition))

    def ask_any(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question that every broker can answer."""
        return self.again(lambda: question(self._anyone()))

    def ask_leader(self, topic: str, partition: int, question: Callable[[Connection], T]) -> T:
        """The answer to a question that only the partition's leader can answer.

        Raises `ApiError` for what it refuses for good, or too long, and `UnreachableError`.
        """
        return self.again(lambda: question(self.leader(topic, partition)))

    def ask_coordinator(
        self, kind: CoordinatorKind, key: str, question: Callable[[Connection], T]
    ) -> T:
        """The same of who looks after a group or a transactional id."""
        return self.again(lambda: question(self._coordinator(kind, key)))

    def again(self, asked: Callable[[], T]) -> T:
        """What `asked` returns, in the end; raises as `ask_leader` does.

        After a failure that may pass, the cluster is asked who is in charge now.
        """
        is_stale = False
        for pause_s in self.settings.pauses():
            try:
                if is_stale:
                    self.refresh()
                return asked()
            except ApiError as error:
                if error.code not in PASSING:
                    raise
                is_stale = error.code != ErrorCode.CONCURRENT_TRANSACTIONS
            except UnreachableError:
                self.close()
                is_stale = True
            self._sleep(pause_s)
        self.refresh()
        return asked()

    def _coordinator(self, kind: CoordinatorKind, key: str) -> Connection:
        node_id = self._coordinators.get((kind, key))
        if node_id is None:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            answer = self._anyone().ask(request, newest=LAST_SINGLE_KEY_VERSION)
            check(answer.error_code, answer.error_message)
            node_id = self._coordinators[kind, key] = answer.node_id
            self._places[node_id] = (answer.host, answer.port)
        return self._connection(node_id)

    def _leader(self, topic: str, partition: int) -> int:
        known = self._topics.get(topic) if self._wanted is None else self.topic(topic)
        if known is None or partition not in known.leaders:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if known.leaders[partition] not in self._places:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        return known.leaders[partition]

    def _connection(self, node_id: int) -> Connection:
        connection = self._connections.get(node_id)
        if connection is None:
            connection = self._connections[node_id] = self._connect(self._places[node_id])
        return connection

    def _anyone(self) -> Connection:
        if not self._places:
            self.refresh()
        return self._connection(min(self._places))

    def _connect(self, address: Address) -> Connection:
        settings = self.settings
        return Connection(
            *address, timeout_s=settings.request_timeout_s, client_id=settings.client_id
        )

    def _drop(self, node_id: int) -> None:
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()


def check(code: int, message: str | None = None) -> None:
    """Raises the `ApiError` that a broker's answer is."""
    if code != ErrorCode.NONE:
        raise ApiError(ErrorCode(code), message)
