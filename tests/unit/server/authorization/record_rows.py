"""Requests about records: produce, fetch, offsets of the log, producers."""

from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import (
    delete_records,
    describe_producers,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from tests.support.brokers import batch
from tests.unit.server.authorization.row import GROUP, TOPIC, TOPIC_ID, TXN, C, G, Op, Row, T, X


def fetch_request(min_size: int = 0) -> Message:
    wanted = fetch.FetchPartition(partition=0, partition_max_bytes=1000)
    topic = fetch.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[wanted])
    return fetch.FetchRequest(topics=[topic], min_bytes=min_size, max_wait_ms=100 * min_size)


def produce_request(transactional_id: str | None = None) -> Message:
    data = produce.PartitionProduceData(index=0, records=bytes(batch(b"v")))
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=1,
        topic_data=[produce.TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=[data])],
    )


ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.PRODUCE: [
        Row(produce_request, 9, ((Op.WRITE, T),)),
        Row(lambda: produce_request(TXN), 9, ((Op.WRITE, X), (Op.WRITE, T))),
        Row(produce_request, 13, ((Op.WRITE, T),)),
    ],
    ApiKey.FETCH: [
        Row(fetch_request, 11, ((Op.READ, T),)),
        Row(fetch_request, 13, ((Op.READ, T),)),
    ],
    ApiKey.LIST_OFFSETS: [
        Row(
            lambda: list_offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    list_offsets.ListOffsetsTopic(
                        name=TOPIC,
                        partitions=[
                            list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
                        ],
                    )
                ],
            ),
            5,
            ((Op.DESCRIBE, T),),
        )
    ],
    ApiKey.DELETE_RECORDS: [
        Row(
            lambda: delete_records.DeleteRecordsRequest(
                topics=[
                    delete_records.DeleteRecordsTopic(
                        name=TOPIC,
                        partitions=[
                            delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
                        ],
                    )
                ]
            ),
            2,
            ((Op.DELETE, T),),
        )
    ],
    ApiKey.INIT_PRODUCER_ID: [
        Row(
            lambda: init_producer_id.InitProducerIdRequest(
                transactional_id=TXN, transaction_timeout_ms=1000
            ),
            2,
            ((Op.WRITE, X),),
        ),
        Row(
            lambda: init_producer_id.InitProducerIdRequest(transactional_id=None),
            2,
            ((Op.IDEMPOTENT_WRITE, C),),
        ),
    ],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [
        Row(
            lambda: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=[
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        topic=TOPIC,
                        partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0)],
                    )
                ]
            ),
            3,
            ((Op.DESCRIBE, T),),
        )
    ],
    ApiKey.DESCRIBE_PRODUCERS: [
        Row(
            lambda: describe_producers.DescribeProducersRequest(
                topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])]
            ),
            0,
            ((Op.READ, T),),
        ),
        Row(
            lambda: describe_producers.DescribeProducersRequest(
                topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])],
                share_group_id=GROUP,
            ),
            0,
            ((Op.READ, T), (Op.DESCRIBE, G)),
        ),
    ],
}
