"""Fetch, 0 to 18: versions 16 and above name the leader to a client that knows an old one.

Kafka's counterpart: `KafkaApis.handleFetchRequest`.
"""

from collections.abc import Callable
from typing import Final

from ottla.base.turns import in_turns
from ottla.codec.schema import Message
from ottla.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from ottla.server.cluster.current_leaders import MOVED, Moved, name_leaders
from ottla.server.handlers import fetch
from ottla.server.request_context import PendingResponse, RequestContext, amended

FIRST_LEADER_VERSION: Final = 16


def handle(
    request: FetchRequest,
    context: RequestContext,
    may_read: Callable[[str], bool] | None = None,
) -> Message | PendingResponse | None:
    answer = fetch.handle(request, context, may_read)
    if context.api_version < FIRST_LEADER_VERSION:
        return answer

    def amend(response: FetchResponse) -> None:
        moved = [
            Moved(topic.topic, topic.topic_id, one.partition_index, one)
            for topic in in_turns(response.responses)
            for one in in_turns(topic.partitions)
            if one.error_code in MOVED
        ]
        if moved:
            response.node_endpoints = name_leaders(moved, LeaderIdAndEpoch, NodeEndpoint, context)

    return amended(answer, amend)
