"""Produce, 0 to 13: appends batches to partitions, and answers once they are written out.

Versions 0 to 2 carry message sets of the old formats, which are kept as the topic asks. With acks=0
there is no answer; a failure then closes the connection, so that the producer looks where to go
instead.
A batch in a transaction is let in if its partition was added to the transaction. From version 12 on
it is added here, and a log that does not know the producer takes only its first batch (KIP-890).
Kafka's counterparts: `KafkaApis.handleProduceRequest`, `ProduceRequest.validateRecords`.
"""

from collections.abc import Iterable
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.files import Buffer
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns
from ottla.broker.background import Prepared
from ottla.broker.topics.topics import INTERNAL_TOPICS
from ottla.codec.compression import Compression
from ottla.coordinator.transaction.requests import ProducerClaim
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.record.batch import CODEC_MASK, TRANSACTIONAL_BIT
from ottla.record.layout import (
    ATTRIBUTES_END,
    LENGTH_END,
    LENGTH_POSITION,
    PRODUCER_POSITION,
    struct_of,
)
from ottla.server.fencing import refusal_of_write
from ottla.server.request_context import PendingResponse, RequestContext
from ottla.storage.log.append import InvalidRecordsError, LongPreparationError, PreparedRecords

ACKS = (-1, 0, 1)

FIRST_BATCH_VERSION: Final = 3
"""From here on, a partition's records are exactly one batch of magic 2 (KIP-98)."""

FIRST_ZSTD_VERSION: Final = 7
FIRST_ABORTABLE_VERSION: Final = 11
FIRST_ADDING_VERSION: Final = 12
FIRST_TOPIC_ID_VERSION: Final = 13

BATCH_START: Final = struct_of("length", "magic", "attributes")
PRODUCER: Final = struct_of("producer_id", "producer_epoch", "base_sequence")

MANY: Final = 50
"""Partitions that are appended to in less than 5 ms."""

_unpack_start = BATCH_START.unpack_from


class LongAppend:
    """A partition's records that are prepared elsewhere, and whose answer must wait."""

    __slots__ = ("answers", "data", "name", "place", "work")

    def __init__(
        self,
        name: str | None,
        data: PartitionProduceData,
        answers: list[PartitionProduceResponse],
        work: LongPreparationError,
    ) -> None:
        self.name = name
        self.data = data
        self.answers = answers
        self.place = len(answers)
        self.work = work


def handle(
    request: ProduceRequest, context: RequestContext
) -> ProduceResponse | PendingResponse | None:
    long: list[LongAppend] = []
    topics: Iterable[TopicProduceData] = request.topic_data
    if len(request.topic_data) > 1:
        topics = in_turns(topics)
    response = ProduceResponse(
        responses=[_append_topic(one, request, context, long) for one in topics]
    )
    if not long:
        return _answer(response, request)
    api_version = context.api_version

    def finish(prepared: list[Prepared]) -> ProduceResponse | None:
        for one, records in in_turns(zip(long, prepared, strict=True)):
            context.api_version = api_version  # others have been served meanwhile
            one.answers[one.place] = _append_prepared(one, records, request, context)
        return _answer(response, request)

    later = PendingResponse(context.broker.prepare([one.work for one in long]), finish)
    later.takes_long = len(long) > MANY
    return later


def _answer(response: ProduceResponse, request: ProduceRequest) -> ProduceResponse | None:
    if request.acks == 0:
        _close_on_failure(response)
        return None
    return response


