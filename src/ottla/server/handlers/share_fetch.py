"""ShareFetch, 1 and 2: what a member of a share group says of records, then records for it.

Waits up to `max_wait_ms` until records are available: new ones, or given back ones. Responses hold
slices of files as those of Fetch, in whole batches; `acquired_records` says which offsets are the
member's. Whether a group has the member is not asked, as in Kafka: its session counts. Differs from
Kafka: control records and those of aborted transactions are never acquired. Kafka's counterpart:
`KafkaApis.handleShareFetchRequest`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.base.turns import PART_SIZE, in_turns, turn_list
from ottla.broker.shares.share_fetches import Delivery, ShareQuery, ShareWork
from ottla.codec.schema import Message
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.share.records_in_flight import Wanted
from ottla.coordinator.share.sessions import CLOSING, OPENING, SessionKey
from ottla.protocol.messages.share_fetch import (
    AcquiredRecords,
    FetchedTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.server.dispatching.request_context import (
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.server.handling.current_leaders import MOVED, Moved, name_leaders
from ottla.server.handling.share_requests import answer_topics, check_renewals, key_of, said_of

RECORD_LIMIT: Final = 1
"""The mode in which no more records are acquired than asked for (KIP-1206)."""


def handle(
    request: ShareFetchRequest,
    context: RequestContext,
    may_read: Callable[[str], bool] | None = None,
) -> Message | PendingResponse:
    try:
        answering = _begin(request, context, may_read)
    except ApiError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message)
    return answering.answer(context.at)


def _begin(
    request: ShareFetchRequest, context: RequestContext, may_read: Callable[[str], bool] | None
) -> "_Answering":
    """Raises `ApiError`."""
    key, shares, at = key_of(request.group_id, request.member_id), context.broker.shares, context.at
    settings = shares.settings_of(key.group_id)
    said = said_of(request.topics)
    check_renewals(said, is_renewal=request.is_renew_ack, may_renew=settings.may_renew)
    if request.is_renew_ack:
        _check_nothing_is_fetched(request)
    epoch = request.share_session_epoch
    if epoch == OPENING and said:
        raise ApiError(ErrorCode.INVALID_REQUEST, "A new session has nothing to acknowledge.")
    if epoch == CLOSING:
        shares.sessions.check(key)
        acknowledging = shares.acknowledge(key, said, may_read, at)
        shares.close(key)
        query = None
    else:
        session = shares.session(key, epoch, context.client.connection, at)
        session.change(_added(request), _forgotten(request))
        acknowledging = shares.acknowledge(key, said, may_read, at)
        query = _query(request, key, session.in_turn(), may_read)
    fetched_by_ms = at.monotonic_ms + max(0, request.max_wait_ms)
    work = shares.work(acknowledging, query, fetched_by_ms, at)
    takes_long = query is not None and len(query.places) > PART_SIZE
    return _Answering(work, int(settings.limits.lock_ms), context, takes_long=takes_long)


def _check_nothing_is_fetched(request: ShareFetchRequest) -> None:
    if request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A request that renews locks has MaxBytes, MinBytes, MaxRecords and MaxWaitMs 0.",
        )


def _added(request: ShareFetchRequest) -> list[TopicIdPartition]:
    return turn_list(
        (topic.topic_id, one.partition_index)
        for topic in in_turns(request.topics)
        for one in in_turns(topic.partitions)
    )


def _forgotten(request: ShareFetchRequest) -> list[TopicIdPartition]:
    return turn_list(
        (topic.topic_id, index)
        for topic in in_turns(request.forgotten_topics_data)
        for index in in_turns(topic.partitions)
    )


def _query(
    request: ShareFetchRequest,
    key: SessionKey,
    places: Sequence[TopicIdPartition],
    may_read: Callable[[str], bool] | None,
) -> ShareQuery | None:
    if request.max_records <= 0 or request.max_bytes <= 0:
        return None
    is_strict = request.share_acquire_mode == RECORD_LIMIT
    batch_size = request.batch_size if request.batch_size > 0 else request.max_records
    return ShareQuery(
        key,
        places,
        Wanted(request.max_records, batch_size, is_strict),
        request.max_bytes,
        min(request.min_bytes, request.max_bytes),
        may_read,
    )


class _Answering:
    """The parts of a request that its response needs, now or later."""

    __slots__ = ("_context", "_lock_ms", "_takes_long", "_work")

    def __init__(
        self, work: ShareWork, lock_ms: int, context: RequestContext, *, takes_long: bool
    ) -> None:
        self._work = work
        self._lock_ms = lock_ms
        self._context = context
        self._takes_long = takes_long

    def answer(self, at: Timestamps) -> Message | PendingResponse:
        waiting = self._work.go_on(at)
        if waiting is None:
            return self._response()
        pending = LongPendingAnswer(waiting, self.answer)
        pending.takes_long = self._takes_long
        return pending

    def _response(self) -> ShareFetchResponse:
        errors = self._work.acknowledging.errors
        found = {} if self._work.fetch is None else self._work.fetch.found
        moved: list[Moved] = []
        partitions = turn_list()
        for place in in_turns({**found, **errors}):
            one = _partition(place[1], found.get(place), errors.get(place))
            if one.error_code in MOVED or one.acknowledge_error_code in MOVED:
                moved.append(Moved("", *place, one))
            partitions.append((place[0], one))
        answer = ShareFetchResponse(
            acquisition_lock_timeout_ms=self._lock_ms,
            responses=answer_topics(partitions, FetchedTopic),
        )
        if moved:
            endpoints = name_leaders(moved, LeaderIdAndEpoch, NodeEndpoint, self._context)
            answer.node_endpoints = endpoints
        return answer


def _partition(
    index: int, found: Delivery | ApiError | None, acknowledged: ApiError | None
) -> PartitionData:
    answer = PartitionData(partition_index=index, records=b"")
    if acknowledged is not None:
        answer.acknowledge_error_code = acknowledged.code
        answer.acknowledge_error_message = acknowledged.message
    if isinstance(found, ApiError):
        answer.error_code = found.code
        answer.error_message = found.message
    elif found is not None:
        answer.records = found.records
        answer.acquired_records = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in found.acquired
        ]
    return answer
