"""A cluster seen through its brokers: topics, who leads their partitions, and a connection to each.

Kafka's counterparts: `Metadata`, `NetworkClient`. What goes wrong with one partition is an
`ApiError`; `ask_leader` asks again while the cluster is choosing another leader.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.client.connection import Connection, UnreachableError
from ottla.protocol.messages.metadata import MetadataRequest

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
    }
)
"""Refusals that may be over in a moment, perhaps at another broker."""

ATTEMPTS = 10
PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopic:
    """A topic as the cluster tells it; `leaders` are broker ids by partition, -1 without one."""

    name: str
    topic_id: Uuid | None
    is_internal: bool
    leaders: Mapping[int, int]


class Cluster:
    """Use it in a `with` statement; connections are made when they are needed, and kept."""

    def __init__(self, host: str, port: int, *, sleep: Callable[[float], None]) -> None:
        """Asks one broker for the others; raises `UnreachableError`. `sleep` takes seconds."""
        self._bootstrap = (host, port)
        self._sleep = sleep
        self._connections: dict[int, Connection] = {}
        self._places: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, ClusterTopic] = {}
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
        for host, port in dict.fromkeys([self._bootstrap, *self._places.values()]):
            try:
                with Connection(host, port) as connection:
                    self._take_metadata(connection)
                return self._topics
            except UnreachableError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def _take_metadata(self, connection: Connection) -> None:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
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

    def ask_any(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question that every broker can answer."""
        return self._again(lambda: question(self._connection(min(self._places))))

    def ask_leader(self, topic: str, partition: int, question: Callable[[Connection], T]) -> T:
        """The answer to a question that only the partition's leader can answer.

        Raises `ApiError` for what it refuses for good, or too long, and `UnreachableError`.
        """
        return self._again(lambda: question(self._connection(self._leader(topic, partition))))

    def _again(self, asked: Callable[[], T]) -> T:
        for _ in range(ATTEMPTS - 1):
            try:
                return asked()
            except ApiError as error:
                if error.code not in PASSING:
                    raise
            except UnreachableError:
                self.close()
            self._sleep(PAUSE_S)
            self.refresh()
        return asked()

    def _leader(self, topic: str, partition: int) -> int:
        known = self._topics.get(topic)
        if known is None or partition not in known.leaders:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if known.leaders[partition] not in self._places:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        return known.leaders[partition]

    def _connection(self, node_id: int) -> Connection:
        connection = self._connections.get(node_id)
        if connection is None:
            connection = self._connections[node_id] = Connection(*self._places[node_id])
        return connection

    def _drop(self, node_id: int) -> None:
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()


def check(code: int, message: str | None = None) -> None:
    """Raises the `ApiError` that a broker's answer is."""
    if code != ErrorCode.NONE:
        raise ApiError(ErrorCode(code), message)
