"""LeaderAndIsr, 0 to 7: the controller makes this broker leader or follower of partitions.

The settings of topics that are new here are read from ZooKeeper first, and the answer waits for
them. Kafka's counterpart: `ReplicaManager.becomeLeaderOrFollower`.
"""

from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.base.timestamps import Timestamps
from ottla.base.turns import turn_dict
from ottla.broker.replication.replica_manager import Applied
from ottla.controller.requests import LeaderAndIsr
from ottla.controller.settings import read_settings
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ottla.server.dispatching.request_context import (
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.server.orders.applying import apply_in_parts, membership_of, replicas_of
from ottla.server.orders.decoding import leader_and_isr, sender_of

FIRST_TOPIC_ID_VERSION = 5


def handle(
    request: LeaderAndIsrRequest, context: RequestContext
) -> LeaderAndIsrResponse | PendingResponse:
    order = leader_and_isr(request)
    topics = context.broker.topics
    new = turn_dict(
        (place.topic, None)
        for place in replicas_of(context).to_host(order)
        if topics.find(place.topic) is None
    )
    if not new:
        return _apply(order, request, context)
    entities = turn_dict((f"topics/{topic}", topic) for topic in new)
    reading = membership_of(context).run(lambda: read_settings(entities))

    def go_on(at: Timestamps) -> LeaderAndIsrResponse:
        found = {entities[one]: its for one, its in (reading.result or {}).items()}
        return _apply(replace(order, settings=found), request, context.later(at))

    return LongPendingAnswer(reading, go_on)


def _apply(
    order: LeaderAndIsr, request: LeaderAndIsrRequest, context: RequestContext
) -> LeaderAndIsrResponse:
    replicas, sender = replicas_of(context), sender_of(request)
    if not all(place in replicas.partitions for place in order.orders):
        context.may_take_long()
        if replicas.manager.refusal_of(sender) is ErrorCode.NONE:
            replicas.make_logs(order)
    applied = apply_in_parts(replicas.postpone(order), sender, context)
    if applied.error is ErrorCode.STALE_BROKER_EPOCH:
        return LeaderAndIsrResponse(error_code=applied.error)
    if context.api_version < FIRST_TOPIC_ID_VERSION:
        return LeaderAndIsrResponse(
            error_code=applied.error,
            partition_errors=[
                LeaderAndIsrPartitionError(
                    topic_name=one.topic,
                    partition_index=one.partition,
                    error_code=applied.errors.get(one, applied.error),
                )
                for one in order.orders
            ],
        )
    return LeaderAndIsrResponse(error_code=applied.error, topics=_topics(order, applied))


def _topics(order: LeaderAndIsr, applied: Applied) -> list[LeaderAndIsrTopicError]:
    topics: dict[str, LeaderAndIsrTopicError] = turn_dict()
    for one in order.orders:
        topic = topics.get(one.topic)
        if topic is None:
            topic_id = order.topic_ids.get(one.topic, ZERO_UUID)
            topic = topics[one.topic] = LeaderAndIsrTopicError(topic_id=topic_id)
        error = LeaderAndIsrPartitionError(
            partition_index=one.partition, error_code=applied.errors.get(one, applied.error)
        )
        topic.partition_errors.append(error)
    return [*topics.values()]
