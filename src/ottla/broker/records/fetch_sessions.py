"""Fetch sessions: the broker remembers what a client fetches, and only changes are transferred.

A session begins with a full fetch (epoch 0). Each later fetch has the next epoch and only the
partitions whose offsets moved; its response has only partitions with records, an error, or a high
watermark or log start offset that the client does not know. A client for which no slot is free gets
full responses with session id 0.

A machine without clock or randomness: both are passed in. The end that fetches is
`base/fetching_session.py`. Kafka's counterparts: `FetchManager`,
`FetchSessionCache`, `FetchContext` (KIP-227).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.fetching_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_epoch
from ottla.base.ids import Uuid
from ottla.base.principal import ANONYMOUS, Principal
from ottla.base.turns import PART_SIZE, freed_in_turns, in_turns, many_in_turns
from ottla.base.values import dataclass
from ottla.broker.waiting.fetch_queries import FetchResult, PartitionQuery
from ottla.storage.log.reader import FetchData

MAX_ID = 2**31 - 1
KEPT_MS = 120_000
"""How long an unused or new session is protected from eviction when the slots are full."""

NOT_TOLD = -1
"""A value that no high watermark has: the next response includes the partition."""

PartitionKey = tuple[str | Uuid | None, int]
"""A partition as its client names it: by the topic's name or, from version 13 on, by its id."""

Pair = tuple[PartitionQuery, FetchData | ApiError]


@dataclass(slots=True)
class SessionFetch:
    """A request's session, and the partitions that it names.

    A full fetch names all partitions, an incremental one those that are new or have changed.
    """

    session_id: int
    epoch: int
    uses_topic_ids: bool
    partitions: Sequence[PartitionQuery]
    forgotten: Sequence[PartitionKey] = ()
    owner: Principal = ANONYMOUS
    """Only the user that created a session may use it. In Kafka any client may, with the id."""


@dataclass(slots=True)
class FetchSessionResponse:
    """The response: the session for the next fetch, and the partitions to list."""

    session_id: int
    pairs: list[Pair]


class FetchContext(Protocol):
    """One fetch: the caller reads `partitions`, and `respond` selects those for the response."""

    @property
    def partitions(self) -> Sequence[PartitionQuery]: ...

    def respond(self, result: FetchResult) -> FetchSessionResponse:
        """Raises `ApiError` if the session has advanced without this fetch."""


@dataclass(slots=True)
class SessionPartition(PartitionQuery):
    """A partition with the offsets that its client last received."""

    high_watermark: int = NOT_TOLD
    log_start_offset: int = -1

    def note(self, data: FetchData | ApiError) -> bool:
        """Records what the client receives; returns whether the response must include the
        partition.
        """
        if isinstance(data, ApiError):
            self.high_watermark = NOT_TOLD
            return True
        if (
            data.high_watermark == self.high_watermark
            and data.log_start_offset == self.log_start_offset
        ):
            return _has_records(data)
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        return True


class FetchSession:
    """The partitions of one client in the order in which they are read."""

    __slots__ = (
        "counted",
        "created_ms",
        "epoch",
        "id",
        "last_used_ms",
        "owner",
        "partitions",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[PartitionKey, SessionPartition],
        owner: Principal,
        *,
        uses_topic_ids: bool,
        now_ms: float,
    ) -> None:
        self.id = session_id
        self.owner = owner
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.counted = len(partitions)
        """The number of partitions that are included in the count of all sessions."""
        self.created_ms = self.last_used_ms = now_ms

    @property
    def is_evictable(self) -> bool:
        """Whether it was old enough at its last use that a larger session may take its slot."""
        return self.last_used_ms - self.created_ms > KEPT_MS

    def update(self, fetch: SessionFetch) -> None:
        """Adds, updates and removes partitions as a request says."""
        partitions = self.partitions
        for wanted in many_in_turns(fetch.partitions):
            key = (wanted.topic if wanted.topic_id is None else wanted.topic_id, wanted.index)
            known = partitions.get(key)
            if known is None:
                partitions[key] = _session_partition(wanted)
                continue
            known.offset = wanted.offset
            known.max_size = wanted.max_size
            known.leader_epoch = wanted.leader_epoch
            known.last_fetched_epoch = wanted.last_fetched_epoch
            known.replica_log_start = wanted.replica_log_start
            known.replica_high_watermark = wanted.replica_high_watermark
        for key in many_in_turns(fetch.forgotten):
            partitions.pop(key, None)

    def move_to_end(self, partition: SessionPartition) -> None:
        """Has a partition that returned records be read last next time, so that none starves."""
        key = key_of(partition)
        if self.partitions.get(key) is partition:
            self.partitions[key] = self.partitions.pop(key)


