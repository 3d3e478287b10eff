"""Has a controller's handlers see what it has decided before.

A client that was told that its topic is made may delete it at once, by its id, or renew its token:
these handlers ask the node's image, which follows what is committed in turns.
"""

from typing import Any, Final

from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.server.dispatching.request_context import (
    Handler,
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.server.orders.asking import quorum_controller_of

ASK_THE_IMAGE: Final = frozenset(
    {ApiKey.DELETE_TOPICS, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}
)

LONGEST_WAIT_MS: Final = 5000.0
"""After that the request is handled by what is known."""


def after_own_decisions(handle: Handler) -> Handler:
    """Wraps a handler and its guard."""

    def handle_later(request: Any, context: RequestContext) -> Message | PendingResponse | None:
        deadline_ms = context.at.monotonic_ms + LONGEST_WAIT_MS
        waiting = quorum_controller_of(context).await_own(deadline_ms)
        if waiting is None:
            return handle(request, context)

        def known(at: Any) -> Any:
            return handle(request, context.later(at))

        return LongPendingAnswer(waiting, known)

    return handle_later
