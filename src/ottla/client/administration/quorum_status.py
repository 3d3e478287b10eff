"""The status of a KRaft cluster's quorum: who leads, who votes, who only follows, and how far.

Kafka's counterpart: `kafka-metadata-quorum.sh describe` (KIP-595, KIP-836, KIP-919).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple

from ottla.base.addresses import Address, address_text
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, RefusalError, UnreachableError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import ClientSettings, SocketTransport, Transport
from ottla.client.connecting.connection import ADDRESS_HINT
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumRequest,
    QuorumPartition,
    ReplicaState,
)

METADATA_TOPIC: Final = "__cluster_metadata"
CONTROLLERS: Final = 2
"""DescribeCluster's `endpoint_type`."""
NOBODY: Final = -1
PATIENCE_S: Final = 3.0
"""How long nodes are waited for: one that is stopped may take connections and answer none, and a
broker answers after two seconds that nobody leads.
"""
QUIET_MS: Final = 10_000
"""A node of the quorum fetches every half second; after this time something is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer; times are of the leader's clock, `None` where it knows none.

    `directory_id` is `None` with `kraft.version` 0, and `address`, which is that of `listener`,
    where the leader does not tell.
    """

    node: int
    directory_id: Uuid | None
    is_voter: bool
    end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    address: Address | None
    listener: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """`lag` of a replica is in offsets behind the end of the leader's log. A quorum that nobody
    leads has leader -1 and no replicas.

    `election_reason` is why the leader has stood for election, by its own words; empty if it is
    one of Kafka's, which do not tell. `words` is what the voters say where nobody leads.
    """

    leader: int = NOBODY
    epoch: int = 0
    high_watermark: int = NOBODY
    replicas: tuple[QuorumReplica, ...] = ()
    election_reason: str = ""
    words: str = ""

    @property
    def is_led(self) -> bool:
        return self.leader != NOBODY

    @property
    def voters(self) -> tuple[QuorumReplica, ...]:
        return tuple(one for one in self.replicas if one.is_voter)

    @property
    def observers(self) -> tuple[QuorumReplica, ...]:
        return tuple(one for one in self.replicas if not one.is_voter)

    @property
    def now_ms(self) -> int | None:
        """The leader's clock when it answered, as far as can be told."""
        times = [
            time for one in self.replicas for time in (one.last_fetch_ms, one.last_caught_up_ms)
        ]
        return max((time for time in times if time is not None), default=None)

    def quiet_ms(self, one: QuorumReplica) -> int | None:
        """How long ago a replica fetched last; `None` for the leader, and if that is unknown."""
        if one.node == self.leader or one.last_fetch_ms is None or self.now_ms is None:
            return None
        return self.now_ms - one.last_fetch_ms

    def is_silent(self, one: QuorumReplica) -> bool:
        """Whether it does not fetch: not since the leader was elected, or not for `QUIET_MS`."""
        if one.node == self.leader:
            return False
        return one.end_offset < 0 or (self.quiet_ms(one) or 0) > QUIET_MS

    @property
    def silent(self) -> tuple[int, ...]:
        """Voters that do not fetch."""
        return tuple(one.node for one in self.voters if self.is_silent(one))


class Unled(NamedTuple):
    """Who does not lead says so: in `text`, and with the voters that it knows. One of Kafka's does
    not say who it is.
    """

    node: int | None
    text: str
    voters: Mapping[Address, int]


class Word(NamedTuple):
    """What came of asking a node who leads."""

    address: Address
    answer: QuorumStatus | Unled | UnreachableError


def quorum_status(addresses: Sequence[Address], transport: Transport) -> QuorumStatus:
    """Asks controllers, or brokers, and whom they name, all at once, until the leader answers.

    Raises `UnreachableError` if none of them answers, and `RefusalError` if no leader does.
    """
    words = []
    for word in _words_of(addresses, transport):
        if isinstance(word.answer, QuorumStatus):
            return word.answer
        words.append(word)
    failures = [one.answer for one in words if isinstance(one.answer, UnreachableError)]
    if len(failures) == len(words):
        raise unreachable(failures)
    raise no_leader(words_text(words))


def _words_of(addresses: Iterable[Address], transport: Transport) -> Iterator[Word]:
    """As they come: whoever does not answer is waited for by nobody if another leads. Raises
    `RefusalError`.
    """
    told: SimpleQueue[Word | Exception] = SimpleQueue()
    asked: set[Address] = set()

    def ask(address: Address) -> None:
        try:
            told.put(_word_of(address, transport))
        except Exception as error:
            told.put(error)

    def begin(those: Iterable[Address]) -> int:
        new = {*those} - asked
        asked.update(new)
        for one in new:
            Thread(target=ask, args=(one,), daemon=True).start()
        return len(new)

    left = begin(addresses)
    while left:
        word = told.get()
        if isinstance(word, Exception):
            raise word
        left += begin(_voters([word])) - 1
        yield word


