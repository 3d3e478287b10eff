"""What a member of a share group asks the leaders of its partitions, and which records are its own.

A machine without I/O: `next_request` is the next request to a leader, if there is one, and
`answered` or `unreachable` takes what came of it, before anything else is asked of that leader.
What was fetched is in `chunks`, and what became of acknowledgements in `results`. Kafka's
counterparts: `ShareConsumeRequestManager`, `ShareSessionHandler`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.fetching_session import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import LEADS_NOT, PASSING, PartitionLeader
from ottla.client.sharing.acknowledging import (
    RENEW,
    Held,
    HeldPartition,
    Said,
    Sayings,
    expired,
    has_renewal,
    ranges_of,
)
from ottla.client.sharing.errors import AcknowledgementResult
from ottla.codec.schema import Message
from ottla.coordinator.share.records_in_flight import AcknowledgeType, AcquiredRange
from ottla.protocol.messages import share_acknowledge, share_fetch
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest

Key = tuple[bytes, int]
"""A topic's id, and a partition."""

LINGER_MS: Final = 100.0
"""How long an acknowledgement waits for others, and for a fetch that takes it along."""

NEVER: Final = float("inf")

GAP: Final = AcknowledgeType.GAP

OTHER_LEADER: Final = LEADS_NOT | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
"""Errors after which records are lost, and a partition's leader is looked up again."""

SESSION_ERRORS: Final = frozenset(
    {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH}
)
"""Errors after which another session begins, in which the records of the earlier one are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeOptions:
    """What every request says; times are in milliseconds, sizes in bytes."""

    group_id: str
    member_id: str
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_records: int = 500
    is_strict: bool = False
    """Whether no more than `max_records` are acquired, if that splits a record batch."""
    retry_backoff_ms: float = 100.0


class Chunk(NamedTuple):
    """Fetched batches of one partition, and the offsets of them that are this member's."""

    partition: HeldPartition
    version: int
    records: memoryview
    acquired: list[AcquiredRange]
    until_ms: float
    """When the locks expire."""

    def is_held(self, now_ms: float) -> bool:
        return self.version == self.partition.version and now_ms < self.until_ms


class Sent(NamedTuple):
    wanted: frozenset[Key]
    said: Mapping[Key, Sayings]
    is_fetch: bool
    is_final: bool = False


class _Session:
    __slots__ = ("epoch", "named", "paused_until_ms", "sent")

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        self.named: frozenset[Key] = frozenset()
        self.sent: Sent | None = None
        self.paused_until_ms = 0.0


