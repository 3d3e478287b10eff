"""DescribeTopicPartitions, 0: topics in order of name, page by page, as the controller has said.

Kafka's counterpart: `DescribeTopicPartitionsRequestHandler` (KIP-966), which brokers with ZooKeeper
lack.
"""

from ottla.base.ids import ZERO_UUID
from ottla.base.turns import in_turns
from ottla.broker.replication.metadata_cache import PartitionView
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.server.cluster.applying import replicas_of
from ottla.server.handlers.describe_topic_partitions import (
    MayDescribe,
    everything,
    page,
    why_missing,
)
from ottla.server.operations import TOPIC_OPERATIONS
from ottla.server.request_context import RequestContext


def handle(
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,
    may_describe: MayDescribe = everything,
) -> DescribeTopicPartitionsResponse:
    context.may_take_long()
    cache, listener = replicas_of(context).metadata, context.client.listener

    def describe(name: str) -> DescribeTopicPartitionsResponseTopic:
        answer = DescribeTopicPartitionsResponseTopic(
            name=name, topic_authorized_operations=TOPIC_OPERATIONS
        )
        if name not in cache.topics:
            answer.error_code = why_missing(name)
            return answer
        answer.topic_id = cache.topic_ids.get(name, ZERO_UUID)
        answer.is_internal = name in INTERNAL_TOPICS
        answer.partitions = [_partition(one) for one in in_turns(cache.partitions(name, listener))]
        return answer

    names = [name for name in in_turns(list(cache.topics)) if may_describe(name)]
    return page(request, names, context, describe)


def _partition(view: PartitionView) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=view.error,
        partition_index=view.partition,
        leader_id=view.leader,
        leader_epoch=view.leader_epoch,
        replica_nodes=list(view.replicas),
        isr_nodes=list(view.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(view.offline),
    )
