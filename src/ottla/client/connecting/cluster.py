"""A cluster as seen by its brokers: topics, partition leaders, and a connection to each broker.

Kafka's counterparts: `Metadata`, `NetworkClient`. An error of a single partition is an `ApiError`;
`again` retries while the cluster is electing another leader or coordinator.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from enum import IntEnum
from itertools import islice
from threading import Thread
from typing import NamedTuple, Protocol, TypeVar

from ottla.base.addresses import Address, address_text
from ottla.base.closing import Closing
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, OttlaError, UnreachableError, UserError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.connecting.connection import ADDRESS_HINT, CLIENT_ID, Connection
from ottla.client.connecting.security import PLAINTEXT, Security
from ottla.client.refusals import RefusedError
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.runtime.forks import bind_to_process

T = TypeVar("T")

LEADS_NOT = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors of a broker that no longer leads a partition, or does not know yet that it does."""

PASSING = LEADS_NOT.union(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Errors that may pass soon, perhaps at another broker."""

ASKED_FOR_NEW_TOPICS = 5
"""Brokers that are asked about a topic before it counts as missing."""

NEW_TOPIC_PAUSES_S = (0.1, 0.2, 0.4)
"""Before brokers are asked again: they hear of a new topic a moment after it is made."""

STILL_FOR_S = 15.0
"""How long a client in haste does not ask a broker again that has not answered in time."""
MOST_LOOKED_AT = 16
"""How many brokers are looked at in threads, before a page that may ask all of them."""
SHORTEST_S = 0.05
"""What is left at least to brokers that are asked together, when the first took all the time."""

NO_NODE = -1
KNOWS_NOBODY = "the broker knows no brokers of its cluster yet"
LAST_SINGLE_KEY_VERSION = 3
"""Version of FindCoordinator, which then has lists."""


class CoordinatorKind(IntEnum):
    """FindCoordinator's `key_type`."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The client's name and timeouts: pauses double from the first to the last."""

    client_id: str = CLIENT_ID
    request_timeout_s: float = 30.0
    setup_timeout_s: float | None = None
    """A shorter time within which a broker must answer a new connection, for clients in haste:
    they do not soon ask again who has not answered (`STILL_FOR_S`).
    """
    first_pause_s: float = 0.1
    last_pause_s: float = 0.5
    patience_s: float = 4.5
    waits_once: bool = False
    """Whether a broker that did not answer within the patience is later asked without it."""
    security: Security = PLAINTEXT
    makes_topics: bool = False
    """Whether brokers may create a requested topic (`auto.create.topics.enable`)."""

    def pauses(self) -> Iterator[float]:
        left, pause_s = self.patience_s, self.first_pause_s
        while left > 0:
            yield min(pause_s, left)
            left -= pause_s
            pause_s = min(2 * pause_s, self.last_pause_s)

    def is_still(self, error: UnreachableError) -> bool:
        """Whether a client in haste has just waited for the broker, which would not answer soon."""
        return self.setup_timeout_s is not None and isinstance(error.__cause__, TimeoutError)


DEFAULT_SETTINGS = ClientSettings()


class Transport(Protocol):
    """How brokers are reached: over sockets, or in this process."""

    def connect(self, address: Address) -> Connection:
        """Raises `UnreachableError`, and `AuthenticationError` if a login is refused."""

    def close(self) -> None:
        """Releases what all connections share."""

    def before_close(self, deed: Callable[[], None]) -> None:
        """Has a function called before the log in this process closes, unless `close` is first."""


@dataclass(frozen=True, slots=True)
class SocketTransport:
    """TCP, with TLS and a login if the settings require them."""

    settings: ClientSettings

    still: dict[str, tuple[float, str]] = field(default_factory=dict)
    """By address who has not answered a client in haste, until when that counts, and the error."""

    keeps_memory: bool = False
    """Whether what is long in an answer is used before the next one (see `SocketConnection`)."""

    def connect(self, address: Address) -> Connection:
        until_s, reason = self.still.get(address_text(*address), (0.0, ""))
        if time.monotonic() < until_s:
            raise UnreachableError(reason) from TimeoutError(reason)
        try:
            return self._connect(address)
        except UnreachableError as error:
            self._note(address_text(*address), error)
            raise

    def silent_of(self, connections: Mapping[int, Connection]) -> set[int]:
        """The brokers that do not answer over connections of this within `setup_timeout_s`: who
        stands still would hold up the next request for the whole of its timeout.
        """
        from ottla.client.connecting.socket_connection import SocketConnection

        timeout_s, silent = self.settings.setup_timeout_s or 0.0, set[int]()
        until_s = time.monotonic() + timeout_s
        sockets = {one: at for one, at in connections.items() if isinstance(at, SocketConnection)}
        answers: dict[int, Callable[[], object]] = {}
        for node_id, connection in sockets.items():
            try:
                answers[node_id] = connection.send(ApiVersionsRequest())
            except UnreachableError:
                silent.add(node_id)
        for node_id, answer in answers.items():
            connection = sockets[node_id]
            try:
                connection.wait_up_to(max(round(until_s - time.monotonic(), 2), SHORTEST_S))
                answer()
                connection.wait_up_to(self.settings.request_timeout_s)
            except UnreachableError as error:
                silent.add(node_id)
                self._note(connection.address, error)
        return silent

    def begin_look(self, addresses: Iterable[Address]) -> Callable[[], None]:
        """Looks who does not answer new connections of a client in haste, all at once; what is
        returned waits for that, so that they are not waited for one after the other.
        """
        # A thread for each would be as slow for the brokers of a large cluster.
        looks = [Thread(target=self._look, args=(one,), daemon=True)
                 for one in islice(addresses, MOST_LOOKED_AT)]  # fmt: skip
        for one in looks:
            one.start()

        def wait() -> None:
            for one in looks:
                one.join()

        return wait

    def _look(self, address: Address) -> None:
        with suppress(OttlaError, OSError):
            self.connect(address).close()

    def _note(self, address: str, error: UnreachableError) -> None:
        if self.settings.is_still(error):
            self.still[address] = time.monotonic() + STILL_FOR_S, str(error)

    def _connect(self, address: Address) -> Connection:
        from ottla.client.connecting.socket_connection import SocketConnection

        settings = self.settings
        timeout_s = settings.request_timeout_s
        connection = SocketConnection(
            *address,
            timeout_s=min(timeout_s, settings.setup_timeout_s or timeout_s),
            client_id=settings.client_id,
            security=settings.security,
            keeps_memory=self.keeps_memory,
        )
        connection.wait_up_to(timeout_s)
        return connection

    def close(self) -> None:
        """Connections share nothing."""

    def before_close(self, deed: Callable[[], None]) -> None:
        """Brokers of other processes do not say when they end."""


class PartitionLeader(NamedTuple):
    """A broker's id, and its leader epoch: -1 if the cluster does not report it."""

    node_id: int
    epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopic:
    """A topic as reported by the cluster; `leaders` are broker ids by partition, -1 without one."""

    name: str
    topic_id: Uuid | None
    is_internal: bool
    leaders: Mapping[int, int]
    leader_epochs: Mapping[int, int]


class Cluster(Closing):
    """Use it in a `with` statement; connections are opened when needed, and kept."""

    def __init__(
        self,
        bootstrap: Iterable[Address],
        settings: ClientSettings = DEFAULT_SETTINGS,
        *,
        sleep: Callable[[float], None],
        topics: Iterable[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        transport: Transport | None = None,
    ) -> None:
        """Asks one broker for the others; raises `UnreachableError`. `sleep` takes seconds.

        Without `topics`, all topics are loaded; otherwise only those, and the ones that `topic` is
        called for, when needed.
        """
        self.settings = settings
        self._bootstrap = tuple(bootstrap)
        self._transport = transport or SocketTransport(settings)
        self.sleep = sleep
        self._clock = clock
        self._wanted = None if topics is None else set(topics)
        self._connections: dict[int, Connection] = {}
        self._is_closed = False
        self._places: dict[int, Address] = {}
        self._controller = NO_NODE
        self.cluster_id: str | None = None
        """`None` before the first answer, and of brokers before Kafka 0.10.1."""
        self._silent: set[int] = set()
        """Brokers that did not answer recently, which are asked last."""
        self._failed = NO_NODE
        """The broker of which `again` is just told that it does not answer."""
        self._waited_for: set[int] = set()
        """Brokers that have not answered since `again` waited for them."""
        self._topics: dict[str, ClusterTopic] = {}
        self._refused: dict[str, ErrorCode] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        bind_to_process(self)
        if topics is None:
            self.refresh()

    def close(self) -> None:
        self._is_closed = True
        self.disconnect()
        self._transport.close()

    def before_close(self, deed: Callable[[], None]) -> None:
        """Has a function called before a log in this process closes, unless this is closed."""
        self._transport.before_close(deed)

    def abandon(self) -> None:
        """In a forked child: leaves the connections to the parent, and makes others when needed."""
        self._connections.clear()

    def disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def leave(self, silent: Callable[[Mapping[int, Connection]], Iterable[int]]) -> None:
        """Gives up those of the kept connections, by broker, that a function returns."""
        for node_id in silent(self._connections):
            self._drop(node_id)
            self._silent.add(node_id)

    def places(self) -> list[Address]:
        """Where the brokers are; raises as `node_ids` does."""
        return [self._places[one] for one in self.node_ids()]

    def unconnected(self) -> list[Address]:
        """Where the known brokers are to which no connection is kept."""
        return [at for one, at in self._places.items() if one not in self._connections]

    def refresh(self) -> dict[str, ClusterTopic]:
        """Refreshes brokers and topics: from the controller if it is known and answers, then
        from the bootstrap brokers, then from those that they reported.
        """
        failure: UnreachableError | None = None
        knows_most = [self._controller] if self._controller not in self._silent else []
        first = [self._places[one] for one in knows_most if one in self._places]
        for address in dict.fromkeys([*first, *self._bootstrap, *self._places.values()]):
            try:
                with self._connect(address) as connection:
                    self._take_metadata(connection)
                return self._topics
            except UnreachableError as error:
                self._silent.update(one for one, at in self._places.items() if at == address)
                failure = failure or error
        assert failure is not None
        raise failure

    def _take_metadata(self, connection: Connection) -> None:
        wanted = self._wanted
        named = None if wanted is None else [MetadataRequestTopic(name=one) for one in wanted]
        request = MetadataRequest(
            topics=named, allow_auto_topic_creation=self.settings.makes_topics
        )
        self._coordinators.clear()
        answer = connection.ask(request)
        places = {one.node_id: (one.host, one.port) for one in answer.brokers}
        for node_id in [one for one, at in self._places.items() if places.get(one) != at]:
            self._drop(node_id)
        self._places = places
        self.cluster_id = answer.cluster_id or self.cluster_id
        if answer.controller_id != self._controller:
            self._controller = answer.controller_id
            self._silent.clear()
        self._topics = {
            one.name: ClusterTopic(
                name=one.name,
                topic_id=None if one.topic_id == ZERO_UUID else one.topic_id,
                is_internal=one.is_internal,
                leaders={part.partition_index: part.leader_id for part in one.partitions},
                leader_epochs={part.partition_index: part.leader_epoch for part in one.partitions},
            )
            for one in answer.topics
            if one.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
        }
        self._refused = {
            one.name: ErrorCode(one.error_code)
            for one in answer.topics
            if one.name not in self._topics
            and one.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }

    def brokers(self) -> Iterator[Connection]:
        """Returns a connection to every broker."""
        for node_id in self.node_ids():
            yield self._connection(node_id)

    def node_ids(self) -> list[int]:
        """The ids of all brokers, in order; raises `UnreachableError` while none is known."""
        if not self._places:
            self.refresh()
        if not self._places:
            # A broker that has just joined a cluster learns of the others from the controller.
            asked = ",".join(address_text(*one) for one in self._bootstrap)
            raise UnreachableError(f"{asked}: {KNOWS_NOBODY}")
        return sorted(self._places)

    def broker(self, node_id: int) -> Connection:
        """The connection to one broker; raises `UserError` if there is none with that id."""
        if node_id not in self.node_ids():
            # It may have joined since, or the asked broker did not know it yet.
            self.ask_any(self._take_metadata)
        if node_id not in self._places:
            known = ", ".join(map(str, self._places))
            raise UserError(f"there is no broker {node_id}; there are {known}")
        return self._connection(node_id)

    def topic_names(self) -> list[str]:
        """The current names of all topics; raises as `ask_leader` does."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return [one.name for one in self.ask_any(lambda broker: broker.ask(request)).topics]

    def look_up(self, topics: Collection[str]) -> dict[str, ClusterTopic]:
        """Returns those of some topics that exist now, over a kept connection.

        Raises as `ask_leader` does.
        """
        if self._wanted is not None:
            self._wanted.update(topics)
        self.ask_any(self._take_metadata)
        self._ask_more(topics)
        for name in topics:
            if name in self._refused:
                code = self._refused[name]
                raise ApiError(code, f"topic {name}: {code.description}")
        return {name: self._topics[name] for name in topics if name in self._topics}

    def look_for(self, name: str) -> ClusterTopic | None:
        """As `look_up`, for a topic that may just have been made: brokers of a cluster that have
        not heard of it are asked again, for less than a second.
        """
        pauses_s = iter(NEW_TOPIC_PAUSES_S)
        while (found := self.look_up([name]).get(name)) is None:
            pause_s = next(pauses_s, None) if len(self._places) > 1 else None
            if pause_s is None:
                return None
            self.sleep(pause_s)
        return found

    def _ask_more(self, topics: Collection[str]) -> None:
        """A broker may not have heard yet of a topic that another one has just answered for.

        The first to ask now may not have been the first before, when the controller was another.
        """
        nodes = self._by_preference()
        for node_id in nodes[:ASKED_FOR_NEW_TOPICS] if len(nodes) > 1 else ():
            if all(name in self._topics or name in self._refused for name in topics):
                return
            try:
                self._take_metadata(self._connection(node_id))
            except UnreachableError:
                self._drop(node_id)
                self._silent.add(node_id)

    def topic(self, name: str) -> ClusterTopic:
        """Raises `UserError` for a missing topic, `RefusedError` for one that we may not use."""
        if name not in self._topics:
            self._ask_for(name)
            self._ask_more([name])
        if name in self._refused:
            raise RefusedError(f"topic {name}", ApiError(self._refused[name]))
        if name not in self._topics:
            raise UserError(f"there is no topic {name}; create it first")
        return self._topics[name]

    def _ask_for(self, name: str) -> None:
        if self._wanted is not None:
            self._wanted.add(name)
        self.refresh()

    def leader(self, topic: str, partition: int) -> Connection:
        """The connection to a partition's leader; raises `ApiError`, and `UnreachableError`."""
        return self._connection(self._leader(topic, partition))

    def connect_to(self, node_id: int) -> Connection:
        """Opens another connection to a broker, for another thread, which closes it."""
        if node_id not in self._places:
            raise UnreachableError(f"broker {node_id} is no longer known")
        return self._connect(self._places[node_id])

    def leaders(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionLeader]:
        """The current leaders of partitions; partitions without a leader are left out."""
        topics = self.look_up({topic for topic, _ in partitions})
        found: dict[TopicPartition, PartitionLeader] = {}
        for place in partitions:
            known = topics.get(place.topic)
            if known is None or known.leaders.get(place.partition, NO_NODE) not in self._places:
                continue
            node_id, epoch = known.leaders[place.partition], known.leader_epochs[place.partition]
            found[place] = PartitionLeader(node_id, epoch)
        return found

    def coordinator_id(self, kind: CoordinatorKind, key: str) -> int:
        """Looks up the current coordinator; raises as `ask_coordinator` does."""

        def ask() -> int:
            self._coordinators.pop((kind, key), None)
            self._coordinator(kind, key)
            return self._coordinators[kind, key]

        return self.again(ask)

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> list[tuple[Connection, list[TopicPartition]]]:
        """Groups partitions by leader, with a connection to it; raises as `leader` does."""
        found: dict[int, list[TopicPartition]] = {}
        for topic, partition in partitions:
            found.setdefault(self._leader(topic, partition), []).append(
                TopicPartition(topic, partition)
            )
        return [(self._connection(node_id), found[node_id]) for node_id in sorted(found)]

    def ask_any(self, question: Callable[[Connection], T]) -> T:
        """Sends a request that every broker can answer.

        The controller is preferred: other brokers learn of its changes later.
        """
        return self.again(lambda: self._ask_one(question))

    def _ask_one(self, question: Callable[[Connection], T]) -> T:
        *some, last = self._by_preference()
        for node_id in some:
            try:
                return question(self._connection(node_id))
            except UnreachableError:
                self._drop(node_id)
                self._silent.add(node_id)
        return question(self._connection(last))

    def _by_preference(self) -> list[int]:
        return sorted(
            self.node_ids(), key=lambda one: (one in self._silent, one != self._controller, one)
        )

    def ask_controller(self, question: Callable[[Connection], T]) -> T:
        """Sends a request that only the controller answers in older clusters."""

        def ask() -> T:
            nodes = self.node_ids()
            asked = self._controller if self._controller in nodes else nodes[0]
            return question(self._connection(asked))

        return self.again(ask)

    def ask_through(self, broker: Connection, question: Callable[[Connection], T]) -> T:
        """Asks a broker for what it asks the controller itself. A client in haste waits for that no
        longer than for a new connection, and raises `RefusedError` with REQUEST_TIMED_OUT.
        """
        limit_s, wait_up_to = self.settings.setup_timeout_s, getattr(broker, "wait_up_to", None)
        if limit_s is None or wait_up_to is None:
            return question(broker)
        wait_up_to(limit_s)
        try:
            answer = question(broker)
        except UnreachableError as error:
            self.leave(lambda known: [one for one, at in known.items() if at is broker])
            if not self.settings.is_still(error):
                raise
            said = f"the controller has not answered {broker.address} within {limit_s:g} s"
            code = ErrorCode.REQUEST_TIMED_OUT
            raise RefusedError("the controller", ApiError(code, said)) from error
        wait_up_to(self.settings.request_timeout_s)
        return answer

    def ask_leader(self, topic: str, partition: int, question: Callable[[Connection], T]) -> T:
        """Sends a request to a partition's leader.

        Raises `ApiError` for a permanent error, or one that lasts too long, and `UnreachableError`.
        """
        return self.again(lambda: question(self.leader(topic, partition)))

    def ask_coordinator(
        self, kind: CoordinatorKind, key: str, question: Callable[[Connection], T]
    ) -> T:
        """Sends a request to the coordinator of a group or a transactional id."""
        return self.again(lambda: question(self._coordinator(kind, key)))

    def again(self, asked: Callable[[], T]) -> T:
        """Retries until `asked` succeeds, and returns its result; raises as `ask_leader` does.

        After a temporary failure, the cluster is asked for the coordinator again. Waiting for
        brokers that do not answer counts towards the time limit too.
        """
        is_stale = False
        until = self._clock() + self.settings.patience_s
        for pause_s in self.settings.pauses():
            self._failed = NO_NODE
            try:
                if is_stale:
                    self.refresh()
                return asked()
            except ApiError as error:
                if error.code not in PASSING:
                    raise
                is_stale = error.code != ErrorCode.CONCURRENT_TRANSACTIONS
            except UnreachableError as error:
                self.disconnect()
                is_stale = True
                if self._failed in self._waited_for or self.settings.is_still(error):
                    break
            if self._clock() >= until:
                break
            self.sleep(pause_s)
        self.refresh()
        try:
            return asked()
        except UnreachableError:
            if self.settings.waits_once and self._failed != NO_NODE:
                self._waited_for.add(self._failed)
            raise

    def _coordinator(self, kind: CoordinatorKind, key: str) -> Connection:
        node_id = self._coordinators.get((kind, key))
        if node_id is None:
            from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

            request = FindCoordinatorRequest(key=key, key_type=kind)
            answer = self._ask_one(lambda one: one.ask(request, newest=LAST_SINGLE_KEY_VERSION))
            check(answer.error_code, answer.error_message)
            node_id = self._coordinators[kind, key] = answer.node_id
            self._places[node_id] = (answer.host, answer.port)
        return self._connection(node_id)

    def _leader(self, topic: str, partition: int) -> int:
        if topic not in self._topics and self._wanted is not None:
            self._ask_for(topic)
        known = self._topics.get(topic)
        if known is None or partition not in known.leaders:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if known.leaders[partition] not in self._places:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        return known.leaders[partition]

    def _connection(self, node_id: int) -> Connection:
        connection = self._connections.get(node_id)
        if connection is None:
            self._failed = node_id
            connection = self._connections[node_id] = self._connect_to(node_id)
            self._failed = NO_NODE
            self._waited_for.discard(node_id)
        return connection

    def _connect_to(self, node_id: int) -> Connection:
        try:
            return self._connect(self._places[node_id])
        except UnreachableError as error:
            if len(self._places) < 2:
                raise
            # Nobody chose this address, so that its hint does not help.
            said = f"broker {node_id} at {str(error).removesuffix(ADDRESS_HINT)}"
            raise UnreachableError(said) from error.__cause__

    def _connect(self, address: Address) -> Connection:
        if self._is_closed:
            raise UserError("this client is closed; create another")
        return self._transport.connect(address)

    def _drop(self, node_id: int) -> None:
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()


def check(code: int, message: str | None = None) -> None:
    """Raises the `ApiError` for a response's error code."""
    if code != ErrorCode.NONE:
        raise ApiError(ErrorCode(code), message)
