"""Requests of groups, asked without a socket: what their handlers' tests share."""

from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.server.dispatching.apis import APIS
from tests.support.asking import Asker
from tests.support.brokers import disk, open_broker


def each_version(key: ApiKey, first: int = 0) -> Any:
    """Runs a test with every `version` of an API that is answered, from `first` on."""
    versions = range(max(first, APIS[key].oldest), APIS[key].newest + 1)
    return pytest.mark.parametrize("version", versions)


def group_asker() -> Asker:
    """A client of a broker with a topic "t" of two partitions."""
    broker = open_broker(
        disk("/d"),
        offsets_topic_num_partitions="2",
        group_initial_rebalance_delay_ms="0",
        log_index_size_max_bytes="120",
    )
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    return Asker(broker)


def commit_request(
    version: int, broker: Broker, *indexes: int, group_id: str = "g"
) -> OffsetCommitRequest:
    """Commits offset 10 in partition 0, 11 in partition 1, from outside the group."""
    topic = OffsetCommitRequestTopic(
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=10 + index,
                committed_metadata="meta",
                committed_leader_epoch=4 if version >= 6 else -1,
            )
            for index in indexes
        ]
    )
    if version >= 10:
        topic.topic_id = broker.topics.get("t").topic_id
    else:
        topic.name = "t"
    return OffsetCommitRequest(group_id=group_id, topics=[topic])
