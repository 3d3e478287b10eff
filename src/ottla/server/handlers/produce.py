"""Produce, 0 to 13: appends batches to partitions, and answers once they are written out.

Versions 0 to 2 carry message sets of the old formats, which are kept as the topic asks. With acks=0
there is no response; a failure then closes the connection, so that the producer refreshes its
metadata.
A batch in a transaction is accepted if its partition was added to the transaction, which the
transaction's coordinator says. From version 12 on it is added now, and a log without the producer's
state takes only its first batch (KIP-890).
Kafka's counterparts: `KafkaApis.handleProduceRequest`, `ProduceRequest.validateRecords`.
"""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, InvalidRecordsError, ProtocolError
from ottla.base.files import Buffer
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_turns
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic
from ottla.broker.waiting.background import Prepared
from ottla.broker.waiting.rooms import DelayedOperation
from ottla.codec.compression import Compression
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.record.batch import (
    CODEC_MASK,
    TRANSACTIONAL_BIT,
    InvalidBatchError,
    RecordBatch,
    iter_batches,
)
from ottla.record.layout import MAGIC_POSITION
from ottla.server.dispatching.request_context import PendingResponse, RequestContext
from ottla.server.handling.fencing import refusal_of_write
from ottla.storage.log.append import LongPreparationError, PreparedRecords

if TYPE_CHECKING:
    from ottla.broker.transactions.admissions import Admission
    from ottla.coordinator.transaction.requests import ProducerClaim

ACKS = (-1, 0, 1)
ACKS_ALL: Final = -1

FIRST_BATCH_VERSION: Final = 3
"""From here on, a partition's records are exactly one batch of magic 2 (KIP-98)."""

FIRST_ZSTD_VERSION: Final = 7
FIRST_LEADER_VERSION: Final = 10
FIRST_ABORTABLE_VERSION: Final = 11
FIRST_ADDING_VERSION: Final = 12
FIRST_TOPIC_ID_VERSION: Final = 13

MANY: Final = 50
"""Number of partitions whose appends take less than 5 ms."""

WITHOUT_ID: Final = "A batch of a transaction came in a request without a transactional id."


class Write(NamedTuple):
    """A request, and what its records wait for before and after they are appended."""

    request: ProduceRequest
    context: RequestContext
    admission: "Admission | None"
    """What the coordinator of the transaction says, if the request is in one."""
    commit: "Commit | None"


class LongAppend:
    """A partition's records that are prepared in another thread, and whose response must wait."""

    __slots__ = ("answers", "data", "place", "topic", "work")

    def __init__(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        answers: list[PartitionProduceResponse],
        work: LongPreparationError,
    ) -> None:
        self.topic = topic
        self.data = data
        self.answers = answers
        self.place = len(answers)
        self.work = work


class PendingProduce(PendingResponse):
    """The response to a request of which some records are prepared in another thread."""

    __slots__ = ("_long", "_preparation", "_response", "_write")

    def __init__(self, write: Write, response: ProduceResponse, long: list[LongAppend]) -> None:
        self._preparation = write.context.broker.appends.prepare([one.work for one in long])
        super().__init__(self._preparation)
        self._write = write
        self._response = response
        self._long = long
        self.takes_long = len(long) > MANY

    def finish(self, at: Timestamps) -> ProduceResponse | PendingResponse | None:
        prepared = self._preparation.result
        assert prepared is not None
        write = self._write._replace(context=self._write.context.later(at))
        for one, records in in_turns(zip(self._long, prepared, strict=True)):
            one.answers[one.place] = _append_prepared(one, records, write)
        return _answer(self._response, write)


class Commit:
    """A request with acks=all in a cluster, which waits until other replicas have its records."""

    __slots__ = ("_awaited", "pending")

    def __init__(self, pending: DelayedOperation) -> None:
        self.pending = pending
        self._awaited: list[tuple[Hashable, PartitionProduceResponse]] = []

    def wait(
        self, partition: Partition, required_offset: int, answer: PartitionProduceResponse
    ) -> None:
        assert partition.replication is not None
        key = partition.replication.await_commit(self.pending, required_offset)
        self._awaited.append((key, answer))

    def amend(self) -> None:
        """Adds the errors to the responses."""
        for key, answer in self._awaited:
            error = self.pending.errors.get(key)
            if error is not None:
                answer.error_code = error


class PendingCommit(PendingResponse):
    """The response to a request with acks=all."""

    __slots__ = ("_commit", "_context", "_response")

    def __init__(self, commit: Commit, response: ProduceResponse, context: RequestContext) -> None:
        super().__init__(commit.pending)
        self._commit = commit
        self._context = context
        self._response = response

    def finish(self, at: Timestamps) -> ProduceResponse:
        self._commit.amend()
        return _named_leaders(self._response, self._context)


def handle(
    request: ProduceRequest, context: RequestContext
) -> ProduceResponse | PendingResponse | None:
    admission = None
    if request.transactional_id is not None and context.api_version >= FIRST_BATCH_VERSION:
        admission = _admission(request, request.transactional_id, context)
    if admission is None or not admission.is_pending:
        return _append_all(request, context, admission)
    return PendingAdmission(request, context, admission)


class PendingAdmission(PendingResponse):
    """The response to a request whose transaction's coordinator is still being asked."""

    __slots__ = ("_admission", "_context", "_request")

    def __init__(
        self, request: ProduceRequest, context: RequestContext, admission: "Admission"
    ) -> None:
        super().__init__(admission.waiting)
        self._admission = admission
        self._context = context
        self._request = request
        self.takes_long = sum(len(one.partition_data) for one in request.topic_data) > MANY

    def finish(self, at: Timestamps) -> ProduceResponse | PendingResponse | None:
        return _append_all(self._request, self._context.later(at), self._admission)


def _append_all(
    request: ProduceRequest, context: RequestContext, admission: "Admission | None"
) -> ProduceResponse | PendingResponse | None:
    long: list[LongAppend] = []
    commit: Commit | None = None
    if request.acks == ACKS_ALL:
        deadline_ms = context.at.monotonic_ms + request.timeout_ms
        pending = context.broker.replicas.commit_by(deadline_ms)
        commit = None if pending is None else Commit(pending)
    topics: Iterable[TopicProduceData] = request.topic_data
    if len(request.topic_data) > 1:
        topics = in_turns(topics)
    write = Write(request, context, admission, commit)
    response = ProduceResponse(responses=[_append_topic(one, write, long) for one in topics])
    if long:
        return PendingProduce(write, response, long)
    return _answer(response, write)


def _answer(response: ProduceResponse, write: Write) -> ProduceResponse | PendingResponse | None:
    context, commit = write.context, write.commit
    if write.request.acks == 0:
        _close_on_failure(response)
        return None
    if commit is not None and not commit.pending.all_awaited():
        return PendingCommit(commit, response, context)
    return _named_leaders(response, context)


def _named_leaders(response: ProduceResponse, context: RequestContext) -> ProduceResponse:
    """Adds the leaders of partitions that the client finds elsewhere (KIP-951)."""
    if context.api_version >= FIRST_LEADER_VERSION and _has_error(response):
        from ottla.server.handling.current_leaders import MOVED, Moved, name_leaders

        moved = [
            Moved(topic.name, topic.topic_id, one.index, one)
            for topic in in_turns(response.responses)
            for one in in_turns(topic.partition_responses)
            if one.error_code in MOVED
        ]
        if moved:
            response.node_endpoints = name_leaders(moved, LeaderIdAndEpoch, NodeEndpoint, context)
    return response


def _has_error(response: ProduceResponse) -> bool:
    for topic in response.responses:
        for one in topic.partition_responses:
            if one.error_code:
                return True
    return False


def _append_topic(
    wanted: TopicProduceData, write: Write, long: list[LongAppend]
) -> TopicProduceResponse:
    topic = _find_topic(wanted, write.context)
    answers: list[PartitionProduceResponse] = []
    partitions: Iterable[PartitionProduceData] = wanted.partition_data
    if len(wanted.partition_data) > 1:
        partitions = in_turns(partitions)
    for data in partitions:
        try:
            answers.append(_append(topic, data, write, None))
        except ApiError as error:
            answers.append(_refusal(wanted, data.index, error, write.context))
        except LongPreparationError as work:
            long.append(LongAppend(wanted, data, answers, work))
            answers.append(PartitionProduceResponse(index=data.index))
    return TopicProduceResponse(
        name=wanted.name, topic_id=wanted.topic_id, partition_responses=answers
    )