def _append_topic(
    topic: TopicProduceData,
    request: ProduceRequest,
    context: RequestContext,
    long: list[LongAppend],
) -> TopicProduceResponse:
    name: str | None = topic.name
    if context.api_version >= FIRST_TOPIC_ID_VERSION:
        known = context.broker.topics.find_by_id(topic.topic_id)
        name = known.name if known else None
    answers: list[PartitionProduceResponse] = []
    partitions: Iterable[PartitionProduceData] = topic.partition_data
    if len(topic.partition_data) > 1:
        partitions = in_turns(partitions)
    for data in partitions:
        try:
            answers.append(_append(name, data, request, context))
        except ApiError as error:
            answers.append(_refusal(data.index, error))
        except LongPreparationError as work:
            long.append(LongAppend(name, data, answers, work))
            answers.append(PartitionProduceResponse(index=data.index))
    return TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=answers
    )


def _append_prepared(
    one: LongAppend, records: Prepared, request: ProduceRequest, context: RequestContext
) -> PartitionProduceResponse:
    """Checks all again but the records: much may have happened since."""
    try:
        if isinstance(records, ApiError):
            raise records
        return _append(one.name, one.data, request, context, records)
    except ApiError as error:
        return _refusal(one.data.index, error)


def _append(
    name: str | None,
    data: PartitionProduceData,
    request: ProduceRequest,
    context: RequestContext,
    prepared: PreparedRecords | None = None,
) -> PartitionProduceResponse:
    acks = request.acks
    if acks not in ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if name is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if name in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{name}' is written by the broker.")
    records = data.records
    if records is None or not len(records):
        raise ApiError(ErrorCode.INVALID_RECORD, "A partition without records.")
    if context.api_version >= FIRST_BATCH_VERSION and _check_batch(records, context.api_version):
        _admit(TopicPartition(name, data.index), request.transactional_id, records, context)
    info = context.broker.append(
        name, data.index, prepared or records, now_ms=context.at.now_ms, acks=acks
    )
    return PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def _check_batch(records: Buffer, api_version: int) -> bool:
    """One whole batch of magic 2, in a codec that this version of the request knows.

    Returns whether it belongs to a transaction.
    """
    if len(records) < ATTRIBUTES_END:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A record batch is cut short.")
    length, magic, attributes = _unpack_start(records, LENGTH_POSITION)
    if magic != 2:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Version {api_version} of the request carries batches of magic 2, not {magic}.",
        )
    if length + LENGTH_END < len(records):
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Version {api_version} of the request carries one batch per partition.",
        )
    if api_version < FIRST_ZSTD_VERSION and attributes & CODEC_MASK == Compression.ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return bool(attributes & TRANSACTIONAL_BIT)


def _admit(
    where: TopicPartition, transactional_id: str | None, records: Buffer, context: RequestContext
) -> None:
    """Raises `ApiError` unless the batch may go into the partition in its transaction."""
    if transactional_id is None:
        raise ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "A batch of a transaction came in a request without a transactional id.",
        )
    if len(records) < PRODUCER_POSITION + PRODUCER.size:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A record batch is cut short.")
    producer_id, epoch, sequence = PRODUCER.unpack_from(records, PRODUCER_POSITION)
    log = context.broker.topics.partition(*where).log
    claim = ProducerClaim(transactional_id=transactional_id, producer_id=producer_id, epoch=epoch)
    can_add = context.api_version >= FIRST_ADDING_VERSION
    if can_add and sequence and producer_id not in log.producers.entries:
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Producer {producer_id} begins here with sequence {sequence}; 0 was next.",
        )
    refusal = context.broker.transactions.admit(claim, where, context.at, can_add=can_add)
    if refusal:
        knows_abortable = context.api_version >= FIRST_ABORTABLE_VERSION
        raise ApiError(
            refusal_of_write(refusal, knows_abortable=knows_abortable),
            f"The partition is not in the transaction of {transactional_id}: {refusal.name}.",
        )


def _refusal(index: int, error: ApiError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, error_message=error.message
    )
    if isinstance(error, InvalidRecordsError):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=one.index, batch_index_error_message=one.message)
            for one in error.records
        ]
    return answer


def _close_on_failure(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise ProtocolError(
                    f"a produce with acks=0 to {topic.name}-{partition.index} failed: "
                    f"{partition.error_message}"
                )
