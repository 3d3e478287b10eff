"""Requests to share coordinators: states by topic and partition, each with an answer of its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.base.turns import in_turns, turn_list
from ottla.broker.membership.state_requests import StateRequest
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond


class Form(NamedTuple):
    """How one of these requests is read and answered: what is asked of a partition, its result,
    those of a topic, and the response.
    """

    asked: Callable[[SharePartitionKey, Any], StateRequest]
    result: Callable[[int, ShareStateAnswer], Any]
    topic: Callable[..., Any]
    response: Callable[..., Message]


def answer_by_partition(
    request: Any, context: RequestContext, form: Form
) -> Message | PendingResponse:
    """Asks the coordinator of this broker, and answers once everything is committed."""
    requests = turn_list(
        form.asked(SharePartitionKey(request.group_id, topic.topic_id, one.partition), one)
        for topic in request.topics
        for one in topic.partitions
    )

    def response(answers: list[ShareStateAnswer]) -> Message:
        left = iter(in_turns(answers))
        return form.response(
            results=[
                form.topic(
                    topic_id=topic.topic_id,
                    partitions=[form.result(one.partition, next(left)) for one in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    return respond(context.broker.share_coordinator.answer_all(requests, context.at), response)
