"""Requests about a group that is changed in turns wait until that is over.

Joins, syncs and departures of a group of many members are decided and carried out in turns
(`GroupCoordinator.changing`). A request that comes meanwhile is answered by what is then.
Kafka's counterpart: the lock of a group, and the queue of events of `CoordinatorRuntime`.
"""

from typing import Any

from ottla.base.timestamps import Timestamps
from ottla.codec.schema import Message
from ottla.server.dispatching.request_context import (
    Handler,
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
)


def one_at_a_time(handle: Handler) -> Handler:
    """Wraps a handler of requests with a `group_id`. Other arguments, which guards of
    `server/authorization` pass, are passed on.
    """

    def handle_in_order(
        request: Any, context: RequestContext, *told: Any
    ) -> Message | PendingResponse | None:
        change = context.broker.groups.change_of(request.group_id)
        if change is None:
            return handle(request, context, *told)

        def go_on(at: Timestamps) -> Message | PendingResponse:
            answer = handle_in_order(request, context.later(at), *told)
            assert answer is not None, "a request about a group is always answered"
            return answer

        return LongPendingAnswer(change, go_on)

    return handle_in_order