class SessionlessFetch:
    """A fetch whose response has all partitions, without a session."""

    __slots__ = ("partitions",)

    def __init__(self, partitions: Sequence[PartitionQuery]) -> None:
        self.partitions = partitions

    def respond(self, result: FetchResult) -> FetchSessionResponse:
        pairs = list(zip(self.partitions, result.partitions, strict=True))
        return FetchSessionResponse(NO_SESSION, pairs)


class FullFetch:
    """A fetch whose response has all partitions, and which creates a session if a slot is free."""

    __slots__ = ("_now_ms", "_owner", "_sessions", "_uses_topic_ids", "partitions")

    def __init__(self, sessions: "FetchSessions", fetch: SessionFetch, now_ms: float) -> None:
        self._sessions = sessions
        self._owner = fetch.owner
        self._uses_topic_ids = fetch.uses_topic_ids
        self._now_ms = now_ms
        self.partitions = fetch.partitions

    def respond(self, result: FetchResult) -> FetchSessionResponse:
        pairs = list(zip(self.partitions, result.partitions, strict=True))
        session_id = self._sessions.create(
            pairs, self._owner, uses_topic_ids=self._uses_topic_ids, now_ms=self._now_ms
        )
        return FetchSessionResponse(session_id, pairs)


class IncrementalFetch:
    """A fetch that reads all partitions of the session; its response has the changed ones."""

    __slots__ = ("_epoch", "_session", "partitions")

    def __init__(self, session: FetchSession) -> None:
        self._session = session
        self._epoch = session.epoch
        self.partitions = list(session.partitions.values())

    def respond(self, result: FetchResult) -> FetchSessionResponse:
        session = self._session
        if session.epoch != self._epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        pairs: list[Pair] = []
        is_in_turn = len(self.partitions) > 1
        results = zip(self.partitions, result.partitions, strict=True)
        for partition, data in in_turns(results) if is_in_turn else results:
            if partition.note(data):
                pairs.append((partition, data))
                if is_in_turn and _has_records(data):
                    session.move_to_end(partition)
        return FetchSessionResponse(session.id, pairs)


