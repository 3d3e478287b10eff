"""Fetch, 4 to 18: batches of many partitions, waiting up to `max_wait_ms` for `min_bytes` of them.

Answers hold slices of files, never the records themselves. Every fetch is answered in full: a
session (KIP-227) is never begun, which a client sees by the session id 0. Left out: followers,
which this broker has none of, and with them `last_fetched_epoch` and the closest replica.
Kafka's counterparts: `KafkaApis.handleFetchRequest`, `ReplicaManager.fetchMessages`.
"""

from collections.abc import Iterator

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.fetching import FetchQuery, FetchResult, PartitionQuery
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.server.call import Call, Later
from ottla.storage.partition_log import FetchData, Isolation

FIRST_TOPIC_ID_VERSION = 13
READ_COMMITTED = 1
NO_SESSION = 0


def handle(request: FetchRequest, call: Call) -> FetchResponse | Later:
    if request.session_id != NO_SESSION:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    broker = call.broker
    query = _query(request, call)
    if request.max_wait_ms <= 0:
        return _answer(request, broker.fetch(query))
    result = broker.fetch_or_wait(query, call.monotonic_ms + request.max_wait_ms)
    if isinstance(result, FetchResult):
        return _answer(request, result)
    waiting = result

    def finish() -> FetchResponse:
        assert waiting.result is not None, "the broker hands back only what is over"
        return _answer(request, waiting.result)

    return Later(waiting, finish)


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
    )


def _name(topic: FetchTopic, call: Call) -> str | None:
    """`None` for an id that nobody knows."""
    if call.api_version < FIRST_TOPIC_ID_VERSION:
        return topic.topic
    known = call.broker.topics.find_by_id(topic.topic_id)
    return known.name if known else None


def _answer(request: FetchRequest, result: FetchResult) -> FetchResponse:
    results = iter(result.partitions)
    return FetchResponse(responses=[_topic(topic, results) for topic in request.topics])


def _topic(topic: FetchTopic, results: Iterator[FetchData | ApiError]) -> FetchableTopicResponse:
    partitions = []
    for wanted in topic.partitions:
        data = next(results)
        if isinstance(data, ApiError):
            partitions.append(_refusal(wanted.partition, data))
        else:
            partitions.append(_data(wanted.partition, data))
    return FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)


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
