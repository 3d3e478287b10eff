"""Requests about topics and about settings of all kinds."""

from typing import Any

from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_topic_partitions,
    incremental_alter_configs,
    metadata,
)
from tests.unit.server.authorization.row import GROUP, TOPIC, TOPIC_ID, C, G, Op, Row, T


def metadata_request(name: str | None = TOPIC, **more: Any) -> Message:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name, **more)])


def config(module: Any, kind: int, name: str) -> Any:
    resource = getattr(module, "DescribeConfigsResource", None) or module.AlterConfigsResource
    return resource(resource_type=kind, resource_name=name)


ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.METADATA: [
        Row(metadata_request, 9, ((Op.DESCRIBE, T),)),
        Row(lambda: metadata_request(None, topic_id=TOPIC_ID), 12, ((Op.DESCRIBE, T),)),
        Row(
            lambda: metadata.MetadataRequest(topics=None),
            9,
            ((Op.DESCRIBE, T),),
            shows=lambda answer: [one.name for one in answer.topics],
        ),
    ],
    ApiKey.CREATE_TOPICS: [
        Row(
            lambda: create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
                ],
                validate_only=True,
            ),
            5,
            ((Op.CREATE, T),),
        )
    ],
    ApiKey.DELETE_TOPICS: [
        Row(lambda: delete_topics.DeleteTopicsRequest(topic_names=[TOPIC]), 3, ((Op.DELETE, T),)),
        Row(
            lambda: delete_topics.DeleteTopicsRequest(
                topics=[delete_topics.DeleteTopicState(name=None, topic_id=TOPIC_ID)]
            ),
            6,
            ((Op.DELETE, T),),
        ),
    ],
    ApiKey.CREATE_PARTITIONS: [
        Row(
            lambda: create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(name=TOPIC, count=2, assignments=None)
                ],
                validate_only=True,
            ),
            2,
            ((Op.ALTER, T),),
        )
    ],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
        Row(
            lambda: describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=TOPIC)], cursor=None
            ),
            0,
            ((Op.DESCRIBE, T),),
        ),
        Row(
            lambda: describe_topic_partitions.DescribeTopicPartitionsRequest(cursor=None),
            0,
            ((Op.DESCRIBE, T),),
            shows=lambda answer: answer.topics,
        ),
    ],
    ApiKey.DESCRIBE_CONFIGS: [
        Row(
            lambda kind=kind, name=name: describe_configs.DescribeConfigsRequest(  # type: ignore[misc]
                resources=[config(describe_configs, kind, name)]
            ),
            4,
            ((Op.DESCRIBE_CONFIGS, resource),),
        )
        for kind, name, resource in ((2, TOPIC, T), (4, "", C), (32, GROUP, G))
    ],
    ApiKey.ALTER_CONFIGS: [
        Row(
            lambda kind=kind, name=name: alter_configs.AlterConfigsRequest(  # type: ignore[misc]
                resources=[config(alter_configs, kind, name)], validate_only=True
            ),
            2,
            ((Op.ALTER_CONFIGS, resource),),
        )
        for kind, name, resource in ((2, TOPIC, T), (4, "", C), (32, GROUP, G))
    ],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [
        Row(
            lambda kind=kind, name=name: incremental_alter_configs.IncrementalAlterConfigsRequest(  # type: ignore[misc]
                resources=[config(incremental_alter_configs, kind, name)], validate_only=True
            ),
            1,
            ((Op.ALTER_CONFIGS, resource),),
        )
        for kind, name, resource in ((2, TOPIC, T), (4, "", C), (32, GROUP, G))
    ],
}
