"""Guards of members of share groups, who need to read the group, and each topic."""

from collections.abc import Callable
from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.codec.schema import Message
from ottla.metadata.acls import Operation
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from ottla.server.authorization.access import Access, Answer, Guard, Handle
from ottla.server.dispatching.request_context import RequestContext

DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def of_member(response: Callable[..., Message]) -> Guard:
    """Topics are checked at each request, also those of a session."""

    def guard(
        request: ShareFetchRequest | ShareAcknowledgeRequest,
        context: RequestContext,
        access: Access,
        handle: Handle,
    ) -> Answer:
        if request.group_id and not access.group(Operation.READ, request.group_id):
            return response(error_code=DENIED, error_message=DENIED.description)
        return handle(request, context, partial(access.topic, Operation.READ))

    return guard
