"""Fetch, 0 to 18: batches of many partitions, waiting up to `max_wait_ms` for `min_bytes` of them.

Responses hold slices of files, never the records themselves, except for versions 0 to 3: those
consumers know only the older formats, and get the records written again. From version 7 on a fetch
may continue with a session (`broker/records/fetch_sessions.py`). In a cluster followers fetch as
consumers do, and from version 11 on consumers may fetch from them. Kafka's counterparts:
`KafkaApis.handleFetchRequest`, `ReplicaManager.fetchMessages`.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.fetching_session import NO_SESSION
from ottla.base.ids import ZERO_UUID
from ottla.base.timestamps import Timestamps
from ottla.base.turns import PART_SIZE, in_turns, turn_list
from ottla.broker.records.fetch_sessions import (
    FetchContext,
    PartitionKey,
    SessionFetch,
    key_of,
)
from ottla.broker.records.fetches import LongPoll
from ottla.broker.waiting.fetch_queries import (
    Fetcher,
    FetchQuery,
    FetchResult,
    NoRecordsError,
    OffsetMovedError,
    PartitionQuery,
)
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.server.dispatching.request_context import (
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
    respond,
)
from ottla.server.handling.old_formats import MAGIC_BY_VERSION, convert
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.reader import FetchData

FIRST_TOPIC_ID_VERSION = 13
FIRST_HIGH_WATERMARK_VERSION = 18
FIRST_SOFT_LIMIT_VERSION = 3
"""From here on, a batch larger than all limits comes anyway if it is the first (KIP-74)."""

FIRST_LEADER_VERSION = 16
"""From here on, the response to a client that asked the wrong broker has the leader (KIP-951)."""

FIRST_FOLLOWER_VERSION = 11
"""From here on, consumers may read from followers (KIP-392)."""

FIRST_ZSTD_VERSION = 10
"""Before it, a topic with `compression.type=zstd` is refused, whatever its batches have (KIP-110).
"""

FIRST_TIER_VERSION = 14
MOVED_TO_TIER = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
"""The version from which on followers know that code (KIP-405)."""

READ_COMMITTED = 1


def handle(
    request: FetchRequest,
    context: RequestContext,
    may_read: Callable[[str], bool] | None = None,
) -> Message | PendingResponse:
    is_converted = context.api_version in MAGIC_BY_VERSION
    session_id = request.session_id
    if is_converted or (
        session_id and context.broker.fetch_sessions.size_of(session_id) > PART_SIZE
    ):
        context.may_take_long()
    try:
        fetch = context.broker.fetch_sessions.begin(
            _fetch(request, context), context.at.monotonic_ms
        )
    except ApiError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION)
    query = _query(request, fetch.partitions, context)
    query.may_read = may_read
    query.fetcher = _fetcher(request, context)
    query.awaits_commits = (
        context.api_version >= FIRST_HIGH_WATERMARK_VERSION and query.is_of_follower
    )
    query.begun_ms = context.at.monotonic_ms
    query.skips_markers = is_converted
    answering = _Answering(request.session_id, fetch, context)
    deadline_ms = context.at.monotonic_ms + max(0, request.max_wait_ms)
    if len(query.partitions) > PART_SIZE:
        return answering.of_many(query, deadline_ms)
    answer = respond(context.broker.fetches.fetch_or_wait(query, deadline_ms), answering.answer)
    if is_converted and isinstance(answer, PendingResponse):
        answer.takes_long = True
    return answer


def _fetch(request: FetchRequest, context: RequestContext) -> SessionFetch:
    uses_topic_ids = context.api_version >= FIRST_TOPIC_ID_VERSION
    partitions = [
        PartitionQuery(
            None if uses_topic_ids else topic.topic,
            wanted.partition,
            wanted.fetch_offset,
            wanted.partition_max_bytes,
            wanted.current_leader_epoch,
            topic.topic_id if uses_topic_ids else None,
            wanted.last_fetched_epoch,
            wanted.log_start_offset,
            wanted.high_watermark,
        )
        for topic in request.topics
        for wanted in topic.partitions
    ]
    if len(partitions) > 1:
        # Of a partition that is named twice the last counts (`FetchRequest.toPartitionDataMap`).
        partitions = list({key_of(one): one for one in in_turns(partitions)}.values())
    fetch = SessionFetch(request.session_id, request.session_epoch, uses_topic_ids, partitions)
    fetch.owner = context.client.principal
    if request.forgotten_topics_data:
        fetch.forgotten = _forgotten(request, uses_topic_ids)
    return fetch


def _forgotten(request: FetchRequest, uses_topic_ids: bool) -> list[PartitionKey]:
    return turn_list(
        [
            (topic.topic_id if uses_topic_ids else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
    )


def _query(
    request: FetchRequest, partitions: Sequence[PartitionQuery], context: RequestContext
) -> FetchQuery:
    is_committed = request.isolation_level == READ_COMMITTED
    return FetchQuery(
        partitions,
        request.max_bytes,
        min(request.min_bytes, context.broker.settings.config.fetch_max_bytes, request.max_bytes),
        Isolation.LAST_STABLE if is_committed else Isolation.HIGH_WATERMARK,
        is_hard_limit=context.api_version < FIRST_SOFT_LIMIT_VERSION,
    )


def _fetcher(request: FetchRequest, context: RequestContext) -> Fetcher | None:
    """`None` of a consumer that fetches from leaders only."""
    replica_id, broker_epoch = request.replica_id, -1
    if request.replica_state is not None:
        replica_id = request.replica_state.replica_id
        broker_epoch = request.replica_state.replica_epoch
    fetcher = context.broker.replicas.fetcher(replica_id, broker_epoch, request.rack_id, context.at)
    is_of_leaders = replica_id < 0 and context.api_version < FIRST_FOLLOWER_VERSION
    return None if is_of_leaders else fetcher


class _Answering:
    """The parts of a request that its response needs, now or later."""

    __slots__ = ("_broker", "_context", "_fetch", "_magic", "_session_id")

    def __init__(self, session_id: int, fetch: FetchContext, context: RequestContext) -> None:
        self._session_id = session_id
        self._fetch = fetch
        self._broker = context.broker
        self._context = context
        self._magic = MAGIC_BY_VERSION.get(context.api_version)

    def of_many(self, query: FetchQuery, deadline_ms: float) -> Message | PendingResponse:
        result = self._broker.fetches.fetch_many_or_wait(query, deadline_ms)
        if isinstance(result, Waiting):
            return LongPendingAnswer(result, partial(self.after_waiting, result))
        return self.answer(result)

    def after_waiting(self, waiting: LongPoll, at: Timestamps) -> Message | PendingResponse:
        if at.monotonic_ms < waiting.deadline_ms:
            return self.of_many(waiting.query, waiting.deadline_ms)
        if waiting.result is not None:
            return self.answer(waiting.result)
        return self.answer(self._broker.fetches.fetch(waiting.query))

    def answer(self, result: FetchResult) -> FetchResponse:
        try:
            response = self._fetch.respond(result)
        except ApiError as error:
            return FetchResponse(error_code=error.code, session_id=self._session_id)
        topics: list[FetchableTopicResponse] = []
        last: PartitionQuery | None = None
        for wanted, data in (
            response.pairs if len(response.pairs) == 1 else in_turns(response.pairs)
        ):
            if last is None or not _is_same_topic(last, wanted):
                topics.append(_topic(wanted))
            topics[-1].partitions.append(self._partition(wanted, data))
            last = wanted
        answer = FetchResponse(session_id=response.session_id, responses=topics)
        if result.has_error and self._context.api_version >= FIRST_LEADER_VERSION:
            _name_leaders(answer, self._context)
        return answer

    def _partition(self, wanted: PartitionQuery, data: FetchData | ApiError) -> PartitionData:
        if isinstance(data, ApiError):
            if isinstance(data, NoRecordsError):
                return _without_records(wanted.index, data)
            if data.code is MOVED_TO_TIER and self._context.api_version < FIRST_TIER_VERSION:
                data = ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            return _refusal(wanted.index, data)
        answer = _data(wanted.index, data)
        if self._context.api_version < FIRST_ZSTD_VERSION:
            try:
                self._check_codec(wanted)
                if self._magic is not None:
                    answer.records = convert(data, self._magic, wanted, self._broker)
            except ApiError as error:
                return _refusal(wanted.index, error)
        return answer

    def _check_codec(self, wanted: PartitionQuery) -> None:
        topic = self._broker.topics.find(wanted.topic or "")
        if topic is not None and topic.config.compression_type == "zstd":
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _name_leaders(answer: FetchResponse, context: RequestContext) -> None:
    from ottla.server.handling.current_leaders import MOVED, Moved, name_leaders

    moved = [
        Moved(topic.topic, topic.topic_id, one.partition_index, one)
        for topic in in_turns(answer.responses)
        for one in topic.partitions
        if one.error_code in MOVED
    ]
    if moved:
        answer.node_endpoints = name_leaders(moved, LeaderIdAndEpoch, NodeEndpoint, context)


def _is_same_topic(one: PartitionQuery, other: PartitionQuery) -> bool:
    return one.topic == other.topic and one.topic_id == other.topic_id


def _topic(wanted: PartitionQuery) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=wanted.topic or "", topic_id=wanted.topic_id or ZERO_UUID, partitions=[]
    )


def _data(index: int, data: FetchData) -> PartitionData:
    aborted = data.aborted
    return PartitionData(
        partition_index=index,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        aborted_transactions=None
        if aborted is None
        else [
            AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in aborted
        ],
        # An empty field rather than null: old clients take the two for different things.
        records=b"" if data.records is None else data.records,
    )


def _without_records(index: int, answer: NoRecordsError) -> PartitionData:
    data = _data(index, answer.data)
    data.preferred_read_replica = answer.preferred_replica
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


def _refusal(index: int, error: ApiError) -> PartitionData:
    moved = error.data if isinstance(error, OffsetMovedError) else None
    return PartitionData(
        partition_index=index,
        error_code=error.code,
        high_watermark=-1 if moved is None else moved.high_watermark,
        log_start_offset=-1 if moved is None else moved.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )
