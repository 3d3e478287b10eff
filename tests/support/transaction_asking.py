"""Requests of transactional producers, asked without a socket: what their handlers' tests share."""

from typing import Any

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.add_offsets_to_transaction import AddOffsetsToTransactionRequest
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsTopic,
    AddPartitionsToTransactionRequest,
    AddPartitionsTransaction,
)
from ottla.protocol.messages.end_transaction import EndTransactionRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.messages.transaction_offset_commit import (
    TransactionOffsetCommitRequest,
    TransactionOffsetCommitRequestPartition,
    TransactionOffsetCommitRequestTopic,
)
from ottla.record.builder import RecordBatchBuilder
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, disk, open_broker


def transaction_asker(**settings: str) -> Asker:
    """A client of a broker with a topic "t" of two partitions."""
    broker = open_broker(
        disk("/d"),
        offsets_topic_num_partitions="1",
        transaction_state_log_num_partitions="1",
        log_index_size_max_bytes="120",
        **settings,
    )
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    return Asker(broker)


class ProducerAsker:
    """A producer of a transactional id, with the producer's id and epoch it was last given."""

    def __init__(self, asker: Asker, transactional_id: str = "tx") -> None:
        self.asker = asker
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self.sequence = 0

    def init(self, version: int = 5, **fields: Any) -> int:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=60_000, **fields
        )
        answer = self.asker.ask(request, version)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        return int(answer.error_code)

    def add(self, *indexes: int, version: int = 3, verify_only: bool = False) -> list[int]:
        topics = [AddPartitionsTopic(name="t", partitions=list(indexes))]
        if version < 4:
            request = AddPartitionsToTransactionRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            )
            results = self.asker.ask(request, version).results_by_topic_v3_and_below
        else:
            one = AddPartitionsTransaction(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTransactionRequest(transactions=[one])
            (result,) = self.asker.ask(request, version).results_by_transaction
            assert result.transactional_id == self.transactional_id
            results = result.topic_results
        return [one.partition_error_code for one in results[0].results_by_partition]

    def add_offsets(self, version: int = 4) -> int:
        request = AddOffsetsToTransactionRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id="g",
        )
        return int(self.asker.ask(request, version).error_code)

    def commit_offset(self, offset: int, version: int = 4, **fields: Any) -> int:
        answer = self.asker.ask(self.offset_commit(offset, **fields), version)
        return int(answer.topics[0].partitions[0].error_code)

    def offset_commit(self, offset: int, **fields: Any) -> TransactionOffsetCommitRequest:
        partition = TransactionOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="m"
        )
        return TransactionOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id="g",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TransactionOffsetCommitRequestTopic(name="t", partitions=[partition])],
            **fields,
        )

    def produce(self, version: int = 9, index: int = 0) -> int:
        topic_id = self.asker.broker.topics.get("t").topic_id if version >= 13 else ZERO_UUID
        answer = self.asker.ask(self.batch_request(index, topic_id), version)
        code = int(answer.responses[0].partition_responses[0].error_code)
        self.sequence += not code
        return code

    def batch_request(
        self, index: int = 0, topic_id: Uuid = ZERO_UUID, timeout_ms: int = 0
    ) -> ProduceRequest:
        """The next batch, of one record."""
        builder = RecordBatchBuilder(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        builder.append(None, b"v", NOW_MS)
        topic = TopicProduceData(
            name="t" if topic_id == ZERO_UUID else "",
            topic_id=topic_id,
            partition_data=[PartitionProduceData(index=index, records=builder.build())],
        )
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=[topic],
        )

    def end(self, *, is_commit: bool = True, version: int = 4) -> int:
        request = EndTransactionRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = self.asker.ask(request, version)
        if version >= 5 and not answer.error_code:
            if answer.producer_epoch != self.epoch:
                self.sequence = 0
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)
