"""Leaders of share partitions without sockets: they answer ShareFetch and ShareAcknowledge over the
machines that a broker has, and keep account of what members said.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.client.sharing.exchange import Key
from ottla.coordinator.share.records_in_flight import (
    Acknowledgement,
    DeliveryState,
    Limits,
    Offer,
    RecordsInFlight,
    ReturnReason,
    StateBatch,
    Wanted,
)
from ottla.coordinator.share.sessions import SessionKey, ShareSessions
from ottla.protocol.messages import share_acknowledge, share_fetch
from ottla.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse

LOCK_MS = 1000.0
LIMITS = Limits(delivery_count=1000, lock_ms=LOCK_MS)


@dataclass
class Led:
    """A partition at its leader."""

    records: RecordsInFlight
    epoch: int = 0

    def states(self) -> list[StateBatch]:
        """As they are written: what is acquired is available."""
        return [
            StateBatch(
                one.first,
                one.last,
                DeliveryState.AVAILABLE if one.state is DeliveryState.ACQUIRED else one.state,
                one.delivery_count,
            )
            for one in self.records.runs()
        ]

    def acquired(self) -> list[int]:
        return [
            offset
            for one in self.records.runs()
            if one.state is DeliveryState.ACQUIRED
            for offset in range(one.first, one.last + 1)
        ]


@dataclass
class ShareLeader:
    """One broker; `batches` are those of every partition."""

    node_id: int
    batches: Sequence[tuple[int, int]]
    led: dict[Key, Led] = field(default_factory=dict)
    moved: dict[Key, tuple[int, int]] = field(default_factory=dict)
    """Where partitions went: leader and epoch."""
    sessions: ShareSessions = field(default_factory=lambda: ShareSessions(10))

    def answer(self, request: Any, now_ms: float) -> Any:
        for one in self.led.values():
            one.records.commit(one.records.expire(now_ms), now_ms)
        try:
            if isinstance(request, ShareFetchRequest):
                return self._fetch(request, now_ms)
            assert isinstance(request, ShareAcknowledgeRequest)
            return self._acknowledge(request, now_ms)
        except ApiError as error:
            kind = (
                ShareFetchResponse
                if isinstance(request, ShareFetchRequest)
                else ShareAcknowledgeResponse
            )
            return kind(error_code=error.code, error_message=error.message)

    def disconnect(self) -> None:
        for session in self.sessions.disconnected("connection"):
            self._release(session.key.member_id)

    def _release(self, member: str) -> None:
        for one in self.led.values():
            one.records.commit(one.records.release(member, ReturnReason.MEMBER_LOST), 0.0)

    def _fetch(self, request: ShareFetchRequest, now_ms: float) -> ShareFetchResponse:
        key = SessionKey(request.group_id or "", request.member_id or "")
        said = _said(request)
        if request.share_session_epoch == 0:
            if any(said.values()):
                raise ApiError(ErrorCode.INVALID_REQUEST)
            session = self.sessions.open(key, "connection")
        else:
            session = self.sessions.find(key, request.share_session_epoch)
        session.change(
            said,
            [
                (bytes(topic.topic_id), number)
                for topic in request.forgotten_topics_data
                for number in topic.partitions
            ],
        )
        told = {one: self._told(share_fetch, one, said.get(one, ()), now_ms, key.member_id)
                for one in {**dict.fromkeys(said), **session.partitions}}  # fmt: skip
        for one in session.partitions:
            if one in self.led and not told[one].error_code:
                self._acquire(told[one], self.led[one], request, now_ms)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=int(LOCK_MS),
            responses=[
                share_fetch.FetchedTopic(topic_id=Uuid(topic_id), partitions=[one])
                for (topic_id, _), one in told.items()
            ],
        )

    def _acquire(self, told: Any, led: Led, request: ShareFetchRequest, now_ms: float) -> None:
        offset = led.records.next_offset()
        if offset is None:
            return
        batches = [one for one in self.batches if one[1] >= offset]
        wanted = Wanted(request.max_records, request.batch_size, bool(request.share_acquire_mode))
        acquired = led.records.acquire(
            request.member_id or "", Offer(offset, batches), wanted, now_ms
        )
        told.acquired_records = [
            share_fetch.AcquiredRecords(
                first_offset=one.first, last_offset=one.last, delivery_count=one.delivery_count
            )
            for one in acquired
        ]

    def _acknowledge(
        self, request: ShareAcknowledgeRequest, now_ms: float
    ) -> ShareAcknowledgeResponse:
        key = SessionKey(request.group_id or "", request.member_id or "")
        said = _said(request)
        is_final = request.share_session_epoch == -1
        if is_final:
            self.sessions.close(key)
        else:
            self.sessions.find(key, request.share_session_epoch)
        told = {
            one: self._told(share_acknowledge, one, given, now_ms, key.member_id)
            for one, given in said.items()
        }
        if is_final:
            self._release(key.member_id)
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=int(LOCK_MS),
            responses=[
                share_acknowledge.AcknowledgedTopic(topic_id=Uuid(topic_id), partitions=[one])
                for (topic_id, _), one in told.items()
            ],
        )

    def _told(
        self, messages: Any, one: Key, given: Sequence[Acknowledgement], now_ms: float, member: str
    ) -> Any:
        told = messages.PartitionData(partition_index=one[1])
        is_fetch = messages is share_fetch
        code = ErrorCode.NONE
        if one not in self.led:
            code = told.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            leader, epoch = self.moved.get(one, (-1, -1))
            told.current_leader = messages.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        elif given:
            records = self.led[one].records
            try:
                records.commit(records.acknowledge(member, given, now_ms), now_ms)
            except ApiError as error:
                if error.code is not ErrorCode.INVALID_RECORD_STATE:
                    raise AssertionError("the member asks what it must not") from error
                code = error.code
        if is_fetch and given:
            told.acknowledge_error_code = code
        elif not is_fetch:
            told.error_code = code
        return told


def new_led(limits: Limits = LIMITS) -> Led:
    return Led(RecordsInFlight(0, limits))


def move(one: Key, old: ShareLeader, new: ShareLeader) -> None:
    """A partition changes its leader: what was acquired is available again."""
    led = old.led.pop(one)
    records = RecordsInFlight(led.records.start, led.records.limits, led.states())
    new.led[one] = Led(records, led.epoch + 1)
    new.moved.pop(one, None)
    old.moved[one] = new.node_id, led.epoch + 1


def _said(request: Any) -> dict[Key, list[Acknowledgement]]:
    return {
        (bytes(topic.topic_id), part.partition_index): [
            Acknowledgement(of.first_offset, of.last_offset, of.acknowledge_types)
            for of in part.acknowledgement_batches
        ]
        for topic in request.topics
        for part in topic.partitions
    }