def _find_topic(wanted: TopicProduceData, context: RequestContext) -> Topic | ApiError:
    """The topic, or the error for which nothing can be appended to it."""
    topics = context.broker.topics
    has_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    topic = topics.find_by_id(wanted.topic_id) if has_id else topics.find(wanted.name)
    if topic is not None and not topic.is_internal:
        return topic
    name = wanted.name if topic is None else topic.name
    if name in INTERNAL_TOPICS:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{name}' is written by the broker.")
    return ApiError(ErrorCode.UNKNOWN_TOPIC_ID if has_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _append_prepared(one: LongAppend, records: Prepared, write: Write) -> PartitionProduceResponse:
    """Checks everything except the records again, since others were served meanwhile."""
    try:
        if isinstance(records, ApiError):
            raise records
        topic = _find_topic(one.topic, write.context)
        return _append(topic, one.data, write, records)
    except ApiError as error:
        return _refusal(one.topic, one.data.index, error, write.context)


def _append(
    topic: Topic | ApiError,
    data: PartitionProduceData,
    write: Write,
    prepared: PreparedRecords | None,
) -> PartitionProduceResponse:
    acks, context, commit = write.request.acks, write.context, write.commit
    if acks not in ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if not isinstance(topic, Topic):
        # A new error: the old one's traceback would keep a frame with all partitions' errors.
        raise ApiError(topic.code, topic.message)
    partition = topic.partition(data.index)
    records = data.records
    if records is None or not len(records):
        raise ApiError(ErrorCode.INVALID_RECORD, "A partition without records.")
    batch: RecordBatch | None = None
    if context.api_version >= FIRST_BATCH_VERSION:
        batch = _only_batch(records, context.api_version)
        if batch.attributes & TRANSACTIONAL_BIT:
            _admit(partition, batch, write)
    elif _has_transactional(records):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, WITHOUT_ID)
    info = context.broker.appends.append(
        partition, prepared or batch or records, now_ms=context.at.now_ms, acks=acks
    )
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    if commit is not None:
        commit.wait(partition, info.last_offset + 1, answer)
    return answer


def _has_transactional(records: Buffer) -> bool:
    """Whether a v2 batch in a request without a transactional id is transactional.

    Damaged batches are refused later.
    """
    if len(records) <= MAGIC_POSITION or records[MAGIC_POSITION] != 2:
        return False
    try:
        return any(one.is_transactional for one in iter_batches(records))
    except InvalidBatchError:
        return False


def _only_batch(records: Buffer, api_version: int) -> RecordBatch:
    """The single batch of magic 2, in a codec that this request version knows."""
    try:
        batch = RecordBatch(records)
    except InvalidBatchError as error:
        if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] != 2:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"Version {api_version} of the request carries batches of magic 2, "
                f"not {records[MAGIC_POSITION]}.",
            ) from None
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Damaged record batch: {error}.") from error
    if batch.size != len(records):
        if batch.size > len(records):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A record batch is cut short.")
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Version {api_version} of the request carries one batch per partition.",
        )
    if api_version < FIRST_ZSTD_VERSION and batch.attributes & CODEC_MASK == Compression.ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return batch


def _admit(partition: Partition, batch: RecordBatch, write: Write) -> None:
    """Raises `ApiError` unless the batch may go into the partition in its transaction."""
    transactional_id, api_version = write.request.transactional_id, write.context.api_version
    if transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, WITHOUT_ID)
    claim = _claim_of(batch, transactional_id)
    if api_version >= FIRST_ADDING_VERSION and not _begins_well(partition, batch):
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Producer {claim.producer_id} begins here with sequence {batch.base_sequence}; 0 was "
            "next.",
        )
    # Without an answer, its log or its leadership has changed since the coordinator was asked.
    refusal = (
        ErrorCode.NOT_COORDINATOR
        if write.admission is None
        else write.admission.refusal(partition, claim)
    )
    if refusal:
        raise ApiError(
            refusal_of_write(refusal, knows_abortable=api_version >= FIRST_ABORTABLE_VERSION),
            f"The partition is not in the transaction of {transactional_id}: {refusal.name}.",
        )


def _begins_well(partition: Partition, batch: RecordBatch) -> bool:
    return not batch.base_sequence or batch.producer_id in partition.log.producers.entries


def _claim_of(batch: RecordBatch, transactional_id: str) -> "ProducerClaim":
    from ottla.coordinator.transaction.requests import ProducerClaim

    return ProducerClaim(
        transactional_id=transactional_id,
        producer_id=batch.producer_id,
        epoch=batch.producer_epoch,
    )


def _admission(
    request: ProduceRequest, transactional_id: str, context: RequestContext
) -> "Admission | None":
    """Asks the transaction's coordinator about the partitions; what is wrong with one is found when
    its records are appended. `None` without a batch in a transaction.
    """
    claim: ProducerClaim | None = None
    partitions = []
    can_add = context.api_version >= FIRST_ADDING_VERSION
    for wanted in in_turns(request.topic_data):
        topic = _find_topic(wanted, context)
        if isinstance(topic, ApiError):
            continue
        for data in in_turns(wanted.partition_data):
            try:
                partition = topic.partition(data.index)
                batch = _only_batch(data.records or b"", context.api_version)
            except ApiError:
                continue
            if batch.attributes & TRANSACTIONAL_BIT:
                claim = claim or _claim_of(batch, transactional_id)
                if not can_add or _begins_well(partition, batch):
                    partitions.append(partition)
    if claim is None:
        return None
    transactions = context.broker.transactions
    return transactions.admission(claim, partitions, context.at, can_add=can_add)


def _refusal(
    wanted: TopicProduceData, index: int, error: ApiError, context: RequestContext
) -> PartitionProduceResponse:
    error = context.broker.fetches.refusal(error, wanted.name, index, wanted.topic_id)
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
