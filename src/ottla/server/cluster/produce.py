"""Produce, 0 to 13: versions 10 and above name the leader to a client that knows an old one.

Kafka's counterpart: `KafkaApis.handleProduceRequest`.
"""

from typing import Final

from ottla.base.turns import in_turns
from ottla.codec.schema import Message
from ottla.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    ProduceRequest,
    ProduceResponse,
)
from ottla.server.cluster.current_leaders import MOVED, Moved, name_leaders
from ottla.server.handlers import produce
from ottla.server.request_context import PendingResponse, RequestContext, amended

FIRST_LEADER_VERSION: Final = 10


def handle(request: ProduceRequest, context: RequestContext) -> Message | PendingResponse | None:
    answer = produce.handle(request, context)
    if context.api_version < FIRST_LEADER_VERSION:
        return answer

    def amend(response: ProduceResponse) -> None:
        moved = [
            Moved(topic.name, topic.topic_id, one.index, one)
            for topic in in_turns(response.responses)
            for one in in_turns(topic.partition_responses)
            if one.error_code in MOVED
        ]
        if moved:
            response.node_endpoints = name_leaders(moved, LeaderIdAndEpoch, NodeEndpoint, context)

    return amended(answer, amend)