@dataclass(slots=True)
class Exchange:
    """All methods are called under one lock, which the caller holds."""

    options: ExchangeOptions
    partitions: dict[Key, HeldPartition] = field(default_factory=dict)
    by_place: dict[TopicPartition, HeldPartition] = field(default_factory=dict)
    """The same by name; of a topic that was created anew the newest."""
    chunks: deque[Chunk] = field(default_factory=deque)
    results: deque[AcknowledgementResult] = field(default_factory=deque)
    refusals: deque[ApiError] = field(default_factory=deque)
    """Errors for the application."""
    is_hungry: bool = False
    """Whether the application waits for records."""
    must_flush: bool = False
    """Whether acknowledgements are sent without delay."""
    _sessions: dict[int, _Session] = field(default_factory=dict)

    # Partitions and leaders

    def assign(self, topic_ids: Mapping[TopicPartition, bytes], now_ms: float) -> None:
        """Fetches from these partitions from now on; records of others stay this member's."""
        wanted = {(topic_id, place.partition): place for place, topic_id in topic_ids.items()}
        for key, place in wanted.items():
            if key not in self.partitions:
                self.partitions[key] = self.by_place[place] = HeldPartition(place, key[0])
        for key, one in self.partitions.items():
            one.is_assigned = key in wanted
        self._tidy(now_ms)

    def without_leader(self) -> list[TopicPartition]:
        return [
            one.place for one in self.partitions.values() if one.leader is None and one.is_assigned
        ]

    def lead(self, leaders: Mapping[TopicPartition, PartitionLeader]) -> None:
        for one in self.partitions.values():
            if one.leader is None and one.place in leaders:
                one.leader, one.epoch = leaders[one.place]

    def leaders(self) -> set[int]:
        return {one.leader for one in self.partitions.values() if one.leader is not None}

    # Requests

    def due_ms(self, leader: int, now_ms: float) -> float:
        """When `next_request` may return one, if nothing changes meanwhile."""
        session = self._sessions.setdefault(leader, _Session())
        if session.sent is not None:
            return NEVER
        due = [self._said_due_ms(one, now_ms) for one in self._of(leader)]
        if self.is_hungry:
            due += [one.paused_until_ms for one in self._of(leader) if one.is_assigned]
        return max(session.paused_until_ms, min(due, default=NEVER))

    def next_request(self, leader: int, now_ms: float) -> Message | None:
        if now_ms < self.due_ms(leader, now_ms):
            return None
        session = self._sessions[leader]
        wanted = self._wanted(leader, now_ms) if self.is_hungry else frozenset()
        if session.epoch == INITIAL_EPOCH:
            return self._fetch(session, wanted, {}) if wanted else None
        said = self._taken(leader, now_ms)
        is_alone = said.keys() - wanted or any(has_renewal(one) for one in said.values())
        if wanted and not is_alone:
            return self._fetch(session, wanted, said)
        return self._acknowledge(session, said, session.epoch) if said else None

    def farewell(self, leader: int, now_ms: float) -> Message | None:
        """Ends the session: what is held after this request's acknowledgements is released."""
        session = self._sessions.get(leader)
        if session is None or session.epoch == INITIAL_EPOCH or session.sent is not None:
            return None
        return self._acknowledge(session, self._taken(leader, now_ms), FINAL_EPOCH)

    def _of(self, leader: int) -> list[HeldPartition]:
        return [one for one in self.partitions.values() if one.leader == leader]

    def _wanted(self, leader: int, now_ms: float) -> frozenset[Key]:
        return frozenset(
            key
            for key, one in self.partitions.items()
            if one.leader == leader and one.is_assigned and now_ms >= one.paused_until_ms
        )

    def _said_due_ms(self, one: HeldPartition, now_ms: float) -> float:
        if not one.has_waiting:
            return NEVER
        due_ms = now_ms if self.must_flush or one.is_urgent else one.since_ms + LINGER_MS
        return max(due_ms, one.paused_until_ms)

    def _taken(self, leader: int, now_ms: float) -> dict[Key, Sayings]:
        """What waits, without records whose locks have surely expired."""
        found: dict[Key, Sayings] = {}
        for key, one in self.partitions.items():
            if one.leader != leader or not one.has_waiting:
                continue
            sayings = one.take()
            late = expired(sayings, now_ms)
            self._report(one, late, ErrorCode.INVALID_RECORD_STATE)
            for offset in late:
                del sayings[offset]
            if sayings:
                found[key] = sayings
        return found

    def _fetch(
        self, session: _Session, wanted: frozenset[Key], said: Mapping[Key, Sayings]
    ) -> ShareFetchRequest:
        options = self.options
        added = (wanted - session.named) | said.keys()
        session.sent = Sent(wanted, said, is_fetch=True)
        return ShareFetchRequest(
            group_id=options.group_id,
            member_id=options.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            max_records=options.max_records,
            batch_size=options.max_records,
            share_acquire_mode=int(options.is_strict),
            topics=[
                share_fetch.FetchTopic(
                    topic_id=Uuid(topic_id),
                    partitions=[
                        share_fetch.FetchPartition(
                            partition_index=number,
                            acknowledgement_batches=[
                                share_fetch.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in ranges_of(
                                    said.get((topic_id, number), {})
                                )
                            ],
                        )
                        for number in numbers
                    ],
                )
                for topic_id, numbers in by_topic(added).items()
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=Uuid(topic_id), partitions=numbers)
                for topic_id, numbers in by_topic(session.named - wanted).items()
            ],
        )

    def _acknowledge(
        self, session: _Session, said: Mapping[Key, Sayings], epoch: int
    ) -> ShareAcknowledgeRequest:
        is_final = epoch == FINAL_EPOCH
        session.sent = Sent(session.named, said, is_fetch=False, is_final=is_final)
        return ShareAcknowledgeRequest(
            group_id=self.options.group_id,
            member_id=self.options.member_id,
            share_session_epoch=epoch,
            is_renew_ack=any(has_renewal(one) for one in said.values()),
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=Uuid(topic_id),
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=number,
                            acknowledgement_batches=[
                                share_acknowledge.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in ranges_of(said[topic_id, number])
                            ],
                        )
                        for number in numbers
                    ],
                )
                for topic_id, numbers in by_topic(said).items()
            ],
        )

    # Responses

    def answered(self, leader: int, answer: Any, now_ms: float) -> None:
        session = self._sessions[leader]
        sent, session.sent = session.sent, None
        assert sent is not None
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            self._refused(leader, sent, ApiError(code, answer.error_message), now_ms)
            return
        session.epoch = INITIAL_EPOCH if sent.is_final else next_epoch(session.epoch)
        session.named = sent.wanted
        until_ms = now_ms + (answer.acquisition_lock_timeout_ms or NEVER)
        left = dict(sent.said)
        for topic in answer.responses:
            for told in topic.partitions:
                key = bytes(topic.topic_id), told.partition_index
                if (one := self.partitions.get(key)) is None:
                    continue
                sayings = left.pop(key, {})
                if sent.is_fetch:
                    self._fetched(one, told, sayings, until_ms, now_ms)
                else:
                    self._acknowledged(one, told, sayings, until_ms, now_ms)
        for key, sayings in left.items():
            # As in Java's client: what is not answered is not in effect.
            self._report(self.partitions[key], sayings, ErrorCode.INVALID_RECORD_STATE)
        if sent.is_final:
            self._lose_all(leader, ErrorCode.INVALID_RECORD_STATE)
        self._tidy(now_ms)

    def unreachable(self, leader: int, now_ms: float) -> None:
        """The connection is lost, and with it the session and all records: they are released."""
        sent = self._sessions[leader].sent
        session = self._sessions[leader] = _Session()
        session.paused_until_ms = now_ms + self.options.retry_backoff_ms
        for key, sayings in (sent.said if sent is not None else {}).items():
            self._report(self.partitions[key], sayings, ErrorCode.NETWORK_EXCEPTION)
        self._lose_all(leader, ErrorCode.NETWORK_EXCEPTION)
        for one in self._of(leader):
            one.leader = None
        self._tidy(now_ms)

    def _refused(self, leader: int, sent: Sent, error: ApiError, now_ms: float) -> None:
        """The whole request was refused."""
        self._sessions[leader] = session = _Session()
        if error.code not in SESSION_ERRORS:
            session.paused_until_ms = now_ms + self.options.retry_backoff_ms
            if error.code not in PASSING:
                self.refusals.append(error)
        for key, sayings in sent.said.items():
            self._report(self.partitions[key], sayings, error.code)
        self._lose_all(leader, error.code)
        self._tidy(now_ms)

    def _fetched(
        self, one: HeldPartition, told: Any, sayings: Sayings, until_ms: float, now_ms: float
    ) -> None:
        code = ErrorCode(told.error_code)
        if sayings:
            self._settle(one, ErrorCode(told.acknowledge_error_code), sayings, until_ms, now_ms)
        if code in OTHER_LEADER:
            self._other_leader(one, told, code)
        elif code is not ErrorCode.NONE:
            one.paused_until_ms = now_ms + self.options.retry_backoff_ms
            if code not in PASSING:
                self.refusals.append(ApiError(code, f"{one.place}: {code.description}"))
        elif told.acquired_records:
            acquired = [
                AcquiredRange(of.first_offset, of.last_offset, of.delivery_count)
                for of in told.acquired_records
            ]
            one.hold(acquired, until_ms, now_ms)
            records = memoryview(told.records or b"")
            self.chunks.append(Chunk(one, one.version, records, acquired, until_ms))
            self.is_hungry = False

    def _acknowledged(
        self, one: HeldPartition, told: Any, sayings: Sayings, until_ms: float, now_ms: float
    ) -> None:
        code = ErrorCode(told.error_code)
        self._settle(one, code, sayings, until_ms, now_ms)
        if code in OTHER_LEADER:
            self._other_leader(one, told, code)

    def _settle(
        self, one: HeldPartition, code: ErrorCode, said: Sayings, until_ms: float, now_ms: float
    ) -> None:
        if code is ErrorCode.NONE:
            for offset, each in said.items():
                # Something else may have been said of it since.
                if each.kind == RENEW and offset in one.held:
                    one.held[offset] = Held(each.held.delivery_count, until_ms)
            self._report(one, said, code)
        elif code is ErrorCode.INVALID_RECORD_STATE and len(said) > 1:
            one.halve(said)
        elif code in PASSING and code not in OTHER_LEADER:
            one.paused_until_ms = now_ms + self.options.retry_backoff_ms
            one.again(said)
        else:
            for offset in said:
                one.held.pop(offset, None)
            self._report(one, said, code)

    def _other_leader(self, one: HeldPartition, told: Any, code: ErrorCode) -> None:
        """What is in flight with one leader is not with the next one."""
        self._report(one, one.lose(), code)
        leader, epoch = told.current_leader.leader_id, told.current_leader.leader_epoch
        is_newer = leader >= 0 and epoch > one.epoch
        one.leader, one.epoch = (leader, epoch) if is_newer else (None, one.epoch)

    def _lose_all(self, leader: int, code: ErrorCode) -> None:
        for one in self._of(leader):
            self._report(one, one.lose(), code)

    def _report(self, one: HeldPartition, said: Sayings, code: ErrorCode) -> None:
        if found := sorted(offset for offset, each in said.items() if each.kind != GAP):
            self.results.append(AcknowledgementResult(one.place, found, code))

    def _tidy(self, now_ms: float) -> None:
        """Forgets partitions that are another member's, once nothing of them is left here."""
        sent = [one.sent.said for one in self._sessions.values() if one.sent is not None]
        for key, one in list(self.partitions.items()):
            if one.is_assigned or any(key in some for some in sent):
                continue
            one.forget_expired(now_ms)
            if one.is_idle:
                del self.partitions[key]
                if self.by_place.get(one.place) is one:
                    del self.by_place[one.place]

    # Records

    def next_chunk(self, now_ms: float) -> Chunk | None:
        """What was fetched first, unless its locks have expired meanwhile."""
        while self.chunks:
            chunk = self.chunks.popleft()
            if chunk.is_held(now_ms):
                return chunk
        return None

    def say(self, one: HeldPartition, offset: int, kind: int, now_ms: float) -> None:
        """Says something of a record that is held; only a renewed record stays so."""
        held = one.held[offset] if kind == RENEW else one.held.pop(offset)
        one.say(offset, Said(kind, held), now_ms)

    def say_all(self, chunk: Chunk, offsets: Iterable[int], kind: int, now_ms: float) -> None:
        """Says the same of some offsets of a chunk, unless they are this member's no more."""
        if chunk.is_held(now_ms):
            for offset in offsets:
                self.say(chunk.partition, offset, kind, now_ms)

    def unanswered(self) -> dict[TopicPartition, set[int]]:
        """The offsets of which something was said, as long as their leaders have not answered."""
        found: dict[TopicPartition, set[int]] = {}
        sent = [one.sent.said for one in self._sessions.values() if one.sent is not None]
        for key, one in self.partitions.items():
            said = [*one.waiting(), *(some[key] for some in sent if key in some)]
            offsets = {at for some in said for at, each in some.items() if each.kind != GAP}
            if offsets:
                found.setdefault(one.place, set()).update(offsets)
        return found
