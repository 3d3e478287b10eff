"""ShareAcknowledge, 1 and 2: what a member of a share group says of records, without fetching.

Kafka's counterpart: `KafkaApis.handleShareAcknowledgeRequest`.
"""

from collections.abc import Callable
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_turns, turn_list
from ottla.broker.shares.share_fetches import ShareWork
from ottla.codec.schema import Message
from ottla.coordinator.share.sessions import CLOSING, OPENING
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgedTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.server.dispatching.request_context import (
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.server.handling.current_leaders import MOVED, Moved, name_leaders
from ottla.server.handling.share_requests import answer_topics, check_renewals, key_of, said_of

FIRST_LOCK_VERSION: Final = 2


def handle(
    request: ShareAcknowledgeRequest,
    context: RequestContext,
    may_read: Callable[[str], bool] | None = None,
) -> Message | PendingResponse:
    try:
        answering = _begin(request, context, may_read)
    except ApiError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    return answering.answer(context.at)


def _begin(
    request: ShareAcknowledgeRequest,
    context: RequestContext,
    may_read: Callable[[str], bool] | None,
) -> "_Answering":
    """Raises `ApiError`."""
    key, shares, at = key_of(request.group_id, request.member_id), context.broker.shares, context.at
    settings = shares.settings_of(key.group_id)
    said = said_of(request.topics)
    check_renewals(said, is_renewal=request.is_renew_ack, may_renew=settings.may_renew)
    epoch = request.share_session_epoch
    if epoch == OPENING:
        raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "A fetch opens the session.")
    if epoch == CLOSING:
        shares.sessions.check(key)
    else:
        shares.session(key, epoch, context.client.connection, at)
    acknowledging = shares.acknowledge(key, said, may_read, at)
    if epoch == CLOSING:
        shares.close(key)
    work = shares.work(acknowledging, None, at.monotonic_ms, at)
    return _Answering(work, int(settings.limits.lock_ms), context)


class _Answering:
    """The parts of a request that its response needs, now or later."""

    __slots__ = ("_context", "_lock_ms", "_work")

    def __init__(self, work: ShareWork, lock_ms: int, context: RequestContext) -> None:
        self._work = work
        self._lock_ms = lock_ms
        self._context = context

    def answer(self, at: Timestamps) -> Message | PendingResponse:
        waiting = self._work.go_on(at)
        if waiting is None:
            return self._response()
        pending = LongPendingAnswer(waiting, self.answer)
        pending.takes_long = False
        return pending

    def _response(self) -> ShareAcknowledgeResponse:
        moved: list[Moved] = []
        partitions = turn_list()
        for place, error in in_turns(self._work.acknowledging.errors.items()):
            one = PartitionData(partition_index=place[1])
            if error is not None:
                one.error_code, one.error_message = error.code, error.message
            if one.error_code in MOVED:
                moved.append(Moved("", *place, one))
            partitions.append((place[0], one))
        tells_lock = self._context.api_version >= FIRST_LOCK_VERSION
        answer = ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self._lock_ms if tells_lock else 0,
            responses=answer_topics(partitions, AcknowledgedTopic),
        )
        if moved:
            endpoints = name_leaders(moved, LeaderIdAndEpoch, NodeEndpoint, self._context)
            answer.node_endpoints = endpoints
        return answer