class FetchSessions:
    """All sessions by id, bounded by their number and their partitions.

    Eviction searches all sessions, so that fetches need not maintain an order of use.
    """

    def __init__(
        self, slot_count: int, new_id: Callable[[], int], *, max_partition_count: int
    ) -> None:
        """`new_id` returns a number from 1 to `MAX_ID`; if it is in use, the next free one is used.

        `max_partition_count` bounds the sum over all sessions. Kafka bounds only the number of
        sessions, and a client can name any number of partitions in one, existing or not.
        """
        self._slot_count = slot_count
        self._max_partition_count = max_partition_count
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self._partition_count = 0
        self._ended: list[dict[PartitionKey, SessionPartition]] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def size_of(self, session_id: int) -> int:
        """Returns a session's number of partitions; 0 for one that does not exist."""
        session = self._sessions.get(session_id)
        return 0 if session is None else len(session.partitions)

    @property
    def partition_count(self) -> int:
        """The number of partitions over all sessions."""
        return self._partition_count

    def begin(self, fetch: SessionFetch, now_ms: float) -> FetchContext:
        """Returns the context of a request; raises `ApiError` if its session no longer exists."""
        if self._ended:
            self._free_some()
        session = self._sessions.get(fetch.session_id)
        if session is not None and session.owner != fetch.owner:
            session = None
        if fetch.epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self._end(session.id)
            if fetch.epoch == FINAL_EPOCH:
                return SessionlessFetch(fetch.partitions)
            return FullFetch(self, fetch, now_ms)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != fetch.epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != fetch.uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = next_epoch(fetch.epoch)
        self._update(session, fetch)
        if not session.partitions:
            self._end(session.id)
            return SessionlessFetch(fetch.partitions)
        session.last_used_ms = now_ms
        return IncrementalFetch(session)

    def _update(self, session: FetchSession, fetch: SessionFetch) -> None:
        """Raises `ApiError` for a session that has ended meanwhile, or that exceeds the limit and
        is ended. Its client starts a new session.
        """
        session.update(fetch)
        if self._sessions.get(session.id) is not session:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._partition_count += len(session.partitions) - session.counted
        session.counted = len(session.partitions)
        if self._partition_count > self._max_partition_count:
            self._end(session.id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= session.counted
            self._ended.append(session.partitions)

    def _free_some(self) -> None:
        """Frees a part of the ended sessions at each fetch: 100,000 partitions take 20 ms."""
        partitions = self._ended[-1]
        for _ in range(min(len(partitions), PART_SIZE)):
            partitions.popitem()
        if not partitions:
            self._ended.pop()

    def create(
        self, pairs: list[Pair], owner: Principal, *, uses_topic_ids: bool, now_ms: float
    ) -> int:
        """Creates a session from a full fetch; returns its id, or `NO_SESSION` without a slot."""
        partitions = {}
        for wanted, data in in_turns(pairs):
            partition = _session_partition(wanted)
            partition.note(data)
            partitions[key_of(wanted)] = partition
        if not self._make_room(len(pairs), now_ms):
            freed_in_turns(partitions)
            return NO_SESSION
        session_id = self._free_id()
        self._partition_count += len(partitions)
        self._sessions[session_id] = FetchSession(
            session_id, partitions, owner, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        return session_id

    def _free_id(self) -> int:
        session_id = self._new_id()
        assert 1 <= session_id <= MAX_ID
        while session_id in self._sessions:
            session_id = session_id % MAX_ID + 1
        return session_id

    def _make_room(self, size: int, now_ms: float) -> bool:
        """Evicts sessions for a new one of `size` partitions; returns whether there is room."""
        if size > self._max_partition_count:
            return False
        while (
            len(self._sessions) >= self._slot_count
            or self._partition_count + size > self._max_partition_count
        ):
            victim = self._victim(size, now_ms)
            if victim is None:
                return False
            self._end(victim.id)
        return True

    def _victim(self, size: int, now_ms: float) -> FetchSession | None:
        """Returns the session to evict for one of `size` partitions.

        That is the least recently used one if it has been unused for `KEPT_MS`, otherwise the
        smallest evictable one, if it is smaller than the new one (Kafka:
        `FetchSessionCache.tryEvict`).
        """
        if not self._sessions:
            return None
        victim = min(self._sessions.values(), key=lambda one: (one.last_used_ms, one.id))
        if now_ms - victim.last_used_ms > KEPT_MS:
            return victim
        evictable = [one for one in self._sessions.values() if one.is_evictable]
        victim = min(evictable, key=lambda one: (len(one.partitions), one.id), default=victim)
        return victim if evictable and len(victim.partitions) < size else None


def key_of(wanted: PartitionQuery) -> PartitionKey:
    return (wanted.topic if wanted.topic_id is None else wanted.topic_id, wanted.index)


def _session_partition(wanted: PartitionQuery) -> SessionPartition:
    return SessionPartition(
        wanted.topic,
        wanted.index,
        wanted.offset,
        wanted.max_size,
        wanted.leader_epoch,
        wanted.topic_id,
        wanted.last_fetched_epoch,
        wanted.replica_log_start,
        wanted.replica_high_watermark,
    )


def _has_records(data: FetchData | ApiError) -> bool:
    return isinstance(data, FetchData) and data.records is not None and data.records.size > 0