def _word_of(address: Address, transport: Transport) -> Word:
    try:
        with transport.connect(address) as connection:
            answer = leader_or_words(connection)
            if isinstance(answer, Unled) and not answer.voters:
                answer = answer._replace(voters=controller_addresses(connection))
            return Word(address, answer)
    except ApiError as error:
        what = f"{address_text(*address)}: {error.code.name}: {error.code.description}"
        raise RefusalError(what) from error
    except UnreachableError as error:
        return Word(address, error)


def _voters(words: Iterable[Word]) -> dict[Address, int]:
    return {
        place: node
        for one in words
        if isinstance(one.answer, Unled)
        for place, node in one.answer.voters.items()
    }


def unreachable(failures: Iterable[UnreachableError]) -> UnreachableError:
    """Of those that were asked as controllers nobody answers."""
    said = dict.fromkeys(map(str, failures))
    bare = [one.removesuffix(ADDRESS_HINT) for one in said]
    hint = "" if bare == [*said] else "; name a controller's HOST:PORT"
    return UnreachableError(f"{', '.join(bare)}{hint}")


def no_leader(said: str) -> RefusalError:
    """`said` is what those say who were asked."""
    return RefusalError(f"no controller leads the quorum: {said}")


def words_of_voters(voters: Iterable[Address], settings: ClientSettings) -> str:
    """Asks voters, and returns what they say of who leads; raises `RefusalError`."""
    return words_text([*_words_of(voters, quick_transport(settings))])


def quick_transport(settings: ClientSettings) -> Transport:
    """For nodes of which any may not answer."""
    timeout_s = min(settings.request_timeout_s, PATIENCE_S)
    return SocketTransport(replace(settings, request_timeout_s=timeout_s))


def words_text(words: Iterable[Word]) -> str:
    """What each node says, and what is needed. Of those that do not answer voters are named, if
    anybody has said who they are.
    """
    words = sorted(words, key=lambda one: one.address)
    voters = _voters(words)
    said = dict.fromkeys(
        _said(one, voters.get(one.address))
        for one in words
        if one.address in voters or isinstance(one.answer, Unled) or not voters
    )
    return f"{'; '.join(said)}; {needed(len({*voters.values()}))}"


def needed(count: int = 0) -> str:
    """What a quorum of `count` voters, if that is known, needs to be led."""
    majority = f" ({count // 2 + 1} of {count})" if count else ""
    return f"a majority{majority} of the voters must be up and reach each other"


def _said(word: Word, node: int | None) -> str:
    place = address_text(*word.address)
    who = place if node is None else f"node {node} at {place}"
    match word.answer:
        case UnreachableError():
            return f"{who} does not answer"
        case Unled(text=text) if text:
            return text
    return f"{who} does not lead"


def leader_or_words(connection: Any) -> QuorumStatus | Unled:
    """What the leader knows, also by a broker that asks it, or what another says. Raises
    `ApiError`.
    """
    topic = DescribedTopic(topic_name=METADATA_TOPIC, partitions=[DescribedPartition()])
    answer = connection.ask(DescribeQuorumRequest(topics=[topic]))
    code, text, node = answer.error_code, "", NOBODY
    if not code:
        ((partition,),) = ([*one.partitions] for one in answer.topics)
        if not partition.error_code:
            return _status(partition, answer.nodes)
        code, text = partition.error_code, partition.error_message or ""
        node = partition.node_id
    error = ErrorCode(code)
    if error not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER):
        raise ApiError(error)
    places = {(x.host, x.port): one.node_id for one in answer.nodes for x in one.listeners[:1]}
    if node == NOBODY:  # Kafka's nodes only repeat what the code means.
        return Unled(None, "", places)
    return Unled(node, text, places)


def _status(partition: QuorumPartition, nodes: Sequence[Any]) -> QuorumStatus:
    places = {one.node_id: one.listeners[0] for one in nodes if one.listeners}
    end = max(one.log_end_offset for one in partition.current_voters)
    return QuorumStatus(
        leader=partition.leader_id,
        epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        election_reason=partition.election_reason,
        replicas=(
            *(_replica(one, end, places, is_voter=True) for one in partition.current_voters),
            *(_replica(one, end, places, is_voter=False) for one in partition.observers),
        ),
    )


def _replica(
    one: ReplicaState, end: int, places: dict[int, Any], *, is_voter: bool
) -> QuorumReplica:
    is_known = one.replica_directory_id != ZERO_UUID
    place = places.get(one.replica_id)
    return QuorumReplica(
        node=one.replica_id,
        directory_id=one.replica_directory_id if is_known else None,
        is_voter=is_voter,
        end_offset=one.log_end_offset,
        lag=max(end - max(one.log_end_offset, 0), 0),
        last_fetch_ms=_time(one.last_fetch_timestamp),
        last_caught_up_ms=_time(one.last_caught_up_timestamp),
        address=None if place is None else (place.host, place.port),
        listener="" if place is None else place.name,
    )


def _time(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms


def controller_addresses(connection: Any) -> dict[Address, int]:
    """The controllers that one names, with their ids; brokers know none."""
    if not connection.answers(ApiKey.DESCRIBE_CLUSTER):
        return {}
    answer = connection.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS))
    return {(one.host, one.port): one.broker_id for one in answer.brokers}
