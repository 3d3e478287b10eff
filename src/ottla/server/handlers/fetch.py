"""Fetch, 0 to 18: batches of many partitions, waiting up to `max_wait_ms` for `min_bytes` of them.

Answers hold slices of files, never the records themselves, except for versions 0 to 3: those
consumers know only the older formats, and get the records written anew. Every fetch is answered in
full: a session (KIP-227) is never begun, which a client sees by the session id 0. Left out:
followers, of which this broker has none, and with them `last_fetched_epoch` and the closest
replica.
Kafka's counterparts: `KafkaApis.handleFetchRequest`, `ReplicaManager.fetchMessages`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.fetching import FetchQuery, FetchResult, PartitionQuery
from ottla.codec.schema import Message
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.server.call import Call, Later, respond
from ottla.server.old_formats import MAGIC_BY_VERSION, convert
from ottla.storage.partition_log import FetchData, Isolation

FIRST_TOPIC_ID_VERSION = 13
FIRST_SOFT_LIMIT_VERSION = 3
"""From here on, a batch larger than all limits comes anyway if it is the first (KIP-74)."""

READ_COMMITTED = 1
NO_SESSION = 0


def handle(request: FetchRequest, call: Call) -> Message | Later:
    if request.session_id != NO_SESSION:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    query = _query(request, call)
    answering = _Answering(request, query, call)
    if request.max_wait_ms <= 0:
        return answering.answer(call.broker.fetch(query))
    result = call.broker.fetch_or_wait(query, call.at.monotonic_ms + request.max_wait_ms)
    return respond(result, answering.answer)


def _query(request: FetchRequest, call: Call) -> FetchQuery:
    is_committed = request.isolation_level == READ_COMMITTED
    partitions = []
    for topic in request.topics:
        name = _name(topic, call)
        for wanted in topic.partitions:
            partitions.append(
                PartitionQuery(
                    name,
                    wanted.partition,
                    wanted.fetch_offset,
                    wanted.partition_max_bytes,
                    wanted.current_leader_epoch,
                )
            )
    return FetchQuery(
        partitions,
        request.max_bytes,
        min(request.min_bytes, call.broker.config.fetch_max_bytes, request.max_bytes),
        Isolation.LAST_STABLE if is_committed else Isolation.HIGH_WATERMARK,
        is_hard_limit=call.api_version < FIRST_SOFT_LIMIT_VERSION,
    )


def _name(topic: FetchTopic, call: Call) -> str | None:
    """`None` for an id that nobody knows."""
    if call.api_version < FIRST_TOPIC_ID_VERSION:
        return topic.topic
    known = call.broker.topics.find_by_id(topic.topic_id)
    return known.name if known else None


class _Answering:
    """What an answer needs of its request, for now or for later."""

    __slots__ = ("_broker", "_magic", "_query", "_request")

    def __init__(self, request: FetchRequest, query: FetchQuery, call: Call) -> None:
        self._request = request
        self._query = query
        self._broker = call.broker
        self._magic = MAGIC_BY_VERSION.get(call.api_version)

    def answer(self, result: FetchResult) -> FetchResponse:
        pairs = iter(zip(self._query.partitions, result.partitions, strict=True))
        topics = []
        for topic in self._request.topics:
            partitions = [self._partition(*next(pairs)) for _ in topic.partitions]
            topics.append(
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
                )
            )
        return FetchResponse(responses=topics)

    def _partition(self, wanted: PartitionQuery, data: FetchData | ApiError) -> PartitionData:
        if isinstance(data, ApiError):
            return _refusal(wanted.index, data)
        answer = _data(wanted.index, data)
        if self._magic is not None:
            try:
                answer.records = convert(data, self._magic, wanted, self._broker)
            except ApiError as error:
                return _refusal(wanted.index, error)
        return answer


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


def _refusal(index: int, error: ApiError) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error.code,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
